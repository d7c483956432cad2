"""Data sets of the hub, as files.

The hub's client is the real one, with a cache folder in its own layout and no network.
"""

import json
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest

from embedrun.errors import ConfigError, DataError
from embedrun.store import hub
from embedrun.store.hub import HubFiles, files_of

COMMIT = "fedcba9876543210fedcba9876543210fedcba98"
PINNED = "0123456789abcdef0123456789abcdef01234567"
PATH = "hf://datasets/owner/name"
TWO_CONFIGS = """\
---
configs:
- config_name: pair
  data_files:
  - split: train
    path: pair/train-*
  - split: dev
    path: pair/dev.jsonl
- config_name: triplet
  data_files: triplet/*
---
# Name
"""
TWO = [
    "pair/train-00000-of-00002.jsonl",
    "pair/train-00001-of-00002.jsonl",
    "pair/dev.jsonl",
    "triplet/a.jsonl",
]
Lay = Callable[..., Path]


def card(text: str) -> str:
    return f"---\nconfigs:\n{text}---\n"


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    """Lay out a commit in a cache by hand; `listed` are the files that the hub's client knows it has."""

    def make(
        *names: str,
        readme: str | None = "# Name\n",
        commit: str = PINNED,
        ref: str | None = None,
        listed: list[str] | None = None,
    ) -> Path:
        home = tmp_path / "cache" / "datasets--owner--name"
        folder = home / "snapshots" / commit
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("{}\n")
        if readme is not None:
            (folder / "README.md").write_text(readme)
        if ref is not None:
            (home / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
            (home / "refs" / ref).write_text(commit)
        if listed is not None:
            (home / "trees").mkdir()
            files = {name: {"size": 3, "blob_id": "0" * 40} for name in listed}
            (home / "trees" / f"{commit}.json").write_text(json.dumps({"format_version": 1, "files": files}))
        return folder

    return make


@pytest.fixture
def find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., HubFiles]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))

    def run(path: str = PATH, *, revision: str | None = PINNED, **options: str) -> HubFiles:
        return files_of(path, revision=revision, **options)

    return run


@pytest.fixture
def refused(find) -> Callable[..., list[str]]:
    def run(path: str = PATH, *, error: type = DataError, **options: str | None) -> list[str]:
        with pytest.raises(error) as caught:
            find(path, **options)
        return caught.value.problems

    return run


@pytest.mark.parametrize(
    ("path", "config", "revision", "option"),
    [
        ("hf://datasets/owner", None, None, "dataset.path"),
        (f"{PATH}/../other", None, None, "dataset.path"),
        (f"{PATH}/data", "pair", None, "dataset.config"),
        (PATH, None, "../main", "dataset.revision"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(path, config, revision, option):
    (problem,) = hub.problems(path, config, revision)
    assert problem.startswith(f"{option}: ")


@pytest.mark.parametrize(
    "pattern",
    ["data_files: ../*.csv", "data_files: /etc/*.conf", "data_files: https://e.org/a.csv", "data_dir: ../.."],
)
def test_a_readme_leads_to_nothing_outside_of_its_data_set(lay, refused, pattern):
    lay("a.csv", readme=card(f"- config_name: a\n  {pattern}\n"))
    assert "which is not of this data set" in refused()[0]


def test_a_config_is_needed_where_there_are_several_and_must_be_there(lay, refused):
    lay(*TWO, readme=TWO_CONFIGS)
    assert "choose one (configs: pair, triplet)" in refused(error=ConfigError)[0]
    assert "no config 'pairs'; did you mean 'pair'?" in refused(config="pairs", error=ConfigError)[0]


def test_a_branch_without_network_is_the_commit_that_the_cache_knows(lay, find):
    lay("old.csv", ref="v1")
    lay("new.csv", commit=COMMIT, ref="main")
    assert find(revision=None).folder.name == COMMIT
    assert find(revision="v1").folder.name == PINNED


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["a.csv", "LICENSE.txt", "LICENSE", "CHANGES.md", "a.py"], {"train": ["a.csv"]}),
        (["valid/b.csv", "valid/a.csv", "train/a.csv"],
         {"train": ["train/a.csv"], "validation": ["valid/a.csv", "valid/b.csv"]}),
    ],
)  # fmt: skip
def test_without_configs_names_say_what_is_what(lay, find, names, found):
    folder = lay(*names)
    splits = find().splits
    got = {split: [file.relative_to(folder).as_posix() for file in files] for split, files in splits.items()}
    assert (got, list(got)) == (found, list(found))


def test_only_the_files_of_the_chosen_config_are_downloaded_and_once(lay, find, monkeypatch):
    folder, asked = lay(readme=TWO_CONFIGS, listed=TWO), []

    def download(repo: str, **options) -> str:
        asked.append(options["allow_patterns"])
        for name in options["allow_patterns"]:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).touch()
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    for _ in range(2):
        assert list(find(config="pair").splits) == ["train", "dev"]
    assert asked == [["README.md"], TWO[:3]]
