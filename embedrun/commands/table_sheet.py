"""One table of a paper, filled with what was measured, and its plot."""

from collections.abc import Sequence
from pathlib import Path

from embedrun.commands.table_cells import Cells
from embedrun.commands.table_plot import draw
from embedrun.table.build import sheet_of
from embedrun.table.preset import Table
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
        draw(table, sheet, plots)
    return sheet


def _counted(table: Table, plots: Path, data_dir: str | None, tokenizer: Path | None) -> Counted | None:
    if table.statistics is None:
        return None
    from embedrun.commands.statistics import Source, counted
    from embedrun.store import Store

    return counted(table, Source(Store.find(data_dir).root, tokenizer, plots))
