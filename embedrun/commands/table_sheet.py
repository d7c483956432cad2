"""One table of a paper, filled with what was measured, and its plot."""

from collections.abc import Sequence
from pathlib import Path

from embedrun.commands.table_cells import Cells
from embedrun.console import say
from embedrun.table.build import sheet_of
from embedrun.table.figure import points
from embedrun.table.preset import Figure, Table
from embedrun.table.reading import Counted
from embedrun.table.sheet import Sheet

PLOTS = Path("outputs") / "tables"


def sheet_for(
    table: Table,
    cells: Cells,
    seeds: Sequence[int] | None = None,
    *,
    plots: Path = PLOTS,
    statistics_from: tuple[str | None, Path | None] = (None, None),
) -> Sheet:
    """The table with what was measured beside what is printed; the plot of a figure is written.

    Args:
        table: of a paper.
        cells: of the runs that there are.
        seeds: of the runs; None: see `Cells.find`.
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
        plot = draw(table, sheet, plots)
        nothing = f"{table.name}: nothing is measured, so no curve is drawn"
        say(nothing if plot is None else f"the curve is in {plot}")
    return sheet


def _counted(table: Table, plots: Path, data_dir: str | None, tokenizer: Path | None) -> Counted | None:
    if table.statistics is None:
        return None
    from embedrun.commands.statistics import Source, counted
    from embedrun.store import Store

    return counted(table, Source(Store.find(data_dir).root, tokenizer, plots))


def draw(table: Table, sheet: Sheet, folder: Path) -> Path | None:
    """The curve of a figure, with the paper's points and optimum; None where nothing was measured.

    Args:
        table: of kind figure.
        sheet: of that table.
        folder: of the plot; is made if need be.
    """
    from embedrun.plot.sweep import sweep

    figure = table.figure
    if figure is None or not any(entry.mean is not None for entry in sheet.entries):
        return None
    found = points(table, sheet)
    folder.mkdir(parents=True, exist_ok=True)
    reduced = f"_{sheet.scale}" if sheet.scale else ""
    path = folder / f"{table.name.replace('/', '_')}{reduced}.png"
    sweep(
        {
            "" if line is None else f"{figure.line} = {line:g}": [
                (point.x, point.mean, point.sd) for point in own if point.mean is not None
            ]
            for line, own in found.items()
        },
        [(point.x, point.paper) for own in found.values() for point in own if point.paper is not None],
        _best(figure),
        (figure.x, next(column.heading for column in table.columns if column.key == figure.y)),
        f"{table.title}\nreduced setting {sheet.scale}: not a reproduction" if sheet.scale else table.title,
        path,
    )
    return path


def _best(figure: Figure) -> tuple[float, str] | None:
    if figure.best is None:
        return None
    line = "" if figure.best_line is None else f" at {figure.line} = {figure.best_line:g}"
    return figure.best, f"the paper's optimum, {figure.best:g}{line}"
