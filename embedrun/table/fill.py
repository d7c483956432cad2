"""The commands that fill what is missing in a table."""

import shlex
from collections.abc import Mapping, Sequence

from embedrun.table.cells import Slot
from embedrun.table.preset import Table
from embedrun.table.sheet import SheetRow


def commands(
    table: Table,
    by_row: Mapping[str, Sequence[Slot]],
    rows: Sequence[SheetRow],
    default: Sequence[int],
    scale: str,
    extra: Sequence[str],
) -> list[str]:
    """What to type, line by line.

    Args:
        table: of the paper.
        by_row: the runs that it asks for, by id of their row.
        rows: as they are shown.
        default: seeds that `reproduce` takes where it is told none.
        scale: name of the reduced setting; empty for none.
        extra: overrides of every row.
    """
    found = []
    missing = [row for row in rows if row.kind != "statistics" and _is_missing(by_row[row.id])]
    first = {
        (name, slot.seed)
        for row in missing
        for slot in by_row[row.id]
        for name, run in slot.needs.items()
        if run is None
    }
    if not scale:  # of a reduced setting only `reproduce` makes runs
        found += [
            shlex.join(["embedrun", "train", f"+experiment={name}", f"seed={seed}", *extra])
            for name, seed in sorted(first)
        ]
    words = ["embedrun", "reproduce", table.name]
    seeds = sorted({slot.seed for row in missing for slot in by_row[row.id]})
    if seeds != sorted(default):
        words += ["--seeds", ",".join(map(str, seeds))]
    rest = [*(["--scale", scale] if scale else []), *extra]
    if missing and len(missing) == sum(map(bool, by_row.values())):
        one = f"  # one row: --only {shlex.quote(_unique(table, missing[0]))}" if len(missing) > 1 else ""
        found.append(shlex.join([*words, *rest]) + one)
        missing = []
    found += [shlex.join([*words, "--only", _unique(table, row), *rest]) for row in missing]
    lacking = any(row.kind == "statistics" and _has_gaps(row) for row in rows)
    return [*found, *([table.statistics.command] if lacking and table.statistics is not None else [])]


def _is_missing(slots: Sequence[Slot]) -> bool:
    return any(slot.run is None and slot.cell.not_runnable is None for slot in slots)


def _has_gaps(row: SheetRow) -> bool:
    return any(entry.mark == "not run" for entry in row.entries)


def _unique(table: Table, row: SheetRow) -> str:
    """The label where no other row has it, else the id."""
    return row.label if len(table.find(row.label)) == 1 else row.id
