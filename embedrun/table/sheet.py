"""A table with what was measured beside what is printed, as plain data that every format renders."""

import math
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from embedrun.console import decimals, number
from embedrun.evaluation.seeds import Spread
from embedrun.table.cells import Slot
from embedrun.table.preset import Column, Row, Scale, Table, changes

CLEAN = "_clean"  # at the end of a score's key: on the rows that are not in the training data
_ROUNDING = 1e-9  # a difference may exceed the tolerance by this much

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
        paper: the printed number, or fact in words; None for nothing, and in a reduced setting.
        mean: over the seeds, of what was measured; `sd` is with n - 1, None below two.
        n: seeds behind the mean, of those `wanted`.
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
    """The run of a seed from which the numbers of these columns are."""

    columns: tuple[str, ...]
    seed: int | None
    directory: str


@dataclass(frozen=True)
class SheetRow:
    """One row, with an entry for each column, in their order.

    `group` is the printed heading above it, or empty; `kind` is that of a table's row, or runs; `told` is
    what tells the runs of a row from others, by column.
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
    """One table, or with the kind `runs` one of runs that belong to none: without name, source and seeds.

    Args:
        tolerance: of the mark `within`; None where nothing is compared.
        scale: name of the reduced setting; empty for none.
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


@dataclass(frozen=True)
class Counted:
    """The content of the file of statistics, where it is from, and why some or all numbers are missing."""

    numbers: Mapping[str, object] = field(default_factory=dict)
    source: str = ""
    lacks: str = ""


def statistic(row: Row, heading: str, content: Mapping[str, object]) -> float | None:
    """The number of a row of statistics in the file's content; None where a part of it is missing.

    The row's keys are paths, as `splits/train/positive`; several are added up.
    """
    values = []
    for path in (row.keys or {}).get(heading, ()):
        value: object = content
        for word in path.split("/"):
            value = value.get(word) if isinstance(value, Mapping) else None
        values.append(number(value))
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


class _Reading:
    """One row of a table and its runs, or for a row of statistics what was counted."""

    def __init__(
        self, table: Table, row: Row, slots: Sequence[Slot], counted: Counted, *, scale: str, compared: bool
    ) -> None:
        self._table, self._row, self._slots, self._counted = table, row, slots, counted
        self._columns = {column.heading: column for column in table.columns}
        self._is_counted = row.kind == "statistics"  # of data, which no setting of a run changes
        self._scale = "" if self._is_counted else scale
        self._compared = self._is_counted or compared

    def row(self) -> SheetRow:
        """The row with its entries, notes and runs."""
        row, entries = self._row, tuple(map(self._entry, self._table.columns))
        origins = tuple(
            Origin(slot.cell.headings, slot.seed, str(slot.run.path))
            for slot in self._slots
            if slot.run is not None
        )
        return SheetRow(row.id, row.label, row.group, row.kind, entries, tuple(self._notes(entries)), origins)

    def _entry(self, column: Column) -> Entry:
        # A reduced setting is compared with nothing, by a reader's eye neither.
        paper = None if self._scale else self._row.published.get(column.heading)
        spread, clean = self._measured(column)
        before = Spread.of([*self._by_seed(column, "before").values()])
        difference = None
        if spread is not None and self._compared and column.speed is None and isinstance(paper, int | float):
            difference = spread.mean - paper
        lacking = (slot.cell.not_runnable for slot in self._slots_of(column))
        reason = next((f"not reproducible: {why}" for why in lacking if why), "")
        n = 0 if spread is None else spread.n
        return Entry(
            table=self._table.name,
            scale=self._scale,
            row=self._row.id,
            column=column.heading,
            paper=paper,
            mean=None if spread is None else spread.mean,
            sd=None if spread is None else spread.sd,
            n=n,
            wanted=self._wanted(column),
            clean=clean,
            difference=difference,
            mark=self._mark(column, paper, difference, n),
            note=reason or self._note(column, n),
            before=None if before is None else before.mean,
        )

    def _by_seed(self, column: Column, which: Literal["after", "before", "clean"]) -> dict[int, float]:
        """The finite numbers of a column by seed: after training, before it, or on unseen rows alone.

        A mean or difference has those seeds that all of its parts have. Where there is no score on unseen
        rows, it is the score itself.
        """
        if column.parts != (column.heading,):
            parts = [self._by_seed(self._columns[part], which) for part in column.parts]
            seeds = [seed for seed in parts[0] if all(seed in part for part in parts)]
            values = {seed: [part[seed] for part in parts] for seed in seeds}
            if column.mean:
                return {seed: statistics.fmean(numbers) for seed, numbers in values.items()}
            return {seed: first - second for seed, (first, second) in values.items()}
        found = {}
        for slot in self._slots:
            if slot.run is None or column.heading not in slot.cell.headings:
                continue
            scores, key = slot.run.baseline if which == "before" else slot.run.scores, column.key or ""
            value = scores.get(key)
            if which == "clean":
                value = scores.get(key + CLEAN, value)
            if column.speed is not None:
                value = None if which == "before" else slot.run.speed.get(column.speed)
            if value is not None and math.isfinite(value):
                found[slot.seed] = float(value)
        return found

    def _measured(self, column: Column) -> tuple[Spread | None, float | None]:
        """The spread over all rows, and the mean over the clean rows where that differs."""
        if self._is_counted:
            value = statistic(self._row, column.heading, self._counted.numbers)
            return (None if value is None else Spread(value, None, 1)), None
        scores, clean = self._by_seed(column, "after"), self._by_seed(column, "clean")
        spread, part = (Spread.of([own[seed] for seed in sorted(own)]) for own in (scores, clean))
        return spread, None if part is None or clean == scores else part.mean

    def _wanted(self, column: Column) -> int:
        """How many seeds were asked for."""
        if self._is_counted:
            return int(column.heading in (self._row.keys or {}))
        seeds = [{slot.seed for slot in self._slots if part in slot.cell.headings} for part in column.parts]
        return len(set.intersection(*seeds))

    def _slots_of(self, column: Column) -> list[Slot]:
        """The runs behind a column; of a mean or difference, those of all its parts."""
        return [slot for slot in self._slots if {*column.parts} & {*slot.cell.headings}]

    def _mark(self, column: Column, paper: float | str | None, difference: float | None, n: int) -> Mark:
        if column.printed or self._row.kind == "quoted":
            mark: Mark = "in words" if column.printed else "quoted"
            return "" if paper is None else mark
        if n == 0:
            return self._unmeasured(column)
        if self._scale:
            return "reduced"
        if difference is None:
            return "not compared" if column.speed is not None and paper is not None else "measured"
        return "within" if abs(difference) <= self._table.tolerance + _ROUNDING else "off"

    def _unmeasured(self, column: Column) -> Mark:
        slots = self._slots_of(column)
        if any(slot.cell.not_runnable for slot in slots):
            return "not reproducible"
        if not self._wanted(column):  # the row has nothing there
            return ""
        return "not measured" if slots and all(slot.run is not None for slot in slots) else "not run"

    def _note(self, column: Column, n: int) -> str:
        """Why there are fewer numbers than finished runs, or than seeds asked for."""
        slots = self._slots_of(column)
        if column.of_a_run and n < sum(slot.run is not None for slot in slots):
            return f"{column.heading}: a run has no such number"
        is_part = column.of_a_run and 0 < n < len(slots)
        return f"{column.heading}: {n} of {len(slots)} seeds" if is_part else ""

    def _notes(self, entries: Sequence[Entry]) -> Iterator[str]:
        """The notes on the whole row."""
        row, counted = self._row, self._counted
        if row.note:
            yield row.note
        if row.source != self._table.source:
            yield f"Numbers of {row.source}"
        yield from _left_open(row.unspecified or ())
        if any(slot.others for slot in self._slots):
            yield "Of several finished runs of one configuration and seed, the newest counts"
        missing = [slot for slot in self._slots if slot.run is None]
        unfinished = {slot.state: slot.unfinished for slot in missing}
        yield from (f"A run is {state}: {run.path}" for state, run in unfinished.items() if run is not None)
        for slot in missing:
            if (run := slot.passed_over) is not None:
                why = run.other_code or "what it has read or starts from has changed"
                yield f"Not counted: {why} since {run.path}"
        if self._is_counted and counted.source:
            yield f"Counted in {counted.source}"
        if self._is_counted and counted.lacks and any(entry.mark == "not run" for entry in entries):
            yield counted.lacks


def _left_open(lines: Sequence[str]) -> list[str]:
    """What the paper leaves open, and what was chosen, as notes."""
    return [f"Left open by the paper: {line}" for line in lines]


def sheet_of(
    table: Table,
    slots: Sequence[Slot],
    *,
    scale: Scale | None = None,
    extra: Sequence[str] = (),
    counted: Counted | None = None,
    default: Sequence[int] = (),
) -> Sheet:
    """The table with what was measured beside what is printed, from slots as `find_slots` gives them.

    `scale` is the reduced setting of the runs or None; `extra` are overrides of every run, beside those of
    its row. `default` are the seeds that `reproduce` takes by default; empty: those of the table.
    """
    by_row = {row.id: [slot for slot in slots if slot.row.id == row.id] for row in table.rows}
    counted = counted or Counted()
    if not slots:  # a table without runs
        scale, extra = None, ()
    name, changed = scale.name if scale else "", list(filter(changes, extra))
    compared = not name and not changed
    rows = [
        _Reading(table, row, by_row[row.id], counted, scale=name, compared=compared).row()
        for row in table.rows
    ]
    rest = [*(["--scale", name] if name else []), *extra]
    return Sheet(
        name=table.name,
        title=table.title,
        source=table.source,
        kind=table.kind,
        columns=tuple(SheetColumn(one.heading, _digits(one, rows)) for one in table.columns),
        rows=tuple(rows),
        seeds=tuple(sorted({slot.seed for slot in slots})),
        tolerance=table.tolerance,
        scale=name,
        scale_title=scale.title if scale else "",
        overrides=tuple(extra),
        notes=tuple(_notes(table, [] if name else changed, slots)),
        commands=tuple(_commands(table, by_row, rows, tuple(default) or table.seeds, rest)),
    )


def _notes(table: Table, changed: Sequence[str], slots: Sequence[Slot]) -> Iterator[str]:
    if table.note:
        yield table.note
    yield from _left_open(table.unspecified)
    if changed:
        yield f"Run with {', '.join(changed)}: compared with nothing"
    seen: dict[str, set[str]] = {}
    for slot in slots:
        for name, mark in (slot.run.data if slot.run is not None else {}).items():
            seen.setdefault(name, set()).add(mark)
    if names := ", ".join(sorted(name for name, marks in seen.items() if len(marks) > 1)):
        yield f"The runs have read different rows of {names}"


def _digits(column: Column, rows: Sequence[SheetRow]) -> int:
    if not column.statistic:
        return decimals(column.key or "")
    own = [entry for row in rows for entry in row.entries if entry.column == column.heading]
    numbers = [one for entry in own for one in (entry.paper, entry.mean) if isinstance(one, int | float)]
    if all(float(one).is_integer() for one in numbers):
        return 0
    return 2 if any(math.fabs(one) > 1 for one in numbers) else 4


def _commands(
    table: Table,
    by_row: Mapping[str, Sequence[Slot]],
    rows: Sequence[SheetRow],
    default: Sequence[int],
    rest: Sequence[str],
) -> list[str]:
    """The command lines that fill what is missing.

    `reproduce` itself runs what a missing run starts from or scores, not what makes the data that a row
    reads: that comes first. `by_row` has the runs that the table asks for by id of their row; `default` are
    the seeds that `reproduce` takes by default, `rest` are its last words.
    """
    missing = [row for row in table.rows if any(map(_is_missing, by_row[row.id]))]
    commands = [row.before for row in missing if row.before]
    words = ["embedrun", "reproduce", table.name]
    slots = [slot for row in missing for slot in by_row[row.id]]
    seeds = {slot.seed for slot in slots}
    if seeds != {seed for slot in slots for seed in slot.cell.seeds or default}:
        words += ["--seeds", ",".join(map(str, sorted(seeds)))]
    # A label that several rows have names none of them.
    labels = [row.label if len(table.find(row.label)) == 1 else row.id for row in missing]
    if len(missing) < sum(map(bool, by_row.values())):
        commands += [shlex.join([*words, "--only", label, *rest]) for label in labels]
    elif missing:
        only = f"  # one row: --only {shlex.quote(labels[0])}" if len(missing) > 1 else ""
        commands.append(shlex.join([*words, *rest]) + only)
    gaps = [entry for row in rows if row.kind == "statistics" for entry in row.entries]
    if table.statistics is not None and any(entry.mark == "not run" for entry in gaps):
        commands += _counting(table.name, table.statistics.command)
    return commands


def _counting(table: str, command: str) -> list[str]:
    """The command that writes the file of statistics, and the one that makes the table from it."""
    given = dict(word.split("=", 1) for word in shlex.split(command) if "=" in word)
    reading = ["embedrun", "table", table, "--data-dir", given.get("output", "DIR")]
    if "tokenizer" in given:
        reading += ["--tokenizer", given["tokenizer"]]
    return [command, shlex.join(reading)]


def _is_missing(slot: Slot) -> bool:
    return slot.run is None and slot.cell.not_runnable is None
