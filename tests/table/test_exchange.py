import json

import pytest
from table_sheets import entry, hostile, missing, row, sheet

from embedrun.errors import DataError
from embedrun.table.formats import from_json, to_json


def test_sheets_round_trip():
    sheets = [
        hostile(),
        sheet(row("first", missing()), scale="small", scale_title="t", tolerance=None, overrides=("a=1",)),
    ]
    assert from_json(to_json(sheets)) == sheets


def test_it_has_a_schema_number_and_pure_letters():
    text = to_json([hostile()])
    assert json.loads(text)["schema"] == 1
    assert text.isascii()


def test_a_number_that_is_none_is_never_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json([sheet(row("first", entry(mean=float("nan"))))])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 2, "tables": []}',
        '{"schema": 1, "tables": [NaN]}',
        '{"schema": 1, "tables": [{}]}',
    ],
)
def test_what_it_has_not_written_is_refused(text: str):
    with pytest.raises(DataError, match="JSON of tables"):
        from_json(text)
