"""Cells of CSV that a spreadsheet may open: text stays text, whatever it begins with."""

import math

from embedrun.console import clean

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")  # what it would compute, and our mark of it


def cell(value: object) -> str:
    """A value as a cell: nothing for None, a number with all digits, a `'` before what looks like a formula.

    A text that is a number, such as the `-5` of an option, has none.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return repr(value)
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
