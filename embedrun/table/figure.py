"""A figure: its points, its curve, the table around it."""

import hashlib
import textwrap
from dataclasses import dataclass
from pathlib import Path

from embedrun.console import clean, say
from embedrun.table.cells import Seeds
from embedrun.table.preset import Figure, Table
from embedrun.table.rows import Counted, sheet_of
from embedrun.table.search import Cells
from embedrun.table.sheet import Sheet


@dataclass(frozen=True)
class Point:
    """One row: its x, and the measured and the printed y; None where there is none.

    `sd` is over the seeds, None below two.
    """

    x: float
    mean: float | None
    sd: float | None
    paper: float | None


def points(table: Table, sheet: Sheet) -> dict[float | None, list[Point]]:
    """The points of a figure by the line that they are on, None where there is a single one; sorted by x."""
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


_TITLE = 75  # characters a line


def draw(table: Table, sheet: Sheet, folder: Path) -> Path | None:
    """The plot of a figure; None where nothing was measured, or where it cannot be written.

    The folder is made if need be.
    """
    from embedrun.plot import sweep, write_plot

    figure = table.figure
    if figure is None or not any(entry.mean is not None for entry in sheet.entries):
        say(f"{table.name}: nothing is measured, so no curve is drawn")
        return None
    found = points(table, sheet)
    lines = {
        "" if line is None else f"{figure.line} = {line:g}": [
            (point.x, point.mean, point.sd) for point in own if point.mean is not None
        ]
        for line, own in found.items()
    }
    printed = [(point.x, point.paper) for own in found.values() for point in own if point.paper is not None]
    axes = figure.x, next(column.heading for column in table.columns if column.key == figure.y)
    path = folder / f"{_name(sheet)}.png"
    if write_plot(path, lambda path: sweep(lines, printed, _best(figure, sheet), axes, _title(sheet), path)):
        say(f"the curve is in {path}")
        return path
    return None


def _name(sheet: Sheet) -> str:
    """The table and its setting, with a hash of the overrides: plots of other runs get another file."""
    words = [sheet.name.replace("/", "_"), *([sheet.scale] if sheet.scale else [])]
    if sheet.overrides:
        words.append(hashlib.sha256("\n".join(sheet.overrides).encode()).hexdigest()[:8])
    return "_".join(words)


def _title(sheet: Sheet) -> str:
    lines = [sheet.title]
    if sheet.scale:
        lines.append(f"reduced setting {sheet.scale}: not a reproduction")
    if sheet.overrides:
        lines += textwrap.wrap(
            clean(f"every run with {', '.join(sheet.overrides)}"), _TITLE, break_on_hyphens=False
        )
    return "\n".join(lines)


def _best(figure: Figure, sheet: Sheet) -> tuple[float, str] | None:
    if figure.best is None or sheet.scale:
        return None
    line = "" if figure.best_line is None else f" at {figure.line} = {figure.best_line:g}"
    return figure.best, f"the paper's optimum, {figure.best:g}{line}"


PLOTS = Path("outputs") / "tables"


def sheet_for(
    table: Table,
    cells: Cells,
    seeds: Seeds | None = None,
    *,
    plots: Path = PLOTS,
    statistics_from: tuple[str | None, Path | None] = (None, None),
) -> Sheet:
    """The table with what was measured beside what is printed; the plot of a figure is written.

    Args:
        seeds: None: see `Cells.find`.
        plots: folder of the plots; is made if need be.
        statistics_from: for rows of statistics: a data folder or None for the store, and a folder with a
            tokenizer or None.

    Raises:
        ConfigError: if an override of the cells is refused.
        DataError: if the data of statistics is there and cannot be read.
    """
    slots = cells.find(table, seeds)
    counted = _counted(table, plots, *statistics_from)
    sheet = sheet_of(
        table, slots, scale=cells.scale, extra=cells.extra, counted=counted, default=cells.seeds(table)
    )
    if table.kind == "figure":
        draw(table, sheet, plots)
    return sheet


def _counted(table: Table, plots: Path, data_dir: str | None, tokenizer: Path | None) -> Counted | None:
    if table.statistics is None:
        return None
    from embedrun.store import Store
    from embedrun.table.statistics import Source, counted

    return counted(table, Source(Store.find(data_dir).root, tokenizer, plots))
