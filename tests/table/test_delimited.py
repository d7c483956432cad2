import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_sheets import entry, hostile, missing

from embedrun.console import clean
from embedrun.errors import DataError
from embedrun.table.formats import from_csv, to_csv
from embedrun.table.sheet import Entry

WORDS = st.text(st.characters(codec="utf-8"), max_size=20).map(clean)
NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False)


def test_an_entry_is_a_line_with_raw_numbers():
    assert to_csv([entry(mean=79.123456, note="a, b")]) == (
        "table,scale,row,column,paper,ours_mean,ours_sd,n,wanted,ours_clean,difference,mark,note\n"
        'angle/small,,first,A,80.0,79.123456,0.25,3,3,,-0.5,within,"a, b"\n'
    )


def test_hostile_entries_come_back_but_for_control_characters():
    entries = hostile().entries
    back = from_csv(to_csv(entries))
    assert [one.paper for one in back] == [
        clean(one.paper) if isinstance(one.paper, str) else one.paper for one in entries
    ]
    assert [one.row for one in back] == [clean(one.row) for one in entries]


def test_no_word_begins_a_formula():
    for cells in csv.reader(io.StringIO(to_csv(hostile().entries))):
        for cell in cells[:4]:
            assert not cell.startswith(("=", "+", "-", "@"))


def test_negative_numbers_stay_numbers():
    (cells,) = list(csv.reader(io.StringIO(to_csv([missing(difference=-1.5)]))))[1:]
    assert cells[10] == "-1.5"


@given(
    words=st.tuples(WORDS, WORDS, WORDS, WORDS, WORDS),
    numbers=st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
)
def test_entries_round_trip(words: tuple, numbers: tuple):
    table, scale, row, column, note = words
    paper, mean, sd, clean_mean, difference = numbers
    one = Entry(table, scale, row, column, paper, mean, sd, 2, 3, clean_mean, difference, "off", note)
    fact = Entry(table, scale, row, column, note, None, None, 0, 0, None, None, "in words", "")
    assert from_csv(to_csv([one, fact])) == [one, fact]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n", "expected the heading"),
        ("", "expected the heading"),
        (to_csv([entry()]).replace("79.5", "nan"), "line 2: mean: expected a number"),
        (to_csv([entry()]).replace("within", "great"), "line 2: unknown mark 'great'"),
        (to_csv([entry()]).replace(",3,3,", ",3,"), "line 2"),
    ],
)
def test_what_it_has_not_written_is_refused(text: str, said: str):
    with pytest.raises(DataError, match=said):
        from_csv(text)
