"""The commands that fill what is missing in a table."""

import shlex
from collections.abc import Mapping, Sequence

from embedrun.table.cells import Slot
from embedrun.table.preset import Statistics, Table
from embedrun.table.setting import Setting
from embedrun.table.sheet import SheetRow


def commands(
    table: Table,
    by_row: Mapping[str, Sequence[Slot]],
    rows: Sequence[SheetRow],
    default: Sequence[int],
    setting: Setting,
) -> list[str]:
    """What to type, line by line; `reproduce` itself runs what a missing run starts from or scores.

    Args:
        table: of the paper.
        by_row: the runs that it asks for, by id of their row.
        rows: as they are shown.
        default: seeds that `reproduce` takes where it is told none.
        setting: of the runs.
    """
    found = []
    missing = [row for row in rows if row.kind != "statistics" and _is_missing(by_row[row.id])]
    words = ["embedrun", "reproduce", table.name]
    seeds = sorted({slot.seed for row in missing for slot in by_row[row.id]})
    if seeds != sorted(default):
        words += ["--seeds", ",".join(map(str, seeds))]
    rest = [*(["--scale", setting.name] if setting.name else []), *setting.extra]
    if missing and len(missing) == sum(map(bool, by_row.values())):
        one = f"  # one row: --only {shlex.quote(_unique(table, missing[0]))}" if len(missing) > 1 else ""
        found.append(shlex.join([*words, *rest]) + one)
        missing = []
    found += [shlex.join([*words, "--only", _unique(table, row), *rest]) for row in missing]
    lacking = any(row.kind == "statistics" and _has_gaps(row) for row in rows)
    return [*found, *(_counting(table, table.statistics) if lacking and table.statistics is not None else ())]


def _counting(table: Table, statistics: Statistics) -> list[str]:
    """What writes the file of statistics, and the table that reads it where it was written."""
    words = (word.partition("=") for word in shlex.split(statistics.command))
    given = {name: value for name, _, value in words}
    reading = ["embedrun", "table", table.name, "--data-dir", given.get("output", "DIR")]
    if "tokenizer" in given:
        reading += ["--tokenizer", given["tokenizer"]]
    return [statistics.command, shlex.join(reading)]


def _is_missing(slots: Sequence[Slot]) -> bool:
    return any(slot.run is None and slot.cell.not_runnable is None for slot in slots)


def _has_gaps(row: SheetRow) -> bool:
    return any(entry.mark == "not run" for entry in row.entries)


def _unique(table: Table, row: SheetRow) -> str:
    """The label where no other row has it, else the id."""
    return row.label if len(table.find(row.label)) == 1 else row.id
