"""A table as plain data that every format renders, with the commands that fill it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from embedrun.table.cells import Slot
from embedrun.table.preset import Setting, Statistics, Table

# within, off: the mean over the seeds and the printed number differ by at most the tolerance, or by more.
# measured: nothing is printed to compare with, or the runs were made with other options than the paper's.
# reduced: made in a reduced setting, and compares with nothing.
# not compared: it depends on the machine. not measured: the runs have finished, and have no such number.
# quoted: printed as the paper quotes it. in words: a printed fact. Empty: the row has nothing in this column.
Mark = Literal[
    "within", "off", "measured", "reduced", "not compared", "not run", "not measured", "not reproducible",
    "quoted", "in words", "",
]  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One row of one column.

    Args:
        scale: name of the reduced setting; empty for none.
        row: its group and label.
        paper: the printed number, or fact in words; None for nothing, and in a reduced setting.
        mean: over the seeds, of what was measured; None for nothing.
        sd: standard deviation over the seeds, with n - 1; None below two.
        n: seeds behind the mean.
        wanted: seeds that were asked for.
        clean: the mean on rows that are not in the training data, where that is another number.
        difference: mean less paper; None where nothing is compared.
        note: anything else, as why it is not reproducible.
        before: the mean before training, over the runs behind `mean` that were trained; None without any.
    """

    table: str
    scale: str
    row: str
    column: str
    paper: float | str | None
    mean: float | None
    sd: float | None
    n: int
    wanted: int
    clean: float | None
    difference: float | None
    mark: Mark
    note: str
    before: float | None = None


@dataclass(frozen=True)
class Origin:
    """The run of a seed, or the file of statistics, from which the numbers of these columns are."""

    columns: tuple[str, ...]
    seed: int | None
    directory: str


@dataclass(frozen=True)
class SheetRow:
    """One row, with an entry for each column, in their order.

    `id` is the group, the printed heading above it or empty, and the label. `kind` is that of the row: train,
    evaluate, quoted, statistics, or runs. `told` is what tells the runs of a row from others, by column.
    """

    id: str
    label: str
    group: str
    kind: str
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    told: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SheetColumn:
    """A column with its printed heading, or a key of `results.json`, and the digits after the point."""

    heading: str
    digits: int


@dataclass(frozen=True)
class Sheet:
    """One table.

    Args:
        name: as `angle/table4`.
        source: paper and table; empty for runs that belong to none.
        kind: table, figure, statistics, or runs.
        seeds: that were asked for; empty for runs that belong to no table.
        tolerance: of the mark `within`; None where nothing is compared.
        scale: name of the reduced setting; empty for none.
        scale_title: what is reduced.
        overrides: of every run, beside those of its row.
        commands: that fill what is missing.
        told: columns of words beside the label, which every row has in its `told`.
    """

    name: str
    title: str
    source: str
    kind: str
    columns: tuple[SheetColumn, ...]
    rows: tuple[SheetRow, ...]
    seeds: tuple[int, ...] = ()
    tolerance: float | None = None
    scale: str = ""
    scale_title: str = ""
    overrides: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    told: tuple[str, ...] = ()

    @property
    def entries(self) -> list[Entry]:
        """All entries, row by row."""
        return [entry for row in self.rows for entry in row.entries]


def commands(
    table: Table,
    by_row: Mapping[str, Sequence[Slot]],
    rows: Sequence[SheetRow],
    default: Sequence[int],
    setting: Setting,
) -> list[str]:
    """The command lines that fill what is missing.

    `reproduce` itself runs what a missing run starts from or scores, not what makes the data that a row
    reads: that comes first. `by_row` has the runs that the table asks for by id of their row; `default` are
    the seeds that `reproduce` takes by default.
    """
    missing = [row for row in rows if row.kind != "statistics" and _is_missing(by_row[row.id])]
    found = [row.before for row in table.rows if row.before and row.id in {one.id for one in missing}]
    words = ["embedrun", "reproduce", table.name]
    slots = [slot for row in missing for slot in by_row[row.id]]
    seeds = {slot.seed for slot in slots}
    if seeds != {seed for slot in slots for seed in slot.cell.seeds or default}:
        words += ["--seeds", ",".join(map(str, sorted(seeds)))]
    rest = [*(["--scale", setting.name] if setting.name else []), *setting.extra]
    if missing and len(missing) == sum(map(bool, by_row.values())):
        one = f"  # one row: --only {shlex.quote(_unique(table, missing[0]))}" if len(missing) > 1 else ""
        found.append(shlex.join([*words, *rest]) + one)
        missing = []
    found += [shlex.join([*words, "--only", _unique(table, row), *rest]) for row in missing]
    lacking = any(row.kind == "statistics" and _has_gaps(row) for row in rows)
    return [*found, *(_counting(table, table.statistics) if lacking and table.statistics is not None else ())]


def _counting(table: Table, statistics: Statistics) -> list[str]:
    """The commands that write the file of statistics, and that make the table from it."""
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
