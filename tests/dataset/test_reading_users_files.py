"""What a user's file says is what is read, to the letter."""

import gzip
import json
import re
from pathlib import Path

import pytest

from embedrun.dataset.pairs import Pairs
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


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
def test_a_blank_line_is_no_row(tmp_path, store, suffix):
    first = table(suffix, [("a", "b", "1")])
    path = put(tmp_path, f"a{suffix}", first + "\n\n" + first.splitlines()[-1] + "\n\n\n")
    rows = pairs(path, store, on_bad_row="skip")
    assert (list(rows.texts["left"]), rows.skipped) == (["a", "a"], ())


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl", ".tsv.gz"])
def test_a_byte_order_mark_and_windows_line_ends_belong_to_no_text(tmp_path, store, suffix):
    content = table(suffix.removesuffix(".gz"), [("a", "b", "1"), ("c", "d", "2")]).replace("\n", "\r\n")
    rows = pairs(put(tmp_path, f"a{suffix}", "\ufeff" + content), store)
    assert {view: list(column) for view, column in rows.texts.items()} == {
        "left": ["a", "c"],
        "right": ["b", "d"],
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"text1;text2;score\na;b;1\n", "pass 'dataset.separator=\";\"'"),
        (b"text1,text2,score\na,\xff,1\n", "save the file as UTF-8"),
        (b"text1,text2,score\n", "has no rows"),
        (b"", "cannot be read: "),
    ],
)
def test_a_file_that_cannot_be_read_says_what_to_do(tmp_path, store, content, reason):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=re.escape(reason)):
        Pairs(path=str(path)).read("train", store)


def test_another_separator_is_read_where_it_is_given(tmp_path, store):
    (tmp_path / "a.csv").write_text("text1;text2;score\na,b;c;1\n")
    rows = Pairs(path=str(tmp_path / "a.csv"), separator=";").read("train", store)
    assert rows.texts == {"left": ["a,b"], "right": ["c"]}
