"""`embedrun data`: list, get, check, audit."""

import gzip
import hashlib
import json
import os
from pathlib import Path

import pytest

from embedrun.commands import data
from embedrun.commands.data import main
from embedrun.errors import DataError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of three whole files."""
    contents = {
        "own/dev.tsv.gz": "score\ttext\n0\ta\n5\tb\n",
        "own/test.tsv.gz": "score\ttext\n0\tc\n5\td\n",
        "wiki/head.txt.gz": "one\ntwo\n",
    }
    manifest = []
    for name, text in contents.items():
        packed = gzip.compress(text.encode())
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(packed)
        entry = {
            "path": name,
            "bytes": len(packed),
            "sha256": hashlib.sha256(packed).hexdigest(),
            "rows": 2,
        }
        manifest.append(entry if "wiki" in name else {**entry, "columns": ["score", "text"]})
    (tmp_path / "MANIFEST.json").write_text(json.dumps(manifest))
    return tmp_path


def test_list_shows_what_is_present_missing_and_not_in_the_manifest(root, capsys):
    (root / "own/test.tsv.gz").unlink()
    (root / "wiki/mine.txt.gz").write_bytes(b"1234")
    assert main(["list", "--files", "--data-dir", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"data folder {root}"
    states = {line.split()[0]: line.split(maxsplit=3)[3] for line in lines[3:-1]}
    assert states == {
        "own/dev.tsv.gz": "present",
        "own/test.tsv.gz": "missing",
        "wiki/head.txt.gz": "present",
        "wiki/mine.txt.gz": "not in the manifest",
    }
    assert lines[-1] == "3 files in the manifest, 2 present, 1 missing"


def test_check_lists_all_faults_of_all_files(root, capsys):
    (root / "own/dev.tsv.gz").unlink()
    (root / "wiki/head.txt.gz").write_bytes(gzip.compress(b"one\n"))
    with pytest.raises(DataError) as caught:
        main(["check", "--data-dir", str(root)])
    assert caught.value.exit_code == 3
    assert any(problem.startswith("own/dev.tsv.gz: not in") for problem in caught.value.problems)
    assert f"{root / 'wiki/head.txt.gz'}: 1 rows, the manifest says 2" in caught.value.problems
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["own/dev.tsv.gz: faults: 1", "own/test.tsv.gz: whole"]
    assert lines[-1] == "3 files checked, 1 whole, 2 faulty"


@pytest.mark.realdata
@pytest.mark.parametrize("names", [["sts"], pytest.param([], marks=pytest.mark.slow)])
def test_the_real_store_is_whole(names, capsys):
    assert main(["check", *names, "--data-dir", os.environ["EMBEDRUN_DATA"]]) == 0
    assert capsys.readouterr().out.endswith(" 0 faulty\n")


def test_list_shows_data_sets_with_licence_even_where_there_is_no_store(tmp_path, capsys):
    assert main(["list", "--data-dir", str(tmp_path / "none")]) == 0
    lines = {line.split("  ")[0].strip(): line for line in capsys.readouterr().out.splitlines()}
    assert "0 of 3" in lines["sickr"]
    assert "CC BY-NC-SA 3.0" in lines["sickr"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A mounted store of one file that nothing is published of."""
    packed = gzip.compress(b"One.\nTwo.\n", mtime=0)
    (tmp_path / "mounted/own").mkdir(parents=True)
    (tmp_path / "mounted/own/a.txt.gz").write_bytes(packed)
    digest = hashlib.sha256(packed).hexdigest()
    entry = {"path": "own/a.txt.gz", "bytes": len(packed), "sha256": digest, "rows": 2}
    (tmp_path / "mounted/MANIFEST.json").write_text(json.dumps([entry]))
    return tmp_path / "mounted"


def test_a_copy_says_what_became_of_each_file(tmp_path, source, capsys, monkeypatch):
    monkeypatch.setenv("EMBEDRUN_DATA", str(tmp_path / "data"))
    for state in ("copied", "there"):
        assert main(["get", "own", "--from", str(source)]) == 0
        out = capsys.readouterr().out.splitlines()
        assert (out[0], out[-1].split()) == (f"data folder {tmp_path / 'data'}", ["own/a.txt.gz", "2", state])
    assert (tmp_path / "data/own/a.txt.gz").read_bytes() == (source / "own/a.txt.gz").read_bytes()


HEADER = "subset\tscore\tsentence1\tsentence2"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """STS-B train of two pairs; STS12 of three, one of them from there; STS13 of two, one sentence shared."""
    files = {
        "stsb/train": ["x\t5\tA dog runs\tThe dog is running", "x\t0\tIt rains\tA cat sleeps"],
        "stsb/dev": ["x\t1\tIt rains\tA cat sleeps"],
        "sts/sts12": ["p\t5\tthe dog is running!\ta dog runs", "p\t1\tno\tyes", "q\t2\tone\ttwo"],
        "sts/sts13": ["r\t1\tIt rains.\tnothing", "r\t1\tthree\tfour"],
    }
    for name, rows in files.items():
        path = tmp_path / f"{name}.tsv.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(("\n".join([HEADER, *rows]) + "\n").encode()))
    return tmp_path


def cells(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_each_set_and_the_total_have_a_line(store, capsys):
    assert main(["audit", "stsb", "sts12", "sts13", "--data-dir", str(store)]) == 0
    captured = capsys.readouterr()
    assert cells(captured.out)[2:] == [
        ["sts12", "test", "3", "1", "33.3", "1", "33.3"],
        ["sts13", "test", "2", "0", "0.0", "1", "50.0"],
        ["total", "5", "1", "20.0", "2", "40.0"],
        [],
        ["1", "of", "5", "pairs", "(20.0", "%)", "are", "also", "in", "stsb", "train"],
    ]
    assert captured.err == "2 rows of stsb train as training data\n"


@pytest.mark.realdata
def test_the_overlap_of_the_sts_benchmark_with_sts12_to_sts16(capsys):
    sets = ["sts12", "sts13", "sts14", "sts15", "sts16"]
    assert data.main(["audit", "stsb", *sets, "--data-dir", os.environ["EMBEDRUN_DATA"]]) == 0
    out = capsys.readouterr().out
    assert [line[:5] for line in cells(out)[2:7]] == [
        ["sts12", "test", "3,108", "1,003", "32.3"],
        ["sts13", "test", "1,500", "597", "39.8"],
        ["sts14", "test", "3,750", "1,861", "49.6"],
        ["sts15", "test", "3,000", "1,102", "36.7"],
        ["sts16", "test", "1,186", "197", "16.6"],
    ]
    assert out.endswith("\n4,760 of 12,544 pairs (37.9 %) are also in stsb train\n")
