import pytest
from table_sheets import entry, row, sheet

from embedrun.table.formats import FORMATS, from_csv, from_json, render

ONE, TWO = sheet(row("first", entry())), sheet(row("first", entry(mean=1.0)), name="angle/other")


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_holds_every_table_in_order(form: str):
    text = render([ONE, TWO], form)
    assert -1 < text.find("79.5") < text.find("1.0")
    assert text.endswith("\n")


def test_csv_and_json_are_read_back_to_the_same_entries():
    entries = [*ONE.entries, *TWO.entries]
    assert from_csv(render([ONE, TWO], "csv")) == entries
    assert [one for back in from_json(render([ONE, TWO], "json")) for one in back.entries] == entries
