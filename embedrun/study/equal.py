"""A table whose trainings all use the same amount, as the runs of the table tell what each used."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from embedrun.console import numbers, short
from embedrun.errors import ConfigError
from embedrun.runs.reading import RunFiles
from embedrun.table.cells import Measured, Slot
from embedrun.table.preset import Cell, Row, Table

_Spent = tuple[float, float]  # amount and steps


def equalled(table: Table, slots: Sequence[Slot], amount: str) -> Table:
    """The table with fewer steps for each training that uses more than the least, of `amounts` of results.

    Runs that fill the same columns are compared. The steps of a run are cut by the ratio of the least mean
    amount over seeds to its own, and rounded: to half a step the amounts are equal. A row of a paper is then
    no longer what the paper printed, so that no printed number is kept, and no row that is not trained.

    Raises:
        ConfigError: if a run does not tell its amount.
    """
    runs: dict[Cell, list[_Spent]] = {}
    for slot in slots:
        if slot.run is not None and slot.cell.command == "train":
            runs.setdefault(slot.cell, []).append(_spent(slot.run, slot.row, amount))
    spent = {cell: tuple(np.mean(of, axis=0).tolist()) for cell, of in runs.items()}
    least: dict[tuple[str, ...], float] = {}  # by headings
    for cell, (used, _) in spent.items():
        least[cell.headings] = min(used, least.get(cell.headings, math.inf))

    def cut(row: Row) -> Row:
        cells, notes = [], [row.note] if row.note else []
        for cell in row.cells:
            used, steps = spent.get(cell, (1.0, 0.0))
            few = max(1, round(steps * least.get(cell.headings, 1.0) / used))
            if few < steps:
                name = f"{cell.choice}: " if cell.choice else ""
                notes.append(f"{name}{few:,} of {steps:,.0f} steps")
                cell = replace(cell, overrides=(*cell.overrides, f"training.max_steps={few}"))
            cells.append(cell)
        return replace(row, cells=tuple(cells), note="; ".join(notes), published={})

    said = ", ".join(dict.fromkeys(short(one) for one in least.values()))
    note = f"Equal {amount} for every training of a column: {said}"
    rows = [cut(row) for row in table.rows if row.kind == "train"]
    return replace(table, rows=rows, note=". ".join(filter(None, [table.note, note])))


def _spent(run: Measured, row: Row, amount: str) -> _Spent:
    results = RunFiles(run.path).results
    used, steps = numbers(results.get("amounts")).get(amount), numbers(results.get("counts")).get("steps")
    if not used or not steps:
        raise ConfigError(f"--equal {amount}: {row.id}: {run.path} does not tell its {amount}")
    return used, steps
