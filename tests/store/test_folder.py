"""The data folder, its manifest, and whether what is there is what is stated."""

import gzip
import hashlib
import json
import os
import shutil
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


@pytest.mark.parametrize("cache", ["", "relative/cache"])
def test_an_unusable_cache_variable_means_the_home_folder(tmp_path, monkeypatch, cache):
    monkeypatch.delenv("EMBEDRUN_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert Store.find().root == tmp_path / ".cache" / "embedrun" / "data"
    assert Store.find("~/data").root == tmp_path / "data"


def test_without_a_home_the_store_has_no_file(monkeypatch):
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", none)
    for variable in ("EMBEDRUN_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    (problem,) = Store.find().missing(["stsb/dev.tsv.gz"])
    assert "stsb/dev.tsv.gz: not in the data folder (which does not exist)" in problem


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


def test_the_fingerprint_is_of_the_packed_bytes(tmp_path):
    path = put(tmp_path, "a.txt.gz", "one\n")
    assert Store(tmp_path).fingerprint("a.txt.gz") == hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(DataError, match="not in the data folder"):
        Store(tmp_path).fingerprint("b.txt.gz")


def test_tsv_knows_no_quotes_and_no_line_end_but_the_line_feed(tmp_path):
    put(tmp_path, "a.tsv.gz", 'x\ty\tz\n"1\t2"\tu\u2028v\n3\t\x85\t\n')
    columns = Store(tmp_path).read("a.tsv.gz", ["z", "x"])
    assert columns == {"z": ["u\u2028v", ""], "x": ['"1', "3"]}


def test_a_missing_column_names_the_nearest_and_all_there_are(tmp_path):
    path = put(tmp_path, "a.tsv.gz", "scores\ttext\n1\ta\n")
    with pytest.raises(DataError) as caught:
        Store(tmp_path).read("a.tsv.gz", ["score", "text"])
    assert problems(caught) == [
        f"{path}, row 1: no column 'score'; did you mean 'scores'? (columns: scores, text)"
    ]


def test_every_row_of_another_length_is_named(tmp_path):
    path = put(tmp_path, "a.tsv.gz", "x\ty\n1\n1\t2\n1\t2\t3\n\n1\t2\n")
    with pytest.raises(DataError) as caught:
        Store(tmp_path).read("a.tsv.gz", ["x"])
    assert problems(caught) == [
        f"{path}, row 2: has 1 fields, the header has 2",
        f"{path}, row 4: has 3 fields, the header has 2",
    ]


def test_every_faulty_object_is_named_and_other_fields_are_left(tmp_path):
    path = put(tmp_path, "a.jsonl.gz", '{"a":1,"b":2}\n{"b":3}\nnull\n{"a":\n{"a":4}\n')
    with pytest.raises(DataError) as caught:
        Store(tmp_path).read("a.jsonl.gz", ["a"])
    assert [problem.partition(" (")[0] for problem in problems(caught)] == [
        f"{path}, row 2: has no field 'a'",
        f"{path}, row 3: expected a JSON object, got NoneType",
        f"{path}, row 4: not JSON",
    ]
    put(tmp_path, "a.jsonl.gz", '{"a":1,"b":2}\n{"a":[4]}')
    assert Store(tmp_path).read("a.jsonl.gz", ["a"]) == {"a": [1, [4]]}


def test_more_than_twenty_faults_are_counted(tmp_path):
    put(tmp_path, "a.jsonl.gz", "?\n" * 23)
    with pytest.raises(DataError) as caught:
        Store(tmp_path).read("a.jsonl.gz", ["a"])
    assert len(problems(caught)) == 21
    assert problems(caught)[-1].endswith("and 3 more faults like these")


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_file_is_refused(tmp_path, text):
    put(tmp_path, "a.tsv.gz", text)
    with pytest.raises(DataError, match="Empty CSV file"):
        Store(tmp_path).read("a.tsv.gz", ["x"])


def test_a_header_alone_is_refused(tmp_path):
    put(tmp_path, "a.tsv.gz", "x\ty\n")
    with pytest.raises(DataError, match="has no rows"):
        Store(tmp_path).read("a.tsv.gz", ["x"])


def test_windows_line_ends_are_no_part_of_a_text(tmp_path):
    put(tmp_path, "a.tsv.gz", "x\ty\r\n1\t2\r\n")
    assert Store(tmp_path).read("a.tsv.gz", ["x", "y"]) == {"x": ["1"], "y": ["2"]}
    put(tmp_path, "a.txt.gz", "one\r\ntwo\r\n")
    assert Store(tmp_path).read("a.txt.gz", ["text"]) == {"text": ["one", "two"]}


def test_a_byte_that_is_not_utf_8_is_named_by_its_line(tmp_path):
    put(tmp_path, "a.txt.gz", b"one\ntwo\nthr\xffe\n")
    with pytest.raises(DataError, match=r"row 3: .* can't decode byte 0xff"):
        Store(tmp_path).read("a.txt.gz", ["text"])


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
    with pytest.raises(DataError, match="cannot be read: "):
        Store(tmp_path).read("a.txt.gz", ["text"])


def test_nothing_is_written_even_where_the_store_is_missing(tmp_path):
    store = Store(tmp_path / "data")
    store.missing(["a"])
    with pytest.raises(DataError):
        store.read("a", [])
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_is_its_list_of_files(tmp_path):
    entry = {"path": "a.txt.gz", "bytes": 3, "sha256": "00", "rows": 1, "columns": ["x"]}
    put(tmp_path, "MANIFEST.json", json.dumps([entry]))
    assert Store(tmp_path).manifest == [entry]


def test_what_an_entry_leaves_out_may_be_null(tmp_path):
    put(tmp_path, "a.txt.gz", "one\n")
    entry = {"path": "a.txt.gz", "bytes": 0, "sha256": "", "rows": 1, "columns": None, "hub": None}
    put(tmp_path, "MANIFEST.json", json.dumps([{**entry, "score_min_max": None, "labels": None}]))
    (read,) = Store(tmp_path).manifest
    assert not [problem for problem in verify(Store(tmp_path), read) if "rows" in problem]


def test_a_name_that_no_file_can_have_is_a_missing_file(tmp_path):
    (problem,) = Store(tmp_path).missing(["x" * 300])
    assert "not in the data folder" in problem


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[", "not JSON"),
        ("{}", "expected a list of files, got dict"),
        ('[{"path": "a"}]', "entry 1: bytes: "),
        ("[3]", "entry 1: path: "),
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path, text, reason):
    put(tmp_path, "MANIFEST.json", text)
    with pytest.raises(DataError, match=reason):
        _ = Store(tmp_path).manifest


def test_a_store_without_manifest_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"MANIFEST\.json: not in the data folder .*EMBEDRUN_DATA=DIR"):
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
    ]
    assert found(tmp_path, {"rows": 3, **verify_put(tmp_path, "a.txt.gz", ["one", "two"])}) == [
        "2 rows, the manifest says 3"
    ]


def test_a_field_less_in_every_line_gets_the_nearest(tmp_path):
    problems = found(tmp_path, nli(tmp_path, [line.replace("label", "labels") for line in NLI]))
    assert problems == ["no column 'label'; did you mean 'labels'? (columns: text, labels)"]


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


def test_a_whole_store_agrees_with_what_is_published(make_store, catalogue):
    assert faults_of(make_store("data"), catalogue) == {}


def test_one_line_less_is_told_by_the_manifest_and_by_the_published_count(make_store, catalogue):
    whole = lines_of(make_store("whole"), SUBJ_FILE)
    problems = faults_of(make_store("data", {SUBJ_FILE: whole[:-1]}), catalogue)[SUBJ_FILE]
    assert "3 rows, the manifest says 4" in problems
    assert "3 rows, the published data set has 4" in problems
    assert "1 rows of label 0, the published data set has 2" in problems


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


@pytest.mark.parametrize("honest", [False, True])
def test_a_score_of_seven_is_named_by_its_line_whatever_the_manifest_says(make_store, catalogue, honest):
    whole = lines_of(make_store("whole"), STS_FILE)
    root = make_store("data", {STS_FILE: [*whole[:2], "web\t7\tc\td"]}, honest=honest)
    assert (
        faults_of(root, catalogue)[STS_FILE].count("row 3: score: expected a number from 0 to 5, got '7'")
        == 1
    )


@pytest.mark.parametrize("honest", [False, True])
def test_a_label_of_three_is_named_by_its_line_whatever_the_manifest_says(make_store, catalogue, honest):
    whole = lines_of(make_store("whole"), SUBJ_FILE)
    root = make_store("data", {SUBJ_FILE: [*whole[:3], '{"text": "d", "label": 3}']}, honest=honest)
    assert faults_of(root, catalogue)[SUBJ_FILE].count("row 4: label 3 is none of 0, 1") == 1


def test_one_flipped_byte_is_told(make_store, catalogue):
    root = make_store("data")
    packed = bytearray((root / STS_FILE).read_bytes())
    packed[-9] ^= 1
    (root / STS_FILE).write_bytes(packed)
    digest, damage = faults_of(root, catalogue)[STS_FILE]
    assert digest.startswith("sha256 ")
    assert "cannot be read: " in damage


def test_a_column_that_the_source_does_not_tell_is_not_counted(make_store, catalogue):
    root = make_store(
        "data",
        {STS_FILE: ["subset\tscore\tsentence1\tsentence2", "all\t0\ta\tb", "all\t5\tc\td"]},
        honest=True,
    )
    (entry,) = (entry for entry in Store(root).manifest if entry["path"] == STS_FILE)
    assert "row 2: subset 'all' is none of news, web" in verify(Store(root), entry, catalogue)[0]
    entry["hub"] = {"constants": {"subset": "all"}}
    assert verify(Store(root), entry, catalogue) == []


@pytest.fixture(scope="module")
def real_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SUBJ, SNLI dev and STS12 of the real folder, with its manifest; tests put back what they change."""
    source, root = Path(os.environ["EMBEDRUN_DATA"]), tmp_path_factory.mktemp("real")
    for name in REAL:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, root / name)
    shutil.copyfile(source / "MANIFEST.json", root / "MANIFEST.json")
    return root


REAL = ("senteval/subj/train.jsonl.gz", "nli/snli_dev.jsonl.gz", "sts/sts12.tsv.gz")


def _line_cut(lines: list[str]) -> list[str]:
    return [*lines[:4999], *lines[5000:]]


def _twenty_left(lines: list[str]) -> list[str]:
    return [line for line in lines if '"label": 1' in line] + [
        line for line in lines if '"label": 0' in line
    ][:20]


def _label_three(lines: list[str]) -> list[str]:
    return [lines[0].replace('"label": 1', '"label": 3'), *lines[1:]]


def _score_seven(lines: list[str]) -> list[str]:
    fields = lines[1].split("\t")
    return [lines[0], "\t".join([fields[0], "7", *fields[2:]]), *lines[2:]]


@pytest.mark.realdata
@pytest.mark.parametrize("regenerated", [False, True], ids=["old manifest", "manifest of the faulty file"])
@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        (REAL[0], _line_cut, "9999 rows, the published data set has 10000"),
        (REAL[0], _twenty_left, "5020 rows, the published data set has 10000"),
        (REAL[1], _label_three, "row 1: label 3 is none of 0, 1, 2"),
        (REAL[2], _score_seven, "row 2: score: expected a number from 0 to 5, got '7'"),
    ],
)
def test_real_files_are_refused_after_one_change(real_copy, name, change, reason, regenerated):
    store, catalogue = Store(real_copy), Catalogue.read()
    entry = next(entry for entry in store.manifest if entry["path"] == name)
    assert verify(store, entry, catalogue) == []
    before = (real_copy / name).read_bytes()
    try:
        lines = change(gzip.decompress(before).decode().splitlines())
        made = verify_put(real_copy, name, lines)
        if regenerated:
            rows = len(lines) - name.endswith(".tsv.gz")
            entry = {**made, "rows": rows, "columns": entry["columns"]}
        problems = verify(store, entry, catalogue)
    finally:
        (real_copy / name).write_bytes(before)
    assert any(problem.endswith(reason) for problem in problems)
