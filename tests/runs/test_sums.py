"""The SHA-256 sums of a model: what is seen, what may change, what is read."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from embedrun import files
from embedrun.errors import DataError
from embedrun.experiment import data
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


def test_the_card_may_be_edited_and_files_added(model):
    (model / "README.md").write_text("mine")
    (model / "notes.txt").write_text("mine")
    sums.verify(model, every_byte=True)


def test_a_folder_without_sums_is_not_asked_for_any(model):
    (model / sums.FILE).unlink()
    (model / "config.json").unlink()
    sums.verify(model)


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


def test_verifying_and_fingerprinting_a_model_read_it_once(model, monkeypatch):
    monkeypatch.setattr(files, "_SETTLED", -(10**12))  # the inode's own time cannot be set back
    read, compute = [], hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *of: read.append(of[0].name) or compute(*of))
    sums.verify(model)
    sums.verify(model, every_byte=True)
    first = data.digest(model)
    assert len(read) == len(set(read)) == 3
    (model / "config.json").write_text("Config.json")
    os.utime(model / "config.json", ns=(0, 0))  # another time however coarse the clock is
    with pytest.raises(DataError, match=r"model/config\.json: differs"):
        sums.verify(model)
    assert data.digest(model) != first
    assert len(read) == 4


@pytest.mark.parametrize(
    "text",
    ["[]", "{",
     '{"schema": 2, "files": {}}', '{"schema": 1, "files": []}', '{"schema": 1, "files": {"a": 1}}',
     '{"schema": 1, "files": {"../a": {"bytes": 1, "sha256": ""}}}', "[" * 100_000,
     '{"schema": 1, "files": {"/etc/passwd": {"bytes": 1, "sha256": ""}}}'],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(model, text):
    (model / sums.FILE).write_text(text)
    with pytest.raises(DataError, match="is not the manifest of a model"):
        sums.verify(model)


@pytest.mark.parametrize("listed", [{}, {"\ud800": {"bytes": 1, "sha256": ""}}])
def test_a_manifest_of_no_file_or_of_a_name_that_none_has_is_refused(model, listed):
    (model / sums.FILE).write_text(json.dumps({"schema": 1, "files": listed}))
    with pytest.raises(DataError, match="is not the manifest of a model"):
        sums.verify(model)
