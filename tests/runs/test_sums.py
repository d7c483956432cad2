"""The SHA-256 sums of a model: what is seen, what may change, what is read."""

import hashlib
import json
from pathlib import Path

import pytest

from embedrun.errors import DataError
from embedrun.runs import sums


@pytest.fixture
def model(tmp_path) -> Path:
    folder = tmp_path / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "1_Pooling/config.json", "README.md"):
        (folder / name).write_text(name)
    sums.write(folder)
    return folder


def test_every_file_but_the_card_has_its_sum(model):
    found = json.loads((model / sums.FILE).read_text())["files"]
    assert sorted(found) == ["1_Pooling/config.json", "config.json", "model.safetensors"]
    assert found["config.json"] == {"bytes": 11, "sha256": hashlib.sha256(b"config.json").hexdigest()}


def test_the_card_may_be_edited_files_added_and_the_sums_removed(model):
    (model / "README.md").write_text("mine")
    (model / "notes.txt").write_text("mine")
    sums.verify(model, every_byte=True)
    (model / sums.FILE).unlink()
    (model / "config.json").unlink()
    sums.verify(model)  # nothing says what it was


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.write_text("Model.safetensors"), "differs from what its run wrote"),
        (lambda path: path.write_text("model"), "differs from what its run wrote"),
        (Path.unlink, "is missing"),
    ],
)
def test_damage_is_named_with_the_ways_on(model, damage, says):
    sums.verify(model)
    damage(model / "model.safetensors")
    with pytest.raises(DataError, match=rf"model\.safetensors: {says}.*copy the folder again, or remove"):
        sums.verify(model)


def test_a_large_model_is_read_whole_on_request_alone(model, monkeypatch):
    monkeypatch.setattr(sums, "AT_ONCE", 10)
    (model / "model.safetensors").write_text("Model.safetensors")  # of the same size
    sums.verify(model)
    with pytest.raises(DataError, match="differs"):
        sums.verify(model, every_byte=True)
    (model / "model.safetensors").write_text("short")
    with pytest.raises(DataError, match="differs"):
        sums.verify(model)
