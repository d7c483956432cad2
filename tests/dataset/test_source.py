"""Rows of the hub's data sets, and of one file that is divided."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedrun.dataset.pairs import Pairs
from embedrun.errors import ConfigError, DataError
from embedrun.store import cache, hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PATH = "hf://datasets/owner/all-nli"
CARD = """\
---
configs:
- config_name: pair-score
  data_files:
  - {split: train, path: pair-score/train-*}
  - {split: dev, path: pair-score/dev-*}
- config_name: plain
  data_files: plain.txt
---
"""


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of the hub as its cache holds it, laid out by hand."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    home = tmp_path / "hub" / "datasets--owner--all-nli"
    folder = home / "snapshots" / COMMIT
    (folder / "pair-score").mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(COMMIT)
    (folder / "README.md").write_text(CARD)
    (folder / "plain.txt").write_text("one\n")
    for shard, rows in enumerate((["a1", "a2"], ["a3"])):
        table = {"sentence1": rows, "sentence2": [f"{row} b" for row in rows], "score": [0.5] * len(rows)}
        pq.write_table(pa.table(table), folder / f"pair-score/train-0000{shard}-of-00002.parquet")
    dev = {"sentence1": ["d"], "sentence2": ["e"], "score": [1.0]}
    pq.write_table(pa.table(dev), folder / "pair-score/dev-00000-of-00001.parquet")
    return folder


COLUMNS = {"text1": "sentence1", "text2": "sentence2", "score": "score"}


@pytest.mark.parametrize("revision", [COMMIT, None])
def test_the_splits_of_a_config_are_read_in_the_order_of_their_shards(store, revision):
    data = Pairs(
        path=PATH,
        config="pair-score",
        revision=revision,
        columns=COLUMNS,
        splits={"train": "train", "dev": "dev"},
    )
    assert data.splits == ("train", "dev")
    assert [data.problems(split, store) for split in data.splits] == [[], []]
    train, dev = (data.read(split, store) for split in data.splits)
    assert train.texts == {"left": ["a1", "a2", "a3"], "right": ["a1 b", "a2 b", "a3 b"]}
    assert (dev.split, dev.texts["left"], dev.targets["score"].tolist()) == ("dev", ["d"], [1.0])


def test_what_the_hub_has_not_is_named_with_the_nearest(store):
    data = Pairs(path=PATH, config="pair-score", columns=COLUMNS, splits={"train": "trian"})
    with pytest.raises(ConfigError, match=r"no split 'trian'; did you mean 'train'\? \(it has: train, dev\)"):
        data.read("train", store)
    with pytest.raises(ConfigError, match=r"pair-scores.*did you mean 'pair-score'"):
        Pairs(path=PATH, config="pair-scores", columns=COLUMNS).read("train", store)
    with pytest.raises(DataError, match=r"split train has 'plain\.txt'; what is read must end in"):
        Pairs(path=PATH, config="plain", columns=COLUMNS).read("train", store)
    with pytest.raises(DataError, match="is not in the hub's cache"):
        Pairs(path=PATH, config="pair-score", revision="f" * 40, columns=COLUMNS).read("train", store)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"config": "a"}, "config='a' is of a data set of the hub, and path is 'a.tsv'"),
        ({"path": PATH, "splits": {"train": "a", "eval": "b"}}, "none but train, dev, test; got"),
        (
            {"path": PATH, "splits": {"train": "a", "dev": "b"}, "dev": "d.tsv"},
            "dev has a file of its own, 'd.tsv'",
        ),
        ({"split": {"train": 0.9, "dve": 0.1}}, "split: no split is named 'dve'; did you mean 'dev'"),
        ({"path": PATH, "split": {"train": 1.0}, "splits": {"train": "a"}}, "leave out splits="),
        ({"separator": ";;"}, "separator must be one character"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_before_anything_is_read(options, said):
    with pytest.raises(ValueError, match="Pairs: ") as caught:
        Pairs(**{"path": "a.tsv", **options})
    assert said in str(caught.value)


def file(folder: Path, rows: int, shared: int) -> Path:
    """Pairs of which every `shared` neighbours have one first text."""
    path = folder / "a.tsv"
    lines = [f"l{row // shared}\tr{row}\t{row % 2}" for row in range(rows)]
    path.write_text("\n".join(["text1\ttext2\tscore", *lines]) + "\n")
    return path


SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}


def test_one_file_is_divided_with_no_text_in_two_splits(tmp_path, store):
    data = Pairs(path=str(file(tmp_path, 100, 5)), split=SHARES)
    parts = {split: data.read(split, store) for split in data.splits}
    assert {split: len(rows) for split, rows in parts.items()} == {"train": 80, "dev": 10, "test": 10}
    left = [set(rows.texts["left"]) for rows in parts.values()]
    assert [len(texts) for texts in left] == [16, 2, 2]
    assert len(set.union(*left)) == 20
    every = sorted(text for rows in parts.values() for text in rows.texts["right"])
    assert every == sorted(f"r{row}" for row in range(100))
    assert sum(entry.path.name.startswith("rows-") for entry in cache.entries()) == 1  # read once
    dev = parts["dev"]
    assert dev.split == "dev"
    assert dev.targets["score"].tolist() == [int(text[1:]) % 2 for text in dev.texts["right"]]


def test_rows_that_hang_together_too_much_are_refused_unless_divided_by_row(tmp_path, store):
    path = str(file(tmp_path, 100, 50))
    with pytest.raises(DataError, match=r"dataset\.split_by=row"):
        Pairs(path=path, split=SHARES).read("train", store)
    data = Pairs(path=path, split=SHARES, split_by="row")
    assert [len(data.read(split, store)) for split in data.splits] == [80, 10, 10]


def test_a_branch_is_written_down_as_its_commit_and_a_resumed_run_keeps_its_own(capsys):
    options = {"name": "pairs", "path": PATH, "revision": None}
    assert hub.pinned(options, None) == {**options, "revision": COMMIT}
    assert f"{PATH}: its newest commit is {COMMIT}" in capsys.readouterr().err
    assert hub.pinned(options, {"path": PATH, "revision": "e" * 40})["revision"] == "e" * 40
    assert (
        hub.pinned({**options, "revision": COMMIT}, {"path": PATH, "revision": "e" * 40})["revision"]
        == COMMIT
    )
    assert hub.pinned({"name": "pairs", "path": "a.tsv"}, None) == {"name": "pairs", "path": "a.tsv"}
    assert hub.commit_of({**options, "revision": COMMIT}) == {"hub owner/all-nli": COMMIT}
