"""Sheets in each of the formats."""

from collections.abc import Sequence

from embedrun.table.delimited import to_csv
from embedrun.table.exchange import to_json
from embedrun.table.latex import latex
from embedrun.table.markdown import markdown
from embedrun.table.sheet import Sheet

FORMATS = {"md": ".md", "csv": ".csv", "latex": ".tex", "json": ".json"}  # with the suffix of their files


def render(sheets: Sequence[Sheet], form: str = "md") -> str:
    """All sheets as one text.

    Args:
        sheets: one a table.
        form: one of `FORMATS`.
    """
    match form:
        case "csv":
            return to_csv(entry for sheet in sheets for entry in sheet.entries)
        case "latex":
            return "\n".join(latex(sheet) for sheet in sheets)
        case "json":
            return to_json(sheets)
    return "\n".join(markdown(sheet) for sheet in sheets)
