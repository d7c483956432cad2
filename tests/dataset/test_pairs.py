import gzip
from pathlib import Path
from typing import Any

import pytest

from embedrun.dataset import graded
from embedrun.dataset.pairs import Pairs
from embedrun.errors import DataError
from embedrun.rows import Skipped


def put(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    raw = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(raw) if name.lower().endswith(".gz") else raw)
    return str(path)


def faults(path: str, store, **options) -> list[str]:
    with pytest.raises(DataError) as caught:
        Pairs(path=path, **options).read("train", store)
    return [problem.removeprefix(path).removeprefix(", ") for problem in caught.value.problems]


def test_a_column_map_chooses_texts_and_targets(tmp_path, store):
    path = put(tmp_path, "a.csv", "id,q,a,gold,kind\n1,x,y,high,2\n")
    data = Pairs(path=path, columns={"text1": "q", "text2": "a", "label": "kind"})
    rows = data.read("train", store)
    assert data.targets == ("label",)
    assert (rows.texts["left"], rows.targets["label"].tolist()) == (["x"], [2])
    assert list(rows.targets) == ["label"]


def test_a_missing_column_names_the_nearest_and_all_there_are(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttxt2\trating\na\tb\t1\n")
    assert faults(path, store) == [
        "row 1: no column 'text2'; did you mean 'txt2'? (columns: text1, txt2, rating); "
        "dataset.columns={text1: NAME, ...} says how they are called",
        "row 1: no column 'score' (columns: text1, txt2, rating); "
        "dataset.columns={text1: NAME, ...} says how they are called",
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("\tb\t1", "text1: the text is empty"),
        ("a\tb\tmuch", "score: expected a number, got 'much'"),
        ("a\tb\tNaN", "score: expected a finite number, got 'NaN'"),
        ("a\tb\t1_000", "score: expected a number, got '1_000'"),
        ("a\tb\t", "score: expected a number, got ''"),
    ],
)
def test_a_faulty_row_is_named_by_its_line(tmp_path, store, row, reason):
    path = put(tmp_path, "a.tsv", f"text1\ttext2\tscore\na\tb\t1\n{row}\nc\td\t2\n")
    assert faults(path, store) == [f"row 3: {reason}"]


def test_a_score_outside_its_scale_is_a_faulty_row(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttext2\tscore\na\tb\t1\na\tb\t5\na\tb\t0\na\tb\t5.1\n")
    assert faults(path, store, score_range=[1, 5]) == [
        "row 4: score: expected a number from 1 to 5, got '0'",
        "row 5: score: expected a number from 1 to 5, got '5.1'",
    ]
    kept = Pairs(path=path, score_range=[1, 5], on_bad_row="skip").read("train", store)
    assert (kept.targets["score"].tolist(), len(kept.skipped)) == ([1.0, 5.0], 2)
    # Rows that were kept under one scale are not those of another.
    assert len(Pairs(path=path, score_range=[0, 6], on_bad_row="skip").read("train", store)) == 4
    assert len(Pairs(path=path).read("train", store)) == 4


def test_an_unclosed_quote_is_named_by_its_row(tmp_path, store):
    path = put(tmp_path, "a.csv", 'text1,text2,score\na,b,1\n"a,b,1\nc,d,2\n')
    for on_bad_row in ("refuse", "skip"):  # skipped, it would take the rows behind it along
        problems = faults(path, store, on_bad_row=on_bad_row)
        assert problems == ["row 3: has 1 fields, the header has 3; a quote may not be closed"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing.tsv", "no file"),
        ("a.xlsx", "must end in .tsv, .csv, .jsonl, .parquet"),
        ("folder.csv", "must end in .tsv, .csv"),
    ],
)
def test_a_path_that_cannot_be_read_is_a_problem(tmp_path, store, name, reason):
    (tmp_path / "folder.csv").mkdir()
    (problem,) = Pairs(path=str(tmp_path / name)).problems("train", store)
    assert problem.startswith("dataset.path: ")
    assert name in problem
    assert reason in problem


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


def test_faulty_rows_are_left_out_and_listed_when_the_user_asks_for_it(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttext2\tscore\na\tb\t1\n\tx\tbad\nonly one\nc\td\t2\n\ty\t3\n")
    rows = Pairs(path=path, on_bad_row="skip").read("train", store)
    assert (rows.texts, rows.targets["score"].tolist()) == (
        {"left": ["a", "c"], "right": ["b", "d"]},
        [1.0, 2.0],
    )
    assert rows.skipped == (
        Skipped(path, 3, "score", "expected a number, got 'bad'; text1: the text is empty"),
        Skipped(path, 4, "", "has 1 fields, the header has 3"),
        Skipped(path, 6, "text1", "the text is empty"),
    )


def test_labels_stand_for_scores_in_what_is_held_out_and_are_kept(tmp_path, store):
    path = put(tmp_path, "a.csv", "text1,text2,label\na,b,0\nc,d,1\ne,f,2\n")
    columns = {"text1": "text1", "text2": "text2", "label": "label"}
    data = Pairs(path=path, test=path, columns=columns)
    assert graded(data, "test")
    assert data.read("test", store).targets["score"].tolist() == [1, 0.5, 0]
    assert list(data.read("train", store).targets) == ["label"]


def test_positive_pairs_are_selected_by_a_graded_file_with_columns_of_its_own(tmp_path, store):
    path = put(tmp_path, "a.tsv", "text1\ttext2\na cat\tone cat\n")
    dev = put(tmp_path, "dev.tsv", "q\ta\trating\na dog\train\t2\n")
    options: dict[str, Any] = {"path": path, "dev": dev, "columns": {"text1": "text1", "text2": "text2"}}
    data = Pairs(**options, pair_columns={"text1": "q", "text2": "a", "score": "rating"}, score_range=[1, 5])
    assert (data.targets, data.read("train", store).targets) == ((), {})
    rows = data.read("dev", store)
    assert (rows.texts["left"], rows.targets["score"].tolist()) == (["a dog"], [2])
    with pytest.raises(ValueError, match="or in pair_columns"):
        Pairs(**options)
    with pytest.raises(ValueError, match="Pairs: pair_columns names no score or label"):
        Pairs(**options, pair_columns={"text1": "q", "text2": "a"})
