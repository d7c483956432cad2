"""From a table of a paper and the runs that there are to a sheet."""

import math
from collections.abc import Iterator, Sequence

from embedrun.table.cells import Slot
from embedrun.table.fill import commands
from embedrun.table.preset import Column, Table
from embedrun.table.reading import Counted, Reading, left_open
from embedrun.table.scale import Scale
from embedrun.table.setting import Setting
from embedrun.table.sheet import Sheet, SheetColumn, SheetRow

_SHARES = "geometry/"  # of keys whose scores are not times 100


def sheet_of(
    table: Table,
    slots: Sequence[Slot],
    *,
    scale: Scale | None = None,
    extra: Sequence[str] = (),
    counted: Counted | None = None,
    default: Sequence[int] = (),
) -> Sheet:
    """The table with what was measured beside what is printed.

    Args:
        table: of the paper.
        slots: its runs, as `find_slots` gives them.
        scale: the reduced setting of the runs; None for none.
        extra: overrides of every run, beside those of its row.
        counted: what rows of statistics are filled from.
        default: seeds that `reproduce` takes where it is told none; empty: those of the table.
    """
    by_row = {row.id: [slot for slot in slots if slot.row.id == row.id] for row in table.rows}
    counted = counted or Counted()
    setting = Setting(scale, tuple(extra)) if slots else Setting()  # a table without runs has none
    rows = [Reading(table, row, by_row[row.id], setting, counted).row() for row in table.rows]
    return Sheet(
        name=table.name,
        title=table.title,
        source=table.source,
        kind=table.kind,
        columns=tuple(SheetColumn(one.heading, _digits(one, rows)) for one in table.columns),
        rows=tuple(rows),
        seeds=tuple(sorted({slot.seed for slot in slots})),
        tolerance=table.tolerance,
        scale=setting.name,
        scale_title="" if setting.scale is None else setting.scale.title,
        overrides=setting.extra,
        notes=tuple(_notes(table, setting, slots)),
        commands=tuple(commands(table, by_row, rows, tuple(default) or table.seeds, setting)),
    )


def _notes(table: Table, setting: Setting, slots: Sequence[Slot]) -> Iterator[str]:
    if table.note:
        yield table.note
    yield from left_open(table.unspecified)
    if setting.changes and not setting.name:
        yield f"Run with {', '.join(setting.changes)}: compared with nothing"
    yield from _other_data(slots)


def _other_data(slots: Sequence[Slot]) -> list[str]:
    """A note for each data set of which the runs have read different rows."""
    seen: dict[str, set[str]] = {}
    for slot in slots:
        for name, mark in (slot.run.data if slot.run is not None else {}).items():
            seen.setdefault(name, set()).add(mark)
    names = ", ".join(sorted(name for name, marks in seen.items() if len(marks) > 1))
    return [f"The runs have read different rows of {names}"] if names else []


def _digits(column: Column, rows: Sequence[SheetRow]) -> int:
    if column.key is not None and column.key.startswith(_SHARES):
        return 4
    if not column.statistic:
        return 2
    own = [entry for row in rows for entry in row.entries if entry.column == column.heading]
    numbers = [one for entry in own for one in (entry.paper, entry.mean) if isinstance(one, int | float)]
    if all(float(one).is_integer() for one in numbers):
        return 0
    return 2 if any(math.fabs(one) > 1 for one in numbers) else 4
