"""Generated pairs: their parts, and the data set that is made of them."""

import gzip
import hashlib
import json

import pytest

from embedrun.curation.generation.answers import Sifted
from embedrun.curation.generation.output import Generated, blocks, foreign, merge
from embedrun.errors import DataError


def pair(number: int, score: int, llm: str = "x") -> dict:
    return {"text1": "a", "text2": str(number), "score": score, "llm": llm}


@pytest.fixture
def parts(tmp_path):
    made = Generated(tmp_path, 2, {"size": 2})
    made.write(1, [Sifted([pair(3, 0, "y")], [])])
    made.write(0, [Sifted([pair(1, 1), pair(2, 0)], [{"reason": "r"}, {"reason": "r"}, {"reason": "q"}])])
    return made


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_parts_are_joined_in_their_order_and_counted(tmp_path, parts):
    provenance = merge(parts, {"size": 2})
    lines = gzip.decompress((tmp_path / "pairs.jsonl.gz").read_bytes()).decode().splitlines()
    assert [json.loads(line)["text2"] for line in lines] == ["1", "2", "3"]
    assert (tmp_path / "rejects.jsonl").read_text() == '{"reason": "r"}\n{"reason": "r"}\n{"reason": "q"}\n'
    assert json.loads((tmp_path / "provenance.json").read_text()) == provenance
    assert provenance["size"] == 2
    assert provenance["counts"] == {
        "pairs": 3,
        "positive": 1,
        "negative": 2,
        "pairs_by_llm": {"x": 2, "y": 1},
        "rejects": 3,
        "rejects_by_reason": {"q": 1, "r": 2},
    }
    digest = hashlib.sha256((tmp_path / "pairs.jsonl.gz").read_bytes()).hexdigest()
    assert provenance["files"]["pairs.jsonl.gz"] == digest


def test_a_finished_merge_clears_what_killed_writers_left(tmp_path, parts):
    (tmp_path / ".tmp-1-pairs.jsonl.gz").touch()
    (tmp_path / "parts/.tmp-2-part-000000.json.gz").touch()
    merge(parts, {})
    assert not list(tmp_path.rglob(".tmp-*"))


def test_a_second_merge_changes_nothing(tmp_path, parts):
    merge(parts, {})
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    merge(parts, {})
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_a_merge_that_was_interrupted_is_made_whole(tmp_path, parts):
    merge(parts, {})
    whole = files(tmp_path)
    (tmp_path / "provenance.json").unlink()
    (tmp_path / "rejects.jsonl").write_text("half")
    merge(parts, {})
    assert files(tmp_path) == whole


@pytest.mark.parametrize("name", ["pairs.jsonl.gz", "rejects.jsonl", "provenance.json"])
def test_a_finished_file_that_was_changed_is_never_overwritten(tmp_path, parts, name):
    merge(parts, {})
    (tmp_path / name).write_bytes(b"mine")
    with pytest.raises(DataError, match="not what its parts give"):
        merge(parts, {})
    assert (tmp_path / name).read_bytes() == b"mine"


def test_a_folder_with_the_files_of_somebody_else_is_refused(tmp_path):
    assert foreign(tmp_path / "new") == []
    (tmp_path / "pairs.jsonl.gz").touch()
    (problem,) = foreign(tmp_path)
    assert "holds pairs.jsonl.gz and not the parts" in problem
    (tmp_path / "parts").mkdir()
    assert foreign(tmp_path) == []


PAIR = {"text1": "a", "text2": "b", "score": 1, "llm": "x"}


def test_blocks_are_cut_from_the_first_sentence_on():
    assert blocks(list("abcde"), 2) == [["a", "b"], ["c", "d"], ["e"]]


def test_a_part_comes_back_and_is_written_once(tmp_path):
    parts = Generated(tmp_path, 2, {"size": 2})
    parts.check()
    parts.write(3, [Sifted([PAIR], []), Sifted([], [{"reason": "r"}])])
    once = parts.path(3).read_bytes()
    parts.write(3, [])
    assert parts.path(3).read_bytes() == once
    assert parts.read(3) == ([PAIR], [{"reason": "r"}])
    assert parts.there() == [3]
    parts.check()


def test_the_file_of_a_part_is_that_of_every_version(tmp_path):
    line = b'{"settings": {"size": 2}, "block": 0, "pairs": [{"text1": "a", "text2": "b", "score": 1, '
    line += b'"llm": "x"}], "rejects": [{"reason": "r"}]}\n'
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/part-000000.json.gz").write_bytes(gzip.compress(line))
    parts = Generated(tmp_path, 2, {"size": 2})
    parts.check()
    assert parts.missing() == [1]
    assert parts.read(0) == ([PAIR], [{"reason": "r"}])
    again = Generated(tmp_path / "again", 2, {"size": 2})
    again.write(0, [Sifted([PAIR], [{"reason": "r"}])])
    assert gzip.decompress(again.path(0).read_bytes()) == line


def test_a_part_of_other_settings_is_refused_and_the_message_says_which(tmp_path):
    Generated(tmp_path, 2, {"size": 2, "block": 200, "llms": ["a"]}).write(0, [])
    with pytest.raises(DataError, match=r"made with another size, llms; .*another output=DIR"):
        Generated(tmp_path, 2, {"size": 3, "block": 200, "llms": ["b"]}).check()


@pytest.mark.parametrize("change", [lambda raw: b"", lambda raw: raw[:-9], lambda raw: b"x" + raw])
def test_a_damaged_part_is_refused(tmp_path, change):
    parts = Generated(tmp_path, 2, {"size": 2})
    parts.write(0, [Sifted([PAIR], [])])
    parts.path(0).write_bytes(change(parts.path(0).read_bytes()))
    with pytest.raises(DataError, match=r"not a readable part .* delete it"):
        parts.check()


def test_a_part_that_unpacks_beyond_all_measure_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("embedrun.files._UNPACKED", 1 << 20)
    parts = Generated(tmp_path, 2, {"size": 2})
    parts.write(0, [])
    parts.path(0).write_bytes(gzip.compress(bytes(2 << 20)))
    with pytest.raises(DataError, match=r"not a readable part \(BadGzipFile: it unpacks to over 200 times"):
        parts.check()


def test_a_part_under_the_name_of_another_is_refused(tmp_path):
    parts = Generated(tmp_path, 2, {})
    parts.write(0, [])
    parts.path(0).rename(parts.path(1))
    with pytest.raises(DataError, match="it is the part of block 0"):
        parts.check()


@pytest.mark.parametrize(
    "changes",
    [{"pairs": ["a"]}, {"pairs": [{"score": 1}]}, {"pairs": [{**PAIR, "llm": ["x"]}]}, {"rejects": 5},
     {"pairs": [{**PAIR, "score": float("inf")}]}, {"rejects": [{}]}, {"block": 1},
     {"pairs": [{**PAIR, "llm": 5}]}, {"pairs": [{**PAIR, "score": 2}]}, {"rejects": [{"reason": 1}]}],
)  # fmt: skip
def test_a_part_of_another_form_is_refused(tmp_path, changes):
    parts = Generated(tmp_path, 1, {})
    content = {"settings": {}, "block": 0, "pairs": [PAIR], "rejects": [], **changes}
    parts.path(0).parent.mkdir()
    parts.path(0).write_bytes(gzip.compress(json.dumps(content).encode()))
    with pytest.raises(DataError, match=r"part-000000.json.gz: not a readable part .* delete it"):
        merge(parts, {})


def test_a_part_that_nests_too_deeply_is_refused(tmp_path):
    parts = Generated(tmp_path, 1, {})
    parts.path(0).parent.mkdir()
    parts.path(0).write_bytes(gzip.compress(b"[" * 100_000))
    with pytest.raises(DataError, match="not a readable part"):
        parts.check()
