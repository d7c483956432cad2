"""How the trained model gets its name."""

from pathlib import Path
from types import SimpleNamespace

import operations

from embedrun.experiment import training


class Saves:
    def save(self, folder: Path) -> None:
        (folder / "pooling").mkdir(parents=True)
        (folder / "model.safetensors").write_text("weights")
        (folder / "pooling" / "config.json").write_text("{}")


def test_the_model_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(
        training.card, "write_card", lambda folder, **_: (folder / "README.md").write_text("a")
    )
    plan = SimpleNamespace(config=SimpleNamespace(name="a", backbone=SimpleNamespace(name=None)), losses=None)
    monkeypatch.setattr(training, "sources", lambda _: [])
    with operations.strike(0, operations.raise_killed, tmp_path) as done:
        training._publish(Saves(), plan, {}, "toy", {}, tmp_path)  # type: ignore[arg-type]
    last = [change for change in done if change.split()[0] in ("fsync", "rename")]
    files = ("model.safetensors", "pooling/config.json", "README.md", "pooling")
    assert set(last[:4]) == {f"fsync .tmp-model/{name}" for name in files}
    assert last[4:] == ["fsync .tmp-model", "rename .tmp-model", "fsync ."]
    assert (tmp_path / "model" / "pooling" / "config.json").is_file()
