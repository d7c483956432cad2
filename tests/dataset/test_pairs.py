import gzip
from pathlib import Path

import numpy as np
import pytest

from embedrun.dataset.pairs import Pairs
from embedrun.errors import DataError

TABLE = "text1\ttext2\tscore\nA cat.\tA dog.\t2\nRain\tSnow\t1.5\n"


def put(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    raw = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(raw) if name.lower().endswith(".gz") else raw)
    return str(path)


def faults(path: str, store, **options) -> list[str]:
    with pytest.raises(DataError) as caught:
        Pairs(path=path, **options).read("train", store)
    return [problem.removeprefix(path).removeprefix(", ") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", TABLE),
        ("a.tsv.gz", TABLE),
        ("A.TSV", TABLE.replace("\n", "\r\n") + "\r\n"),
        ("a.csv", TABLE.replace("\t", ",")),
        ("a.csv", "\ufeff" + TABLE.replace("\t", ",")),
        (
            "a.jsonl.gz",
            '{"text1":"A cat.","text2":"A dog.","score":2}\n{"text1":"Rain","text2":"Snow","score":"1.5"}',
        ),
    ],
)
def test_each_kind_of_file_gives_the_same_rows(tmp_path, store, name, content):
    rows = Pairs(path=put(tmp_path, name, content)).read("train", store)
    assert rows.texts == {"left": ["A cat.", "Rain"], "right": ["A dog.", "Snow"]}
    np.testing.assert_array_equal(rows.targets["score"], np.array([2.0, 1.5]))


def test_csv_has_quoting_and_tsv_has_none(tmp_path, store):
    table = 'text1,text2,score\n"a ""b"", c","two\nlines",1\n'
    rows = Pairs(path=put(tmp_path, "a.csv", table)).read("train", store)
    assert rows.texts == {"left": ['a "b", c'], "right": ["two\nlines"]}
    rows = Pairs(path=put(tmp_path, "a.tsv", 'text1\ttext2\tscore\n"a\tb"\t1\n')).read("train", store)
    assert rows.texts == {"left": ['"a'], "right": ['b"']}


def test_a_column_map_chooses_texts_and_targets(tmp_path, store):
    path = put(tmp_path, "a.csv", "id,q,a,gold,kind\n1,x,y,high,2\n")
    data = Pairs(path=path, columns={"text1": "q", "text2": "a", "label": "kind"})
    rows = data.read("train", store)
    assert data.targets == ("label",)
    assert (rows.texts["left"], rows.targets["label"].tolist()) == (["x"], [2])
    assert list(rows.targets) == ["label"]


def test_the_files_given_are_the_splits(tmp_path, store):
    data = Pairs(path=put(tmp_path, "a.tsv", TABLE), test=put(tmp_path, "t.tsv", TABLE + "b\tc\t0\n"))
    assert data.splits == ("train", "test")
    assert len(data.read("test", store)) == 3
    assert data.problems("dev", store) == ["dataset.dev: no file given; pass dataset.dev=FILE"]
    assert data.files("test", store) == []
    assert data.file("test") == tmp_path / "t.tsv"


def test_a_missing_column_names_the_nearest_and_all_there_are(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttxt2\trating\na\tb\t1\n")
    assert faults(path, store) == [
        "line 1: no column 'text2'; did you mean 'txt2'? (columns: text1, txt2, rating); "
        "dataset.columns={text1: NAME, ...} says what the columns are called",
        "line 1: no column 'score' (columns: text1, txt2, rating); "
        "dataset.columns={text1: NAME, ...} says what the columns are called",
    ]


def test_a_field_that_no_object_has_is_one_problem_and_a_gap_is_one_line(tmp_path, store):
    full = '{"text1":"a","text2":"b","score":1}\n'
    (problem,) = faults(put(tmp_path, "a.jsonl", full.replace("score", "scores") * 3), store)
    assert "no column 'score'; did you mean 'scores'?" in problem
    (problem,) = faults(put(tmp_path, "b.jsonl", full + '{"text1":"a","text2":"b"}\n'), store)
    assert problem == "line 2: has no field 'score' (fields: text1, text2)"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("\tb\t1", "text1: the text is empty"),
        ("a\t \t1", "text2: the text is empty"),
        ("a\tb\tmuch", "score: expected a number, got 'much'"),
        ("a\tb\tNaN", "score: expected a finite number, got 'NaN'"),
        ("a\tb\tinf", "score: expected a finite number, got 'inf'"),
        ("a\tb\t", "score: expected a number, got ''"),
        ("a\tb", "has 2 fields, the header has 3"),
        ("a\tb\t1\t", "has 4 fields, the header has 3"),
        ("", "blank line"),
    ],
)
def test_a_faulty_row_is_named_by_its_line(tmp_path, store, row, reason):
    path = put(tmp_path, "a.tsv", f"text1\ttext2\tscore\na\tb\t1\n{row}\nc\td\t2\n")
    assert faults(path, store) == [f"line 3: {reason}"]


@pytest.mark.parametrize("label", ["3", "-1", "1.0", "neutral", ""])
def test_a_label_is_0_1_or_2(tmp_path, store, label):
    path = put(tmp_path, "a.tsv", f"text1\ttext2\tlabel\na\tb\t0\na\tb\t{label}\n")
    (problem,) = faults(path, store, columns={"text1": "text1", "text2": "text2", "label": "label"})
    expected = "expected 0 (entailment), 1 (neutral) or 2 (contradiction)"
    assert problem == f"line 3: label: {expected}, got '{label}'"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"text1": "a"', "not JSON"),
        ('["a", "b", 1]', "expected a JSON object, got list"),
        ('{"text1":"a","text2":"b","score":NaN}', "score: expected a finite number, got nan"),
        ('{"text1":"a","text2":"b","score":true}', "score: expected a number, got True"),
        ('{"text1":"a","text2":null,"score":1}', "text2: expected text, got null"),
        ('{"text1":"\\ud800","text2":"b","score":1}', "text1: half a surrogate pair"),
        ("[" * 100_000, "not JSON"),
        (" ", "blank line"),
    ],
)
def test_a_faulty_object_is_named_by_its_line(tmp_path, store, line, reason):
    good = '{"text1":"a","text2":"b","score":1}'
    (problem,) = faults(put(tmp_path, "a.jsonl", f"{good}\n{line}\n{good}\n"), store)
    assert problem.startswith(f"line 2: {reason}")


def test_csv_lines_are_counted_through_quoted_line_ends(tmp_path, store):
    path = put(tmp_path, "a.csv", 'text1,text2,score\n"x\ny",b,1\na,b,bad\n"c\nd",b\n')
    assert faults(path, store) == [
        "line 4: score: expected a number, got 'bad'",
        "line 5: has 2 fields, the header has 3",
    ]


@pytest.mark.parametrize("row", ['"a,b,1', '"a"x,b,1', "a" * 200_000 + ",b,1"])
def test_what_is_not_csv_is_named_by_its_line(tmp_path, store, row):
    (problem,) = faults(put(tmp_path, "a.csv", f"text1,text2,score\na,b,1\n{row}\n"), store)
    assert problem.startswith("line 3: not CSV")


def test_twenty_faults_are_spelt_out_and_the_others_counted(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttext2\tscore\n" + "a\tb\tx\n" * 25)
    problems = faults(path, store)
    assert [problem.split(":")[0] for problem in problems[:20]] == [f"line {line}" for line in range(2, 22)]
    assert problems[20:] == [": and 5 more faults like these"]


def test_text_that_is_not_utf_8_is_named_by_its_line(tmp_path, store):
    path = put(tmp_path, "a.tsv", TABLE.encode() + "naïve\tb\t1\n".encode("latin-1"))
    assert faults(path, store) == ["line 4: byte 0xef is not UTF-8; save the file as UTF-8"]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_refused(tmp_path, store, name, content):
    assert faults(put(tmp_path, name, content), store) == [": the file is empty"]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_a_header_alone_is_refused(tmp_path, store, name):
    header = "text1,text2,score\n" if name == "a.csv" else "text1\ttext2\tscore\n"
    assert faults(put(tmp_path, name, header), store) == [": has a header and no rows"]


def test_a_column_name_that_occurs_twice_is_refused(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttext2\tscore\ttext1\na\tb\t1\tc\n")
    assert faults(path, store) == ["line 1: more than one column is named 'text1'"]


def test_a_damaged_gzip_file_is_refused(tmp_path, store):
    path = Path(put(tmp_path, "a.tsv.gz", TABLE))
    path.write_bytes(path.read_bytes()[:-9])
    (problem,) = faults(str(path), store)
    assert "damaged or not a gzip file" in problem


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing.tsv", "no file"),
        ("a.parquet", "must end in .tsv, .csv, .jsonl, or one of these and .gz"),
        ("a.gz", "must end in"),
        ("folder.csv", "is a folder"),
    ],
)
def test_a_path_that_cannot_be_read_is_a_problem(tmp_path, store, name, reason):
    (tmp_path / "folder.csv").mkdir()
    (problem,) = Pairs(path=str(tmp_path / name)).problems("train", store)
    assert problem.startswith("dataset.path: ")
    assert name in problem
    assert reason in problem


def test_a_mistyped_file_name_gets_the_nearest_in_its_folder(tmp_path, store, monkeypatch):
    put(tmp_path, "my_pairs.tsv", TABLE)
    monkeypatch.chdir(tmp_path)
    (problem,) = Pairs(path="my_pair.tsv").problems("train", store)
    assert "did you mean 'my_pairs.tsv'?" in problem
    assert str(tmp_path) in problem
    assert Pairs(path="my_pairs.tsv").problems("train", store) == []


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"text1": "a", "text2": "b", "scroe": "c"}, "no key 'scroe'; did you mean 'score'?"),
        ({"text1": "a", "score": "c"}, "lacks 'text2'"),
        ({"text1": "a", "text2": "b"}, "neither score nor label"),
        ({"text1": "a", "text2": "a", "score": "c"}, "uses one column of the file twice"),
    ],
)
def test_a_column_map_that_cannot_be_meant_is_refused(columns, reason):
    with pytest.raises(ValueError, match=reason.replace("?", r"\?")):
        Pairs(path="a.tsv", columns=columns)
