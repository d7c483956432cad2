"""The data folder, its manifest, and whether what is there is what is stated."""

import gzip
import hashlib
from pathlib import Path

import pytest

from embedrun.errors import DataError
from embedrun.store import Store, verify
from embedrun.store.catalogue import Catalogue


def put(root: Path, relative: str, text: str | bytes) -> Path:
    path = root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(raw) if relative.endswith(".gz") else raw)
    return path


def problems(caught: pytest.ExceptionInfo[DataError]) -> list[str]:
    return caught.value.problems


def test_the_argument_goes_before_the_variable_and_both_before_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("EMBEDRUN_DATA", str(tmp_path / "env"))
    assert Store.find(str(tmp_path / "given")).root == tmp_path / "given"
    assert Store.find().root == tmp_path / "env"
    monkeypatch.setenv("EMBEDRUN_DATA", "")
    assert Store.find().root == tmp_path / "cache" / "embedrun" / "data"


@pytest.mark.parametrize("relative", ["../a.tsv.gz", "a/../../b", "/etc/passwd"])
def test_a_name_that_leads_out_of_the_store_is_refused(tmp_path, relative):
    with pytest.raises(DataError, match="leads out of the data folder"):
        Store(tmp_path).path(relative)


def test_a_damaged_gzip_file_is_refused(tmp_path):
    path = put(tmp_path, "a.txt.gz", "one sentence\nand another\n")
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match="cannot be read: "):
        Store(tmp_path).read("a.txt.gz", ["text"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "not a list of files with path"),
        ('[{"path": "a"}]', "not a list of files with path, bytes"),
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path, text, reason):
    put(tmp_path, "MANIFEST.json", text)
    with pytest.raises(DataError, match=reason):
        _ = Store(tmp_path).manifest


STS = ["subset\tscore\tsentence1\tsentence2", "news\t0\ta\tb", "news\t5\tc\td", "web\t2.5\te\tf"]
NLI = ['{"text": "a", "label": 0}', '{"text": "b", "label": 1}', '{"text": "c", "label": 1}']
STS_COUNTS = {"subsets": {"news": 2, "web": 1}, "score_min_max": [0.0, 5.0]}


def verify_put(root: Path, name: str, lines: list[str]) -> dict:
    """Write a file and return the part of its entry that follows from its bytes."""
    packed = gzip.compress("".join(line + "\n" for line in lines).encode())
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(packed)
    return {"path": name, "bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest()}


def sts(root: Path, lines: list[str]) -> dict:
    entry = {"rows": 3, "columns": ["subset", "score", "sentence1", "sentence2"], **STS_COUNTS}
    return {**entry, **verify_put(root, "sts.tsv.gz", lines)}


def nli(root: Path, lines: list[str]) -> dict:
    entry = {"rows": 3, "columns": ["text", "label"], "labels": {"0": 1, "1": 2}}
    return {**entry, **verify_put(root, "nli.jsonl.gz", lines)}


def found(root: Path, entry: dict) -> list[str]:
    """The problems, without the path."""
    return [
        problem.removeprefix(str(root / entry["path"])).lstrip(":, ")
        for problem in verify(Store(root), entry)
    ]


def test_whole_files_have_no_problem(tmp_path):
    assert found(tmp_path, sts(tmp_path, STS)) == []
    assert found(tmp_path, nli(tmp_path, NLI)) == []
    assert found(tmp_path, {"rows": 2, **verify_put(tmp_path, "a.txt.gz", ["one", "two"])}) == []


SUBJ_FILE, STS_FILE = "senteval/subj/train.jsonl.gz", "sts/a.tsv.gz"


def faults_of(root: Path, catalogue: Catalogue) -> dict[str, list[str]]:
    store = Store(root)
    every = {entry["path"]: verify(store, entry, catalogue) for entry in store.manifest}
    return {
        path: [problem.removeprefix(str(root / path)).lstrip(":, ") for problem in problems]
        for path, problems in every.items()
        if problems
    }


def lines_of(root: Path, name: str) -> list[str]:
    return gzip.decompress((root / name).read_bytes()).decode().splitlines()


def test_a_truncated_file_is_found_though_its_manifest_was_made_of_it(make_store, catalogue):
    # As the SUBJ that had 20 subjective sentences: the file, its checksum and its manifest agree.
    whole = lines_of(make_store("whole"), SUBJ_FILE)
    root = make_store("data", {SUBJ_FILE: whole[:-1]}, honest=True)
    (entry,) = (entry for entry in Store(root).manifest if entry["path"] == SUBJ_FILE)
    assert verify(Store(root), entry) == []
    assert faults_of(root, catalogue) == {
        SUBJ_FILE: [
            "3 rows, the published data set has 4",
            "1 rows of label 0, the published data set has 2",
        ]
    }
