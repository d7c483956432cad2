"""Entries as CSV: a line for each row and column of a table, with raw numbers.

A file of `embedrun table -o FILE.csv` is read in Python with `from_csv(FILE.read_text())`.
"""

import csv
import io
import math
from collections.abc import Iterable
from typing import Any, get_args

from embedrun.errors import DataError
from embedrun.table import spreadsheet
from embedrun.table.sheet import Entry, Mark

# heading: field of `Entry`.
_FIELDS = {
    "table": "table", "scale": "scale", "row": "row", "column": "column", "paper": "paper",
    "ours_mean": "mean", "ours_sd": "sd", "n": "n", "wanted": "wanted", "ours_clean": "clean",
    "difference": "difference", "mark": "mark", "note": "note",
}  # fmt: skip
_WORDS = ("table", "scale", "row", "column", "mark", "note")
_COUNTS = ("n", "wanted")


def to_csv(entries: Iterable[Entry]) -> str:
    """The entries with a heading.

    Words that a spreadsheet would take for a formula have a `'` before them; numbers stay numbers.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_FIELDS)
    for entry in entries:
        writer.writerow([spreadsheet.cell(getattr(entry, name)) for name in _FIELDS.values()])
    return out.getvalue()


def from_csv(text: str) -> list[Entry]:
    """The entries of what `to_csv` has written.

    Raises:
        DataError: for anything else, with the line.
    """
    rows = csv.reader(io.StringIO(text, newline=""))
    if next(rows, None) != list(_FIELDS):
        raise DataError(f"CSV of a table: expected the heading {','.join(_FIELDS)}")
    entries = []
    for row in rows:
        try:
            named = dict(zip(_FIELDS.values(), row, strict=True))
            entries.append(Entry(**{name: _read(name, cell, named["mark"]) for name, cell in named.items()}))
        except ValueError as fault:
            raise DataError(f"CSV of a table: line {rows.line_num}: {fault}") from None
    return entries


def _read(name: str, cell: str, mark: str) -> Any:
    if name in _WORDS or (name == "paper" and mark == "in words"):
        text = cell.removeprefix("'")
        if name == "mark" and text not in get_args(Mark):
            raise ValueError(f"unknown mark {text!r}")
        return text
    if name in _COUNTS:
        return int(cell)
    if not cell:
        return None
    number = float(cell)
    if not math.isfinite(number):
        raise ValueError(f"{name}: expected a number, got {cell!r}")
    return number
