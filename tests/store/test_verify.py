import gzip
import hashlib
from pathlib import Path

import pytest

from embedrun.store import Store, verify

STS = ["subset\tscore\tsentence1\tsentence2", "news\t0\ta\tb", "news\t5\tc\td", "web\t2.5\te\tf"]
NLI = ['{"text": "a", "label": 0}', '{"text": "b", "label": 1}', '{"text": "c", "label": 1}']
STS_COUNTS = {"subsets": {"news": 2, "web": 1}, "score_min_max": [0.0, 5.0]}


def put(root: Path, name: str, lines: list[str]) -> dict:
    """Write a file and return the part of its entry that follows from its bytes."""
    packed = gzip.compress("".join(line + "\n" for line in lines).encode())
    root.mkdir(exist_ok=True)
    (root / name).write_bytes(packed)
    return {"path": name, "bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest()}


def sts(root: Path, lines: list[str]) -> dict:
    entry = {"rows": 3, "columns": ["subset", "score", "sentence1", "sentence2"], **STS_COUNTS}
    return {**entry, **put(root, "sts.tsv.gz", lines)}


def nli(root: Path, lines: list[str]) -> dict:
    entry = {"rows": 3, "columns": ["text", "label"], "labels": {"0": 1, "1": 2}}
    return {**entry, **put(root, "nli.jsonl.gz", lines)}


def found(root: Path, entry: dict) -> list[str]:
    """The problems, without the path."""
    return [
        problem.removeprefix(str(root / entry["path"])).lstrip(":, ")
        for problem in verify(Store(root), entry)
    ]


def test_whole_files_have_no_problem(tmp_path):
    assert found(tmp_path, sts(tmp_path, STS)) == []
    assert found(tmp_path, nli(tmp_path, NLI)) == []
    assert found(tmp_path, {"rows": 2, **put(tmp_path, "a.txt.gz", ["one", "two"])}) == []


def test_a_missing_file_is_its_only_problem(tmp_path):
    entry = {**sts(tmp_path, STS), "path": "other.tsv.gz"}
    (problem,) = verify(Store(tmp_path), entry)
    assert problem.startswith("other.tsv.gz: not in the data folder")


def test_other_bytes_with_the_same_content_are_told_by_size_and_checksum(tmp_path):
    entry = sts(tmp_path, STS)
    content = gzip.decompress((tmp_path / "sts.tsv.gz").read_bytes())
    (tmp_path / "sts.tsv.gz").write_bytes(gzip.compress(content, compresslevel=0))
    size, digest = found(tmp_path, entry)
    assert size.endswith(f"packed bytes, the manifest says {entry['bytes']}")
    assert digest.startswith("sha256 ")


def test_a_line_cut_is_a_row_count(tmp_path):
    assert found(tmp_path, {**sts(tmp_path, STS[:-1])}) == [
        "2 rows, the manifest says 3",
        "0 rows of subset web, the manifest says 1",
    ]
    assert found(tmp_path, {"rows": 3, **put(tmp_path, "a.txt.gz", ["one", "two"])}) == [
        "2 rows, the manifest says 3"
    ]


@pytest.mark.parametrize("value", ["7", "-0.5", "nan"])
def test_a_score_outside_the_range_is_named_by_its_line(tmp_path, value):
    lines = [*STS[:3], f"web\t{value}\te\tf"]
    assert found(tmp_path, sts(tmp_path, lines)) == [f"line 4: score {value} is outside 0 to 5"]


def test_a_score_that_is_no_number_is_named_by_its_line(tmp_path):
    assert found(tmp_path, sts(tmp_path, [*STS[:3], "web\tx\te\tf"])) == ["line 4: score 'x' is not a number"]


def test_a_narrower_range_of_scores_is_told(tmp_path):
    lines = [*STS[:2], "news\t4.5\tc\td", STS[3]]
    assert found(tmp_path, sts(tmp_path, lines)) == ["scores from 0 to 4.5, the manifest says 0 to 5"]


def test_a_label_that_the_manifest_does_not_know_is_named_by_its_line(tmp_path):
    lines = [*NLI[:2], '{"text": "c", "label": 3}']
    assert found(tmp_path, nli(tmp_path, lines)) == [
        "line 3: label 3 is none of 0, 1",
        "1 rows of label 1, the manifest says 2",
    ]


def test_a_column_more_or_in_another_place_is_told(tmp_path):
    lines = ["score\tsubset\tsentence1\tsentence2", "0\tnews\ta\tb", "5\tnews\tc\td", "1\tweb\te\tf"]
    assert found(tmp_path, sts(tmp_path, lines)) == [
        "columns score, subset, sentence1, sentence2; the manifest says subset, score, sentence1, sentence2"
    ]


def test_a_field_less_is_told_for_every_line(tmp_path):
    problems = found(tmp_path, nli(tmp_path, [line.replace("label", "labels") for line in NLI]))
    assert problems == [f"line {line}: has no field 'label' (fields: text, labels)" for line in (1, 2, 3)]


def test_captions_are_counted(tmp_path):
    entry = {"rows": 1, "columns": ["captions"], "captions": 5}
    entry |= put(tmp_path, "a.jsonl.gz", ['{"captions": ["a", "b", "c", "d"]}'])
    assert found(tmp_path, entry) == ["4 captions, the manifest says 5"]
