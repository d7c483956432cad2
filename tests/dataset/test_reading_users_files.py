"""What a user's file says is what is read, to the letter."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedrun.dataset.pairs import Pairs
from embedrun.dataset.texts import Texts
from embedrun.dataset.triplets import Triplets
from embedrun.errors import DataError
from embedrun.rows import Rows

# What a reader of tables likes to take for a missing value, a number, a truth value or a date.
LOOKS_LIKE = [
    "NA",
    "null",
    "None",
    "nan",
    "#N/A",
    "007",
    "1e5",
    "1_000",
    "True",
    "2024-01-31",
    "12:30",
    "\\N",
]


def put(folder: Path, name: str, content: str) -> str:
    raw = content.encode()
    (folder / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return str(folder / name)


def table(suffix: str, rows: list[tuple[str, str, str]]) -> str:
    """A file of pairs with scores, nothing quoted."""
    names = ("text1", "text2", "score")
    if suffix == ".jsonl":
        return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    between = "," if suffix == ".csv" else "\t"
    return "".join(between.join(row) + "\n" for row in [names, *rows])


def pairs(path: str | Path, store, **options) -> Rows:
    return Pairs(path=str(path), **options).read("train", store)


def faults(path: str, store, **options) -> list[str]:
    with pytest.raises(DataError) as caught:
        pairs(path, store, **options)
    return [problem.removeprefix(path).removeprefix(", ") for problem in caught.value.problems]


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl", ".tsv.gz"])
def test_what_looks_like_another_type_stays_the_text_that_it_is(tmp_path, store, suffix):
    content = table(suffix.removesuffix(".gz"), [(text, text, "1") for text in LOOKS_LIKE])
    rows = pairs(put(tmp_path, f"a{suffix}", content), store)
    assert {view: list(column) for view, column in rows.texts.items()} == {
        "left": LOOKS_LIKE,
        "right": LOOKS_LIKE,
    }


def test_what_looks_like_another_type_stays_text_in_a_column_of_parquet(tmp_path, store):
    pq.write_table(pa.table({"text": LOOKS_LIKE}), tmp_path / "a.parquet")
    rows = Texts(path=str(tmp_path / "a.parquet")).read("train", store)
    assert list(rows.texts["text"]) == LOOKS_LIKE


def test_what_looks_like_another_type_stays_text_in_a_line_of_plain_text(tmp_path, store):
    rows = Texts(path=put(tmp_path, "a.txt", "\n".join(LOOKS_LIKE))).read("train", store)
    assert list(rows.texts["text"]) == LOOKS_LIKE


def test_a_column_of_nothing_but_numbers_is_text_where_text_is_meant(tmp_path, store):
    rows = Triplets(path=put(tmp_path, "a.csv", "anchor,positive,negative\n1,02,3.0\n4,5,6\n")).read(
        "train", store
    )
    assert {view: list(column) for view, column in rows.texts.items()} == {
        "left": ["1", "4"],
        "right": ["02", "5"],
        "negative": ["3.0", "6"],
    }


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_a_row_with_a_field_too_few_or_too_many_is_refused_by_its_line(tmp_path, store, suffix):
    content = table(suffix, [("a", "b", "1"), ("short", "1"), ("c", "d", "e", "1"), ("f", "g", "2")])  # type: ignore[list-item]
    path = put(tmp_path, f"a{suffix}", content)
    assert faults(path, store) == [
        "row 3: has 2 fields, the header has 3",
        "row 4: has 4 fields, the header has 3",
    ]
    rows = pairs(path, store, on_bad_row="skip")
    assert list(rows.texts["left"]) == ["a", "f"]
    assert [(row.row, row.column) for row in rows.skipped] == [(3, ""), (4, "")]


def test_a_quote_that_opens_a_field_of_tsv_is_text_and_merges_nothing(tmp_path, store):
    content = table(
        ".tsv", [('"He said', "b", "1"), ("c", 'so"', "2"), ('"e"', '""', "3"), ('"', '"""', "4")]
    )
    rows = pairs(put(tmp_path, "a.tsv", content), store)
    assert list(rows.texts["left"]) == ['"He said', "c", '"e"', '"']
    assert list(rows.texts["right"]) == ["b", 'so"', '""', '"""']


def test_a_quote_inside_an_unquoted_field_of_csv_is_text(tmp_path, store):
    rows = pairs(
        put(tmp_path, "a.csv", table(".csv", [('5" disk', 'a "b" c', "1"), ('c"', "d", "2")])), store
    )
    assert list(rows.texts["left"]) == ['5" disk', 'c"']
    assert list(rows.texts["right"]) == ['a "b" c', "d"]


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
def test_a_blank_line_is_no_row(tmp_path, store, suffix):
    first = table(suffix, [("a", "b", "1")])
    path = put(tmp_path, f"a{suffix}", first + "\n\n" + first.splitlines()[-1] + "\n\n\n")
    rows = pairs(path, store, on_bad_row="skip")
    assert (list(rows.texts["left"]), rows.skipped) == (["a", "a"], ())


@pytest.mark.parametrize("stem", ["a[b]", "[ab]", "a*", "a?", "a**b", "{a,b}", "a::b", "%61", "#a"])
@pytest.mark.parametrize("suffix", [".tsv", ".parquet"])
def test_a_file_name_is_a_name_and_no_pattern(tmp_path, store, stem, suffix):
    for name, text in (("a", "other"), ("a!", "other"), ("ab", "other"), (stem, "meant")):
        rows = {"text1": [text], "text2": ["b"], "score": [1.0]}
        if suffix == ".parquet":
            pq.write_table(pa.table(rows), tmp_path / f"{name}{suffix}")
        else:
            put(tmp_path, f"{name}{suffix}", table(suffix, [(text, "b", "1")]))
    assert list(pairs(tmp_path / f"{stem}{suffix}", store).texts["left"]) == ["meant"]


@pytest.mark.parametrize("stem", ["a[b]", "a*", "a?"])
def test_the_name_of_a_folder_of_shards_is_no_pattern(tmp_path, store, stem):
    for folder, text in (("ab", "other"), (stem, "meant")):
        (tmp_path / folder).mkdir()
        put(tmp_path / folder, "part-[0].tsv", table(".tsv", [(text, "b", "1")]))
    assert list(pairs(tmp_path / stem, store).texts["left"]) == ["meant"]


def test_shards_may_hold_scores_as_whole_numbers_and_as_numbers(tmp_path, store):
    for number, scores in enumerate(([1, 2], [0.5, 1.5], ["3", "0.25"])):
        shard = pa.table({"text1": ["a", "b"], "text2": ["c", "d"], "score": scores})
        pq.write_table(shard, tmp_path / f"part-{number}.parquet")
    rows = pairs(tmp_path, store)
    np.testing.assert_array_equal(rows.targets["score"], np.array([1, 2, 0.5, 1.5, 3, 0.25]))


def test_rows_of_json_lines_may_hold_scores_as_whole_numbers_numbers_and_text(tmp_path, store):
    lines = "".join(f'{{"text1":"a","text2":"b","score":{score}}}\n' for score in ("1", "0.5", '"2"', "1e2"))
    rows = pairs(put(tmp_path, "a.jsonl", lines), store)
    np.testing.assert_array_equal(rows.targets["score"], np.array([1, 0.5, 2, 100]))


def test_a_score_is_the_nearest_float64_to_its_digits(tmp_path, store):
    digits = ["0.1000000000000000055511151231257827", "5e-324", "9007199254740993", "0.30000000000000004"]
    rows = pairs(put(tmp_path, "a.csv", table(".csv", [("a", "b", text) for text in digits])), store)
    assert rows.targets["score"].tolist() == [0.1, 5e-324, 9007199254740992.0, 0.1 + 0.2]


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_a_header_may_name_a_column_twice_unless_it_is_wanted(tmp_path, store, suffix):
    between = "," if suffix == ".csv" else "\t"
    for name, extra in (("other", ["note", "note"]), ("wanted", ["text2", "note"])):
        lines = (["text1", "text2", "score", *extra], ["a", "b", "1", "c", "d"])
        put(tmp_path, f"{name}{suffix}", "".join(between.join(line) + "\n" for line in lines))
    assert list(pairs(tmp_path / f"other{suffix}", store).texts["right"]) == ["b"]
    problems = faults(str(tmp_path / f"wanted{suffix}"), store)
    assert problems == ["row 1: more than one column is named 'text2'"]


def test_a_key_that_an_object_has_twice_counts_as_it_was_given_last(tmp_path, store):
    path = put(tmp_path, "a.jsonl", '{"text1":"a","text1":"b","text2":"c","score":1}\n')
    assert list(pairs(path, store).texts["left"]) == ["b"]


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl", ".tsv.gz"])
def test_a_byte_order_mark_and_windows_line_ends_belong_to_no_text(tmp_path, store, suffix):
    content = table(suffix.removesuffix(".gz"), [("a", "b", "1"), ("c", "d", "2")]).replace("\n", "\r\n")
    rows = pairs(put(tmp_path, f"a{suffix}", "\ufeff" + content), store)
    assert {view: list(column) for view, column in rows.texts.items()} == {
        "left": ["a", "c"],
        "right": ["b", "d"],
    }


def test_other_characters_that_python_takes_for_line_ends_are_text(tmp_path, store):
    text = "a\u2028b\u0085c\x0bd\x0ce\x1cf"
    for suffix in (".tsv", ".csv"):
        rows = pairs(put(tmp_path, f"a{suffix}", table(suffix, [(text, "b", "1"), ("c", "d", "2")])), store)
        assert list(rows.texts["left"]) == [text, "c"]
    rows = Texts(path=put(tmp_path, "a.txt", f"{text}\nc\n")).read("train", store)
    assert list(rows.texts["text"]) == [text, "c"]


def test_a_file_that_another_has_replaced_is_read_anew(tmp_path, store):
    path = put(tmp_path, "a.tsv", table(".tsv", [("a", "b", "1")]))
    assert list(pairs(path, store).texts["left"]) == ["a"]
    put(
        tmp_path, "a.tsv", table(".tsv", [("z", "b", "1")])
    )  # as long, and perhaps in the same tick of the clock
    assert list(pairs(path, store).texts["left"]) == ["z"]


def test_nothing_is_written_beside_a_users_file(tmp_path, store):
    path = put(tmp_path, "a.tsv", table(".tsv", [("a", "b", "1")]))
    before = sorted(tmp_path.rglob("*"))
    pairs(path, store)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_rows_behind_one_that_is_short_keep_their_numbers(tmp_path, store, suffix):
    content = table(suffix, [("a", "b", "1"), ("short", "1"), ("c", "d", "bad")])  # type: ignore[list-item]
    assert faults(put(tmp_path, f"a{suffix}", content), store) == [
        "row 3: has 2 fields, the header has 3",
        "row 4: score: expected a number, got 'bad'",
    ]
