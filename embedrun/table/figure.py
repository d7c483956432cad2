"""The points of a figure: x and line of each row, what was measured there, and what is printed."""

from dataclasses import dataclass

from embedrun.table.preset import Table
from embedrun.table.sheet import Sheet


@dataclass(frozen=True)
class Point:
    """One row.

    Args:
        x: of the row.
        mean: measured; None for nothing.
        sd: of several seeds; None below two.
        paper: printed; None for nothing.
    """

    x: float
    mean: float | None
    sd: float | None
    paper: float | None


def points(table: Table, sheet: Sheet) -> dict[float | None, list[Point]]:
    """The points by the line that they are on, None where there is a single one; by x in each.

    Args:
        table: of kind figure.
        sheet: of that table.
    """
    figure = table.figure
    assert figure is not None, "a table of kind figure has axes"
    (column,) = [place for place, one in enumerate(table.columns) if one.key == figure.y]
    found: dict[float | None, list[Point]] = {}
    for row, shown in zip(table.rows, sheet.rows, strict=True):
        entry = shown.entries[column]
        paper = entry.paper if isinstance(entry.paper, int | float) else None
        if row.x is not None:
            found.setdefault(row.line, []).append(Point(row.x, entry.mean, entry.sd, paper))
    return {line: sorted(own, key=lambda point: point.x) for line, own in sorted(found.items(), key=_order)}


def _order(line: tuple[float | None, list[Point]]) -> float:
    return 0.0 if line[0] is None else line[0]
