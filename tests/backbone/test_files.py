import json
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import errors

from embedrun.backbone import files
from embedrun.errors import DataError


def model_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "tokenizer.json").write_text("{}")
    return folder


class Hub:
    """Stands in for the hub: what it answers, and what was asked of it."""

    def __init__(self, answer, download=None, cached=None):
        self.answer, self.download, self.cached = answer, download, cached
        self.patterns: list[str] = []

    def model_info(self, name, *, revision=None, timeout=None):
        return self.answer()

    def snapshot_download(self, name, *, revision=None, allow_patterns, local_files_only=False):
        self.patterns = allow_patterns
        found = self.cached if local_files_only else self.download
        if found is None:
            raise errors.LocalEntryNotFoundError("not in the cache")
        return str(found)


@pytest.fixture
def hub(monkeypatch):
    def stand_in(answer, **folders):
        made = Hub(answer, **folders)
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: made)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", made.snapshot_download)
        return made

    return stand_in


def fails(fault):
    def answer():
        raise fault

    return answer


def lists(*names):
    return lambda: SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in names])


def http(kind, status):
    response = SimpleNamespace(status_code=status, headers={}, request=None)
    return kind("from the hub", response=response)


def test_a_run_without_a_model_says_its_state_and_how_to_go_on(tmp_path):
    (tmp_path / "status.json").write_text(json.dumps({"state": "interrupted"}))
    with pytest.raises(DataError, match=r"state: interrupted.*name a finished run"):
        files.locate(str(tmp_path))


def test_a_folder_that_is_no_model_is_refused_for_what_it_lacks(tmp_path):
    with pytest.raises(DataError, match=r"no config\.json"):
        files.locate(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(DataError, match="no weights"):
        files.locate(str(tmp_path))


def test_a_hub_id_is_downloaded_without_torch_weights(tmp_path, hub):
    folder = model_folder(tmp_path / "snapshots" / "abc123")
    stand_in = hub(lists("config.json", "model.safetensors", "pytorch_model.bin"), download=folder)
    assert files.locate("owner/name") == folder
    assert files.commit_of(folder) == "abc123"
    assert not any(pattern.endswith(".bin") for pattern in stand_in.patterns)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (http(errors.RepositoryNotFoundError, 404), "the hub has no model of this name"),
        (http(errors.GatedRepoError, 403), "approved users"),
        (http(errors.RevisionNotFoundError, 404), "no such revision"),
        (ConnectionError("name resolution failed\nand more"), "ConnectionError: name resolution failed"),
        (errors.OfflineModeIsEnabled("offline mode is enabled"), "(offline mode: HF_HUB_OFFLINE is set)"),
    ],
)
def test_each_failure_of_the_hub_names_the_model_the_reason_and_the_ways_on(hub, fault, says):
    hub(fails(fault))
    with pytest.raises(DataError) as caught:
        files.locate("owner/name", "v9")
    message = str(caught.value)
    assert "model 'owner/name'" in message
    assert says in message
    assert "backbone.name=DIR" in message
    assert "experiment=quickstart" in message
    assert len(message.splitlines()) == 2  # the heading, and one line for the one problem


def test_without_the_hub_its_cache_serves(tmp_path, hub):
    folder = model_folder(tmp_path / "cached")
    hub(fails(ConnectionError("no route")), cached=folder)
    assert files.locate("owner/name") == folder
