from pathlib import Path

from embedrun.config import presets


def test_the_checkout_has_its_presets_beside_the_package():
    assert presets.folder() == Path(__file__).parents[1] / "conf"
    assert (presets.folder() / "train.yaml").is_file()


def test_a_wheel_has_them_inside_the_package(tmp_path: Path, monkeypatch):
    inside = tmp_path / "embedrun" / "conf"
    inside.mkdir(parents=True)
    (tmp_path / "conf").mkdir()
    monkeypatch.setattr(presets, "_PACKAGE", tmp_path / "embedrun")
    assert presets.folder() == inside


def test_groups_are_folders_and_choices_are_files_both_sorted(tmp_path: Path):
    for name in ("loss/b.yaml", "loss/a.yaml", "loss/notes.md", "table/angle/table2.yaml", "train.yaml"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "empty").mkdir()
    found = presets.groups(tmp_path)
    assert found == {"loss": ["a", "b"], "table/angle": ["table2"]}
    assert list(found) == ["loss", "table/angle"]


def test_our_own_groups_are_found():
    groups = presets.groups()
    assert "cpu" in groups["gpu"]
    assert "quickstart" in groups["experiment"]


def test_a_preset_is_what_it_builds_on_its_choices_and_its_own_options(tmp_path: Path):
    (tmp_path / "loss" / "own").mkdir(parents=True)
    (tmp_path / "loss" / "own" / "a.yaml").write_text(
        "defaults: [b, /loss/angle, _self_, {override /dataset: toy}, {optional gpu: cpu}]\nterms: {}\n"
    )
    (tmp_path / "train.yaml").touch()
    assert presets.read(tmp_path, "loss/own/a") == (
        ["loss/own/b", "loss/angle"],
        {"dataset": "toy", "gpu": "cpu"},
        {"terms": {}},
    )
    assert presets.read(tmp_path, "train") == ([], {}, {})
