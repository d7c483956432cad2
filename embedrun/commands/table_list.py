"""Which tables there are, with how many of their runs have finished."""

import re

from embedrun.commands.table_cells import Cells
from embedrun.console import Progress, aligned
from embedrun.table.cells import FINISHED, NOT_RUNNABLE, Slot
from embedrun.table.preset import Table, load, names


def listing(cells: Cells) -> str:
    """A line for each table: rows, runs, and those that have finished.

    Args:
        cells: of the runs that there are.
    """
    tables = [load(name) for name in sorted(names(), key=_order)]
    lines = [["table", "rows", "runs", "finished", "shows"]]
    with Progress("look for runs", len(tables), "tables", brief=True) as bar:
        for done, table in enumerate(tables, start=1):
            wanted, finished = _counts(table, cells)
            runs = [str(wanted), str(finished)] if wanted else ["-", "-"]
            lines.append([table.name, str(len(table.rows)), *runs, table.title])
            bar.reach(done)
    return aligned(lines, right=(1, 2, 3))


def _order(name: str) -> list[tuple[str, int]]:
    """Table 2 before Table 10."""
    return [(word, int(digits or 0)) for word, digits in re.findall(r"(\D+)(\d*)", name)]


def _counts(table: Table, cells: Cells) -> tuple[int, int]:
    """Different runs of a table, and those of them that have finished."""
    if not cells.index.measured:  # nothing needs to be composed to find nothing
        own = {cell for row in table.rows for cell in row.cells if cell.not_runnable is None}
        return len(own) * len(table.seeds), 0
    slots: dict[tuple[str, int], Slot] = {
        (slot.key, slot.seed): slot for slot in cells.find(table, apart=False) if slot.state != NOT_RUNNABLE
    }
    return len(slots), sum(slot.state == FINISHED for slot in slots.values())
