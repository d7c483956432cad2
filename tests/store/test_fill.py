"""From the hub or a copy into the data folder, and the list of what is there.

The hub's client is the real one, with a cache folder in its own layout and no network.
"""

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedrun.errors import DataError, EmbedrunError
from embedrun.files import only_writer
from embedrun.store import Store, fill, verify
from embedrun.store.catalogue import Catalogue
from embedrun.store.fill import from_folder, from_hub

COMMIT = "fedcba9876543210fedcba9876543210fedcba98"
PINNED = "0123456789abcdef0123456789abcdef01234567"
SUBJ_FILE, STS_FILE = "senteval/subj/train.jsonl.gz", "sts/a.tsv.gz"
SUBJ = {
    "sentence": [" a\t", "b", "c", "?", "d"],
    "kind": ["objective"] * 2 + ["subjective", "both", "subjective"],
}
ONE = '{"gold": 0, "s1": "a", "s2": "b \\u00e9", "more": 1}\n'
TWO = '{"gold": 4.75, "s1": " c", "s2": "d"}\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache with both repositories: the newest commit of one, a pinned commit of the other."""
    root = tmp_path / "cache"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(root))
    files = repository(root, "owner/subj", COMMIT)
    (files / "data").mkdir()
    pq.write_table(pa.table(SUBJ), files / "data/train.parquet")
    files = repository(root, "owner/sts", PINNED)
    (files / "one.jsonl").write_text(ONE)
    (files / "two.jsonl.gz").write_bytes(gzip.compress(TWO.encode()))
    return root


def lines(store: Store, name: str) -> list[str]:
    return gzip.decompress(store.path(name).read_bytes()).decode().splitlines()


def repository(cache: Path, repo: str, commit: str) -> Path:
    home = cache / f"datasets--{repo.replace('/', '--')}"
    (home / "refs").mkdir(parents=True)
    (home / "refs/main").write_text(commit)
    folder = home / "snapshots" / commit
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def get(tmp_path: Path, cache: Path, catalogue: Catalogue) -> Callable[..., Store]:
    def run(*names: str, catalogue: Catalogue = catalogue) -> Store:
        store = Store(tmp_path / "data")
        run.states = {  # type: ignore[attr-defined]
            one.path: one.state for one in from_hub(store, names, catalogue)
        }
        return store

    return run


def problems(get: Callable[..., Store], *names: str) -> list[str]:
    with pytest.raises(DataError) as caught:
        get(*names)
    return caught.value.problems


def test_parquet_becomes_json_lines_with_mapped_values_and_kept_rows(get, catalogue):
    store = get("subj")
    assert lines(store, SUBJ_FILE) == [
        '{"text": "a", "label": 1}',
        '{"text": "b", "label": 1}',
        '{"text": "c", "label": 0}',
        '{"text": "d", "label": 0}',
    ]
    (entry,) = store.manifest
    assert (entry["rows"], entry["columns"], entry["labels"]) == (4, ["text", "label"], {"0": 2, "1": 2})
    assert entry["hub"] == {"repo": "owner/subj", "commit": COMMIT, "files": ["data/train.parquet"]}
    assert verify(store, entry, catalogue) == []


def test_json_lines_become_tsv_with_a_constant_column(get, catalogue):
    store = get("sts/a.tsv.gz")
    assert lines(store, STS_FILE) == [
        "score\tsentence1\tsentence2\tsubset",
        "0\ta\tb é\tall",
        "4.75\tc\td\tall",
    ]
    (entry,) = store.manifest
    assert (entry["score_min_max"], entry["subsets"]) == ([0.0, 4.75], {"all": 2})
    assert entry["hub"]["commit"] == PINNED
    assert verify(store, entry, catalogue) == []


def test_faulty_values_are_named_by_file_row_and_column(get, cache):
    folder = cache / "datasets--owner--sts/snapshots" / PINNED
    (folder / "one.jsonl").write_text('{"gold": null, "s1": 3.5, "s2": "b"}\n{"gold": 1, "s1": "a"}\n')
    found = [problem[problem.index("one.jsonl") :] for problem in problems(get, "sts/a.tsv.gz")]
    assert found == [
        "one.jsonl, row 1: gold: expected a finite number, got null",
        "one.jsonl, row 1: s1: expected text, got 3.5",
        "one.jsonl, row 2: has no field 's2' (fields: gold, s1); see `columns` in conf/hub.yaml",
    ]


def test_fewer_rows_than_published_are_refused_and_nothing_is_written(tmp_path, get, cache):
    (cache / "datasets--owner--sts/snapshots" / PINNED / "one.jsonl").write_text(
        '{"gold": 7, "s1": "a", "s2": "b"}'
    )
    (cache / "datasets--owner--sts/snapshots" / PINNED / "two.jsonl.gz").write_bytes(
        gzip.compress(b'{"gold": 1, "s1": "a\\tb", "s2": "b"}')
    )
    assert any(
        "score: expected a number from 0 to 5, got 7" in problem for problem in problems(get, "sts/a.tsv.gz")
    )
    pq.write_table(
        pa.table({"sentence": ["a"], "kind": ["objective"]}),
        cache / "datasets--owner--subj/snapshots" / COMMIT / "data/train.parquet",
    )
    assert any(problem.endswith("1 rows, the published data set has 4") for problem in problems(get, "subj"))
    assert not list((tmp_path / "data").rglob("*.gz"))


FETCH_SUBJ_FILE, FETCH_STS_FILE, TEXT_FILE = "senteval/subj/train.jsonl.gz", "sts/a.tsv.gz", "wiki/a.txt.gz"


def everything(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def states(results: list[fill.Fetched]) -> dict[str, str]:
    return {one.path: one.state for one in results}


def test_names_choose_files_by_data_set_group_folder_and_stem(tmp_path, make_store, catalogue):
    source = make_store("source")
    for names, paths in (
        (["subj"], [FETCH_SUBJ_FILE]),
        (["senteval/", "plain"], [FETCH_SUBJ_FILE, TEXT_FILE]),
        (["all"], [FETCH_SUBJ_FILE, FETCH_STS_FILE, TEXT_FILE]),
        (["a"], [FETCH_STS_FILE, TEXT_FILE]),
    ):
        store = Store(tmp_path / "-".join(names).replace("/", ""))
        assert list(states(from_folder(store, source, names, catalogue))) == paths
        assert [entry["path"] for entry in store.manifest] == paths


def test_another_file_of_the_name_is_never_overwritten(tmp_path, make_store, catalogue):
    source = make_store("source")
    other = make_store("other", {TEXT_FILE: ["Three.", "Four."]}, honest=True)
    unlisted = tmp_path / "unlisted"
    (unlisted / "wiki").mkdir(parents=True)
    (unlisted / TEXT_FILE).write_bytes(b"my own")
    for root in (other, unlisted):
        before = everything(root)
        with pytest.raises(DataError, match="another file of this name is there; move it away"):
            from_folder(Store(root), source, ["plain"], catalogue)
        assert everything(root) == before


def test_a_second_filler_is_refused_while_the_first_works(tmp_path, make_store, catalogue):
    store = Store(tmp_path / "data")
    store.root.mkdir()
    with only_writer(store.path("MANIFEST.json")), pytest.raises(EmbedrunError, match="in use by another"):
        from_folder(store, make_store("source"), [], catalogue)


def test_rows_that_stand_subset_after_subset_have_its_name():
    first, second = ["One one.", "Two", "Three"], ["1", "2", "3"]
    ends = [fill.mark(*pair) for pair in zip(first, second, strict=True)]
    columns = {"sentence1": first, "sentence2": second}
    blocks, sizes = {"web": [ends[2]] * 2, "news": ends[:2]}, {"web": 1, "news": 2}
    assert fill.mark("one-ONE", "1") == ends[0]  # letters and digits alone
    assert fill.subsets_in_turn(columns, blocks, sizes) == ["news", "news", "web"]
    assert fill.subsets_in_turn(columns, {**blocks, "news": ends[1::-1]}, sizes) == []
