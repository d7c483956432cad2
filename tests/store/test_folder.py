import gzip
import hashlib
import json
from pathlib import Path

import pytest

from embedrun.errors import DataError
from embedrun.store import Store


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


@pytest.mark.parametrize("cache", ["", "relative/cache"])
def test_an_unusable_cache_variable_means_the_home_folder(tmp_path, monkeypatch, cache):
    monkeypatch.delenv("EMBEDRUN_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert Store.find().root == tmp_path / ".cache" / "embedrun" / "data"
    assert Store.find("~/data").root == tmp_path / "data"


@pytest.mark.parametrize("relative", ["../a.tsv.gz", "a/../../b", "/etc/passwd", "", "."])
def test_a_name_that_leads_out_of_the_store_is_refused(tmp_path, relative):
    with pytest.raises(DataError, match="leads out of the data folder"):
        Store(tmp_path).path(relative)


def test_a_missing_file_names_itself_the_folder_and_the_ways_on(tmp_path):
    put(tmp_path, "stsb/dev.tsv.gz", "x\n")
    (problem,) = Store(tmp_path).missing(["stsb/dev.tsv.gz", "stsb/test.tsv.gz"])
    for part in (
        "stsb/test.tsv.gz",
        str(tmp_path),
        "EMBEDRUN_DATA=DIR",
        "data_dir=DIR",
        "+experiment=quickstart",
    ):
        assert part in problem
    (problem,) = Store(tmp_path / "none").missing(["a"])
    assert "which does not exist" in problem


def test_a_folder_is_not_a_file(tmp_path):
    (tmp_path / "a.tsv.gz").mkdir()
    assert not Store(tmp_path).has("a.tsv.gz")


def test_the_fingerprint_is_of_the_packed_bytes(tmp_path):
    path = put(tmp_path, "a.txt.gz", "one\n")
    assert Store(tmp_path).fingerprint("a.txt.gz") == hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(DataError, match="not in the data folder"):
        Store(tmp_path).fingerprint("b.txt.gz")


def test_tsv_knows_no_quotes_and_no_line_end_but_the_line_feed(tmp_path):
    put(tmp_path, "a.tsv.gz", 'x\ty\tz\n"1\t2"\tu\u2028v\n3\t\x85\t\n')
    columns = Store(tmp_path).read_tsv("a.tsv.gz", ["z", "x"])
    assert columns == {"z": ["u\u2028v", ""], "x": ['"1', "3"]}


def test_a_missing_column_names_the_nearest_and_all_there_are(tmp_path):
    path = put(tmp_path, "a.tsv.gz", "scores\ttext\n1\ta\n")
    with pytest.raises(DataError) as caught:
        Store(tmp_path).read_tsv("a.tsv.gz", ["score", "text"])
    assert problems(caught) == [
        f"{path}, line 1: no column 'score'; did you mean 'scores'? (columns: scores, text)"
    ]


def test_every_row_of_another_length_is_named(tmp_path):
    path = put(tmp_path, "a.tsv.gz", "x\ty\n1\n1\t2\n1\t2\t3\n\n")
    with pytest.raises(DataError) as caught:
        Store(tmp_path).read_tsv("a.tsv.gz", ["x"])
    assert problems(caught) == [
        f"{path}, line 2: has 1 fields, the header has 2",
        f"{path}, line 4: has 3 fields, the header has 2",
        f"{path}, line 5: has 1 fields, the header has 2",
    ]


def test_every_faulty_object_is_named_and_other_fields_are_left(tmp_path):
    path = put(tmp_path, "a.jsonl.gz", '{"a":1,"b":2}\n{"b":3}\nnull\n{"a":\n{"a":4}\n')
    with pytest.raises(DataError) as caught:
        Store(tmp_path).read_jsonl("a.jsonl.gz", ["a"])
    assert [problem.partition(" (")[0] for problem in problems(caught)] == [
        f"{path}, line 2: has no field 'a'",
        f"{path}, line 3: expected a JSON object, got NoneType",
        f"{path}, line 4: not JSON",
    ]
    put(tmp_path, "a.jsonl.gz", '{"a":1,"b":2}\n{"a":[4]}')
    assert Store(tmp_path).read_jsonl("a.jsonl.gz", ["a"]) == {"a": [1, [4]]}


def test_more_than_twenty_faults_are_counted(tmp_path):
    put(tmp_path, "a.jsonl.gz", "?\n" * 23)
    with pytest.raises(DataError) as caught:
        Store(tmp_path).read_jsonl("a.jsonl.gz", ["a"])
    assert len(problems(caught)) == 21
    assert problems(caught)[-1].endswith("and 3 more faults like these")


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_file_is_refused(tmp_path, text):
    put(tmp_path, "a.tsv.gz", text)
    with pytest.raises(DataError, match="the file is empty"):
        Store(tmp_path).read_tsv("a.tsv.gz", ["x"])


def test_a_header_alone_is_refused(tmp_path):
    put(tmp_path, "a.tsv.gz", "x\ty\n")
    with pytest.raises(DataError, match="a header and no rows"):
        Store(tmp_path).read_tsv("a.tsv.gz", ["x"])


def test_windows_line_ends_are_refused(tmp_path):
    put(tmp_path, "a.tsv.gz", "x\ty\r\n1\t2\r\n")
    with pytest.raises(DataError, match=r"line 1: ends in a carriage return"):
        Store(tmp_path).read_tsv("a.tsv.gz", ["x"])


def test_a_byte_that_is_not_utf_8_is_named_by_its_line(tmp_path):
    put(tmp_path, "a.txt.gz", b"one\ntwo\nthr\xffe\n")
    with pytest.raises(DataError, match=r"line 3: byte 0xff is not UTF-8"):
        Store(tmp_path).lines("a.txt.gz")


def _plain(packed: bytes) -> bytes:
    return gzip.decompress(packed)


def _short(packed: bytes) -> bytes:
    return packed[:-5]


def _flipped(packed: bytes) -> bytes:
    return packed[:14] + bytes([packed[14] ^ 0x10]) + packed[15:]


@pytest.mark.parametrize("damage", [_plain, _short, _flipped])
def test_a_damaged_gzip_file_is_refused(tmp_path, damage):
    path = put(tmp_path, "a.txt.gz", "one sentence\nand another\n")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match="damaged or not a gzip file"):
        Store(tmp_path).lines("a.txt.gz")


def test_nothing_is_written_even_where_the_store_is_missing(tmp_path):
    store = Store(tmp_path / "data")
    store.missing(["a"])
    with pytest.raises(DataError):
        store.lines("a")
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_is_its_list_of_files(tmp_path):
    entry = {"path": "a.txt.gz", "bytes": 3, "sha256": "00", "rows": 1, "columns": ["x"]}
    put(tmp_path, "MANIFEST.json", json.dumps([entry]))
    assert Store(tmp_path).manifest == [entry]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[", "not JSON"),
        ("{}", "expected a list of files, got dict"),
        ('[{"path": "a"}]', r"entry 1: needs path \(str\), bytes \(int\), sha256 \(str\), rows \(int\)"),
        ("[3]", "entry 1: needs"),
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path, text, reason):
    put(tmp_path, "MANIFEST.json", text)
    with pytest.raises(DataError, match=reason):
        _ = Store(tmp_path).manifest


def test_a_store_without_manifest_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"MANIFEST\.json: not in the data folder .*EMBEDRUN_DATA=DIR"):
        _ = Store(tmp_path).manifest
