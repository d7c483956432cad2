import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedrun.dataset import graded
from embedrun.dataset.pairs import Pairs
from embedrun.errors import DataError
from embedrun.rows import Skipped

TABLE = "text1\ttext2\tscore\nA cat.\tA dog.\t2\nRain\tSnow\t1.5\n"


def put(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    raw = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(raw) if name.lower().endswith(".gz") else raw)
    return str(path)


def parquet(folder: Path, name: str, table: dict[str, list]) -> str:
    pq.write_table(pa.table(table), folder / name)
    return str(folder / name)


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


def test_pairs_may_have_neither_score_nor_label(tmp_path, store):
    data = Pairs(path=put(tmp_path, "a.csv", "q,a,score\nx,y,high\n"), columns={"text1": "q", "text2": "a"})
    assert data.targets == ()
    rows = data.read("train", store)
    assert (rows.texts["left"], rows.texts["right"], rows.targets) == (["x"], ["y"], {})


def test_the_files_given_are_the_splits(tmp_path, store):
    data = Pairs(path=put(tmp_path, "a.tsv", TABLE), test=put(tmp_path, "t.tsv", TABLE + "b\tc\t0\n"))
    assert data.splits == ("train", "test")
    assert len(data.read("test", store)) == 3
    assert data.problems("dev", store) == ["dataset.dev: no file given; pass dataset.dev=FILE"]
    assert data.files("test", store) == []


def test_a_missing_column_names_the_nearest_and_all_there_are(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttxt2\trating\na\tb\t1\n")
    assert faults(path, store) == [
        "row 1: no column 'text2'; did you mean 'txt2'? (columns: text1, txt2, rating); "
        "dataset.columns={text1: NAME, ...} says what the columns are called",
        "row 1: no column 'score' (columns: text1, txt2, rating); "
        "dataset.columns={text1: NAME, ...} says what the columns are called",
    ]


def test_a_field_that_no_object_has_is_one_problem_and_a_gap_is_one_line(tmp_path, store):
    full = '{"text1":"a","text2":"b","score":1}\n'
    (problem,) = faults(put(tmp_path, "a.jsonl", full.replace("score", "scores") * 3), store)
    assert "no column 'score'; did you mean 'scores'?" in problem
    (problem,) = faults(put(tmp_path, "b.jsonl", full + '{"text1":"a","text2":"b"}\n'), store)
    assert problem == "row 2: has no field 'score' (fields: text1, text2)"


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
    ],
)
def test_a_faulty_row_is_named_by_its_line(tmp_path, store, row, reason):
    path = put(tmp_path, "a.tsv", f"text1\ttext2\tscore\na\tb\t1\n{row}\nc\td\t2\n")
    assert faults(path, store) == [f"row 3: {reason}"]


def test_a_score_outside_its_scale_is_a_faulty_row(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttext2\tscore\na\tb\t1\na\tb\t5\na\tb\t0\na\tb\t5.1\n")
    assert faults(path, store, score_range=[1, 5]) == [
        "row 4: score: expected a number from 1 to 5 (dataset.score_range), got '0'",
        "row 5: score: expected a number from 1 to 5 (dataset.score_range), got '5.1'",
    ]
    kept = Pairs(path=path, score_range=[1, 5], on_bad_row="skip").read("train", store)
    assert (kept.targets["score"].tolist(), len(kept.skipped)) == ([1.0, 5.0], 2)
    # Rows that were kept under one scale are not those of another.
    assert len(Pairs(path=path, score_range=[0, 6], on_bad_row="skip").read("train", store)) == 4
    assert len(Pairs(path=path).read("train", store)) == 4


def test_the_scale_holds_for_every_split(tmp_path, store):
    path = put(tmp_path, "a.tsv", TABLE)
    data = Pairs(path=path, test=put(tmp_path, "t.tsv", TABLE + "b\tc\t7\n"), score_range=[1, 2])
    assert data.score_range == (1.0, 2.0)
    assert len(data.read("train", store)) == 2
    with pytest.raises(DataError, match="row 4: score: expected a number from 1 to 2"):
        data.read("test", store)


@pytest.mark.parametrize("value", [[5, 1], [1], [1, 2, 3], [0, None], [0, float("inf")], [1, 1]])
def test_a_scale_has_two_ends_in_order(value):
    with pytest.raises(ValueError, match=r"Pairs: score_range: expected the lowest and the highest score"):
        Pairs(path="a.tsv", score_range=value)


def test_a_scale_of_rows_without_scores_is_refused():
    with pytest.raises(ValueError, match="is of scores, and columns names none"):
        Pairs(path="a.tsv", score_range=[0, 1], columns={"text1": "a", "text2": "b"})


@pytest.mark.parametrize("label", ["3", "-1", "1.0", "neutral", ""])
def test_a_label_is_0_1_or_2(tmp_path, store, label):
    path = put(tmp_path, "a.tsv", f"text1\ttext2\tlabel\na\tb\t0\na\tb\t{label}\n")
    (problem,) = faults(path, store, columns={"text1": "text1", "text2": "text2", "label": "label"})
    expected = "expected 0 (entailment), 1 (neutral) or 2 (contradiction)"
    assert problem == f"row 3: label: {expected}, got '{label}'"


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
    ],
)
def test_a_faulty_object_is_named_by_its_line(tmp_path, store, line, reason):
    good = '{"text1":"a","text2":"b","score":1}'
    (problem,) = faults(put(tmp_path, "a.jsonl", f"{good}\n{line}\n{good}\n"), store)
    assert problem.startswith(f"row 2: {reason}")


def test_rows_of_csv_are_counted_and_not_the_lines_in_quotes(tmp_path, store):
    path = put(tmp_path, "a.csv", 'text1,text2,score\n"x\ny",b,1\na,b,bad\n"c\nd",b\n')
    assert faults(path, store) == [
        "row 3: score: expected a number, got 'bad'",
        "row 4: has 2 fields, the header has 3; a quote may not be closed",
    ]


def test_an_unclosed_quote_is_named_by_its_row(tmp_path, store):
    path = put(tmp_path, "a.csv", 'text1,text2,score\na,b,1\n"a,b,1\nc,d,2\n')
    for on_bad_row in ("refuse", "skip"):  # skipped, it would take the rows behind it along
        problems = faults(path, store, on_bad_row=on_bad_row)
        assert problems == ["row 3: has 1 fields, the header has 3; a quote may not be closed"]


def test_twenty_faults_are_spelt_out_and_the_others_counted(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttext2\tscore\n" + "a\tb\tx\n" * 25)
    problems = faults(path, store)
    assert [problem.split(":")[0] for problem in problems[:20]] == [f"row {line}" for line in range(2, 22)]
    assert problems[20:] == [": and 5 more faults like these"]


def test_text_that_is_not_utf_8_is_refused(tmp_path, store):
    path = put(tmp_path, "a.tsv", TABLE.encode() + "naïve\tb\t1\n".encode("latin-1"))
    (problem,) = faults(path, store)
    assert "can't decode byte 0xef" in problem
    assert problem.endswith("; save the file as UTF-8")


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_refused(tmp_path, store, name, content):
    (problem,) = faults(put(tmp_path, name, content), store)
    assert "Empty CSV file" in problem or problem == ": has no rows"


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_a_header_alone_is_refused(tmp_path, store, name):
    header = "text1,text2,score\n" if name == "a.csv" else "text1\ttext2\tscore\n"
    assert faults(put(tmp_path, name, header), store) == [": has no rows"]


def test_a_column_name_that_occurs_twice_is_refused(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttext2\tscore\ttext1\na\tb\t1\tc\n")
    assert faults(path, store) == ["row 1: more than one column is named 'text1'"]


def test_a_damaged_gzip_file_is_refused(tmp_path, store):
    path = Path(put(tmp_path, "a.tsv.gz", TABLE))
    path.write_bytes(path.read_bytes()[:-9])
    (problem,) = faults(str(path), store)
    assert problem == ": cannot be read: Truncated compressed stream"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing.tsv", "no file"),
        (
            "a.xlsx",
            "must end in .tsv, .csv, .jsonl, .parquet, those of text also with .gz, "
            "or be a folder of such files",
        ),
        ("a.gz", "must end in"),
        ("a.txt", "must end in"),
        ("a.parquet.gz", "must end in"),
        ("folder.csv", "holds no file that ends in .tsv, .csv"),
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
    (problem,) = Pairs(path="my_pairs.tvs").problems("train", store)
    assert problem.endswith("did you mean 'my_pairs.tsv'?")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"text1": "a", "text2": "b", "scroe": "c"}, "no key 'scroe'; did you mean 'score'?"),
        ({"text1": "a", "score": "c"}, "lacks 'text2'"),
        ({"text1": "a", "text2": "a", "score": "c"}, "uses one column of the file twice"),
    ],
)
def test_a_column_map_that_cannot_be_meant_is_refused(columns, reason):
    with pytest.raises(ValueError, match=reason.replace("?", r"\?")):
        Pairs(path="a.tsv", columns=columns)


def test_a_parquet_file_gives_the_same_rows_and_typed_targets(tmp_path, store):
    table = {"text1": ["A cat.", "Rain"], "text2": ["A dog.", "Snow"], "score": [2, 1], "label": [0, 2]}
    names = {name: name for name in table}
    rows = Pairs(path=parquet(tmp_path, "a.parquet", table), columns=names).read("train", store)
    assert rows.texts == {"left": ["A cat.", "Rain"], "right": ["A dog.", "Snow"]}
    assert (rows.targets["score"].dtype, rows.targets["label"].dtype) == (np.float64, np.int64)
    assert (rows.targets["score"].tolist(), rows.targets["label"].tolist()) == ([2.0, 1.0], [0, 2])


def test_a_faulty_parquet_value_is_named_by_its_row(tmp_path, store):
    table = {"text1": ["a", "b", None], "text2": ["c", "", "d"], "score": [1.0, float("nan"), 2.0]}
    assert faults(parquet(tmp_path, "a.parquet", table), store) == [
        "row 2: score: expected a finite number, got nan",
        "row 2: text2: the text is empty",
        "row 3: text1: expected text, got null",
    ]


def test_a_folder_is_its_shards_sorted_by_name(tmp_path, store):
    folder = tmp_path / "shards"
    folder.mkdir()
    put(folder, "part-1.tsv", "score\ttext2\ttext1\n3\td\tc\n")  # each shard has its own header
    put(folder, "part-0.tsv.gz", "text1\ttext2\tscore\na\tb\t1\n")
    for ignored in (".hidden.tsv", "_SUCCESS", "README.md"):
        put(folder, ignored, "nothing")
    data = Pairs(path=str(folder))
    assert data.problems("train", store) == []
    rows = data.read("train", store)
    assert (rows.texts["left"], rows.targets["score"].tolist()) == (["a", "c"], [1.0, 3.0])


def test_parquet_shards_are_read_as_one(tmp_path, store):
    for number in (2, 1):
        table = {"text1": [f"a{number}"], "text2": ["b"], "score": [number]}
        parquet(tmp_path, f"part-{number}.parquet", table)
    assert Pairs(path=str(tmp_path)).read("train", store).texts["left"] == ["a1", "a2"]


def test_faults_of_shards_are_named_by_file_and_line_and_counted_together(tmp_path, store):
    put(tmp_path, "a.tsv", "text1\ttext2\tscore\n" + "a\tb\tx\n" * 15)
    put(tmp_path, "b.tsv", "text1\ttext2\tscore\na\tb\t1\n" + "a\t\t1\n" * 15)
    put(tmp_path, "c.tsv", "text1\tscore\n")
    problems = faults(str(tmp_path), store)
    assert problems[0].startswith("/c.tsv, row 1: no column 'text2'")
    assert problems[1] == "/a.tsv, row 2: score: expected a number, got 'x'"
    assert problems[19] == "/b.tsv, row 6: text2: the text is empty"
    assert problems[20:] == [": and 11 more faults like these"]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("a.tsv", "b.jsonl"), "mixes .jsonl and .tsv; give files of one kind"),
        (("a.tsv", "a.tsv.gz"), "holds a.tsv both packed and unpacked"),
        (("a.md",), "holds no file that ends in"),
    ],
)
def test_a_folder_that_is_no_one_table_is_a_problem(tmp_path, store, names, reason):
    for name in names:
        put(tmp_path, name, TABLE)
    (problem,) = Pairs(path=str(tmp_path)).problems("train", store)
    assert reason in problem
    with pytest.raises(DataError):
        Pairs(path=str(tmp_path)).read("train", store)


def test_faulty_rows_are_left_out_and_listed_when_the_user_asks_for_it(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttext2\tscore\na\tb\t1\n\tx\tbad\nonly one\nc\td\t2\n")
    rows = Pairs(path=path, on_bad_row="skip").read("train", store)
    assert (rows.texts, rows.targets["score"].tolist()) == (
        {"left": ["a", "c"], "right": ["b", "d"]},
        [1.0, 2.0],
    )
    assert rows.skipped == (
        Skipped(path, 3, "score", "expected a number, got 'bad'; text1: the text is empty"),
        Skipped(path, 4, "", "has 1 fields, the header has 3"),
    )


def test_the_fingerprint_is_that_of_the_rows_that_are_kept(tmp_path, store):
    clean = Pairs(path=put(tmp_path, "a.tsv", TABLE)).read("train", store)
    faulty = Pairs(path=put(tmp_path, "b.tsv", TABLE + "a\tb\tx\n"), on_bad_row="skip").read("train", store)
    assert (len(clean.skipped), len(faulty.skipped)) == (0, 1)
    assert clean.fingerprint() == faulty.fingerprint()


def test_nothing_left_after_skipping_is_refused(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttext2\tscore\na\tb\tx\na\tb\ty\n")
    (problem,) = faults(path, store, on_bad_row="skip")
    assert problem.startswith(": all 2 rows are faulty; ")
    assert problem.endswith("a.tsv, row 2: score: expected a number, got 'x'")


def test_an_unreadable_shard_is_refused_and_not_skipped(tmp_path, store):
    put(tmp_path, "a.tsv", TABLE)
    put(tmp_path, "b.tsv", "")
    assert faults(str(tmp_path), store, on_bad_row="skip") == ["/b.tsv: cannot be read: Empty CSV file"]


def test_on_bad_row_is_refuse_or_skip():
    with pytest.raises(ValueError, match="on_bad_row must be refuse or skip, got 'drop'"):
        Pairs(path="a.tsv", on_bad_row="drop")  # type: ignore[arg-type]


def test_labels_stand_for_scores_in_what_is_held_out_and_are_kept(tmp_path, store):
    path = put(tmp_path, "a.csv", "text1,text2,label\na,b,0\nc,d,1\ne,f,2\n")
    columns = {"text1": "text1", "text2": "text2", "label": "label"}
    data = Pairs(path=path, test=path, columns=columns)
    assert graded(data, "test")
    assert data.read("test", store).targets["score"].tolist() == [1, 0.5, 0]
    assert list(data.read("train", store).targets) == ["label"]


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_split_that_is_scored_without_a_score_is_refused_and_not_passed_over_in_silence(split):
    columns = {"text1": "a", "text2": "b"}
    assert Pairs(path="a.tsv", columns=columns).splits == ("train",)
    with pytest.raises(ValueError, match=f"names no score or label, which {split} would be scored by"):
        Pairs(path="a.tsv", columns=columns, **{split: "d.tsv"})
    with pytest.raises(ValueError, match=f"name it there, or leave {split} out"):
        Pairs(path="a.tsv", split={"train": 0.5, split: 0.5}, columns=columns)
    with pytest.raises(ValueError, match="which dev and test would be scored by"):
        Pairs(path="a.tsv", dev="d.tsv", test="t.tsv", columns=columns)


def test_positive_pairs_are_selected_by_a_graded_file_with_columns_of_its_own(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttext2\na cat\tone cat\n")
    dev = put(tmp_path, "dev.tsv", "q\ta\trating\na dog\train\t2\n")
    options: dict[str, Any] = {"path": path, "dev": dev, "columns": {"text1": "text1", "text2": "text2"}}
    data = Pairs(**options, pair_columns={"text1": "q", "text2": "a", "score": "rating"}, score_range=[1, 5])
    assert (data.targets, data.read("train", store).targets) == ((), {})
    rows = data.read("dev", store)
    assert (rows.texts["left"], rows.targets["score"].tolist()) == (["a dog"], [2])
    with pytest.raises(ValueError, match="name it there or in pair_columns, or leave dev out"):
        Pairs(**options)
    with pytest.raises(ValueError, match="Pairs: pair_columns names no score or label"):
        Pairs(**options, pair_columns={"text1": "q", "text2": "a"})
