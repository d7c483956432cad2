"""A table with what was measured beside what is printed, as plain data that every format renders."""

import operator
import shlex
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from embedrun.console import decimals, number
from embedrun.evaluation.seeds import Spread
from embedrun.runs.reading import flattened
from embedrun.table.cells import Measured, Slot
from embedrun.table.choice import chosen
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
        best: whether it is marked as the best of its column; `better` is whether a test says so.
    """

    table: str
    scale: str
    row: str
    column: str
    paper: float | str | None = None
    mean: float | None = None
    sd: float | None = None
    n: int = 0
    wanted: int = 0
    clean: float | None = None
    difference: float | None = None
    mark: Mark = ""
    note: str = ""
    before: float | None = None
    best: bool = False
    better: bool = False


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


NOT_COUNTED = Counted()


def statistic(row: Row, heading: str, content: Mapping[str, object]) -> float | None:
    """The number of a row of statistics in the file's content; None where a part of it is missing.

    The row's keys are paths, as `splits/train/positive`; several are added up.
    """
    flat = flattened(content)
    values = [number(flat.get(path.replace("/", "."))) for path in row.paths(heading)]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def over_seeds(values: Collection[float]) -> tuple[float | None, float | None, int]:
    """Mean, standard deviation (n - 1; None below two values) and number of some values."""
    spread = Spread.of([*values])
    return (None, None, 0) if spread is None else (spread.mean, spread.sd, spread.n)


_When = Literal["after", "before", "clean"]  # after training, before it, on unseen rows alone


def _value(run: Measured, column: Column, when: _When) -> float | None:
    """What one run has in a column; where there is no score on unseen rows, the score itself."""
    if when == "before":
        return run.baseline.get(column.key or "")
    if column.speed is not None:
        return run.speed.get(column.speed)
    scores, key = run.scores, column.key or ""
    return scores.get(key + CLEAN, scores.get(key)) if when == "clean" else scores.get(key)


class _Reading:
    """One row of a table and its runs, made in the reduced setting of the name `scale`."""

    def __init__(
        self,
        table: Table,
        row: Row,
        slots: Sequence[Slot],
        scale: str,
        compared: bool,
        told: Sequence[str] = (),
    ) -> None:
        self._table, self._row, self._slots = table, row, slots
        self._scale, self._compared, self._told = scale, compared, told
        self._columns = {column.heading: column for column in table.columns}

    def row(self) -> SheetRow:
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
        scores, clean = self._by_seed(column, "after"), self._by_seed(column, "clean")
        mean, sd, n = over_seeds(scores.values())
        difference = self._difference(column, paper, mean)
        return Entry(
            table=self._table.name,
            scale=self._scale,
            row=self._row.id,
            column=column.heading,
            paper=paper,
            mean=mean,
            sd=sd,
            n=n,
            wanted=self._wanted(column),
            clean=None if clean == scores else over_seeds(clean.values())[0],
            difference=difference,
            mark=self._mark(column, paper, difference, n),
            note=self._note(column, n),
            before=over_seeds(self._by_seed(column, "before").values())[0],
        )

    def _difference(self, column: Column, paper: float | str | None, mean: float | None) -> float | None:
        if mean is None or not self._compared or column.speed is not None:
            return None
        return mean - paper if isinstance(paper, int | float) else None

    def _by_seed(self, column: Column, when: _When) -> dict[int, float]:
        """The numbers of a column by seed; a mean or difference has the seeds that all of its parts have.

        Those of a test are of all seeds together (:mod:`~embedrun.study.marks`), so here it has none.
        """
        if column.test is not None:
            return {}
        if column.parts != (column.heading,):
            parts = [self._by_seed(self._columns[part], when) for part in column.parts]
            seeds = [seed for seed in parts[0] if all(seed in part for part in parts)]
            fold = (lambda *values: statistics.fmean(values)) if column.mean else operator.sub
            return {seed: fold(*(part[seed] for part in parts)) for seed in seeds}
        runs = {slot.seed: slot.run for slot in self._slots_of(column) if slot.run is not None}
        values = {seed: _value(run, column, when) for seed, run in runs.items()}
        return {seed: value for seed, value in values.items() if value is not None}

    def _wanted(self, column: Column) -> int:
        seeds = [{slot.seed for slot in self._slots if part in slot.cell.headings} for part in column.parts]
        return len(set.intersection(*seeds))

    def _slots_of(self, column: Column) -> list[Slot]:
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
        """Why it is not reproducible, or has fewer numbers than finished runs or wanted seeds."""
        slots = self._slots_of(column)
        reasons = [slot.cell.not_runnable for slot in slots if slot.cell.not_runnable]
        if reasons or not column.of_a_run:
            return f"not reproducible: {reasons[0]}" if reasons else ""
        if n < sum(slot.run is not None for slot in slots):
            return f"{column.heading}: a run has no such number"
        return f"{column.heading}: {n} of {len(slots)} seeds" if 0 < n < len(slots) else ""

    def _notes(self, entries: Sequence[Entry]) -> Iterator[str]:
        """The notes on the whole row."""
        row = self._row
        if row.note:
            yield row.note
        yield from self._told
        if row.source != self._table.source:
            yield f"Numbers of {row.source}"
        yield from _left_open(row.unspecified)
        if any(slot.others for slot in self._slots):
            yield "Of several finished runs of one configuration and seed, the newest counts"
        missing = [slot for slot in self._slots if slot.run is None]
        unfinished = {slot.state: slot.unfinished for slot in missing}
        yield from (f"A run is {state}: {run.path}" for state, run in unfinished.items() if run is not None)
        for run in (slot.passed_over for slot in missing if slot.passed_over is not None):
            why = run.other_code or "what it has read or starts from has changed"
            yield f"Not counted: {why} since {run.path}"


class _Statistics(_Reading):
    """A row of statistics and what was counted of data, which no setting of a run changes."""

    def __init__(self, table: Table, row: Row, counted: Counted) -> None:
        super().__init__(table, row, (), scale="", compared=True)
        self._counted = counted

    def _by_seed(self, column: Column, when: _When) -> dict[int, float]:
        value = statistic(self._row, column.heading, self._counted.numbers)
        return {} if value is None or when == "before" else {0: value}

    def _wanted(self, column: Column) -> int:
        return int(bool(self._row.paths(column.heading)))

    def _notes(self, entries: Sequence[Entry]) -> Iterator[str]:
        yield from super()._notes(entries)
        if self._counted.source:
            yield f"Counted in {self._counted.source}"
        if self._counted.lacks and any(entry.mark == "not run" for entry in entries):
            yield self._counted.lacks


def _left_open(lines: Sequence[str]) -> list[str]:
    return [f"Left open by the paper: {line}" for line in lines]


def sheet_of(
    table: Table,
    slots: Sequence[Slot],
    *,
    scale: Scale | None = None,
    extra: Sequence[str] = (),
    changed: Sequence[str] | None = None,
    counted: Counted = NOT_COUNTED,
) -> Sheet:
    """The table with what was measured beside what is printed, from slots as `find_slots` gives them.

    `scale` is the reduced setting of the runs or None; `extra` are overrides of every run, beside those of
    its row, and `changed` those of them that make it differ from the paper's: None asks this machine, which
    has a copy of a model or not.
    """
    made = chosen(slots)
    slots = made.slots
    setting = scale if scale and slots else Scale("", "")  # a table without runs is in no setting
    extra = extra if slots else ()
    changed = list(filter(changes, extra)) if changed is None else list(changed)
    compared = not setting.name and not changed
    rows = []
    for row in table.rows:
        row_slots = [slot for slot in slots if slot.row.id == row.id]
        if row.kind == "statistics":
            reading = _Statistics(table, row, counted)
        else:
            told = made.told.get(row.id, ())
            reading = _Reading(table, row, row_slots, setting.name, compared, told)
        rows.append(reading.row())
    rest = [*(["--scale", setting.name] if setting.name else []), *extra]
    return Sheet(
        name=table.name,
        title=table.title,
        source=table.source,
        kind=table.kind,
        columns=tuple(
            SheetColumn(column.heading, _digits(column, [row.entries[place] for row in rows]))
            for place, column in enumerate(table.columns)
        ),
        rows=tuple(rows),
        seeds=tuple(sorted({slot.seed for slot in slots})),
        tolerance=table.tolerance,
        scale=setting.name,
        scale_title=setting.title,
        overrides=tuple(extra),
        notes=tuple(_notes(table, [] if setting.name else changed, slots)),
        commands=(*_reproducing(table, slots, rest), *_counting(table, rows)),
    )


def _notes(table: Table, changed: Sequence[str], slots: Sequence[Slot]) -> Iterator[str]:
    if table.note:
        yield table.note
    yield from _left_open(table.unspecified)
    if changed:
        yield f"Run with {', '.join(changed)}: compared with nothing"
    runs = [slot.run for slot in slots if slot.run is not None]
    marks = {(name, mark) for run in runs for name, mark in run.data.items()}
    differ = [name for name, count in Counter(name for name, _ in marks).items() if count > 1]
    if differ:
        yield f"The runs have read different rows of {', '.join(sorted(differ))}"
    if lucks := [run.luck for run in runs if run.luck is not None]:
        mean, most = statistics.fmean(lucks), max(lucks)
        yield (
            "Steps are chosen by dev; with the best test step of each run the mean would be "
            f"{mean:.2f} more (runs: {len(lucks)}, largest difference {most:.2f})"
        )


def _digits(column: Column, entries: Sequence[Entry]) -> int:
    if not column.statistic:
        return 4 if column.test else decimals(column.key or "")
    values = [value for entry in entries for value in (number(entry.paper), entry.mean) if value is not None]
    if all(value.is_integer() for value in values):
        return 0
    return 2 if any(abs(value) > 1 for value in values) else 4


def _reproducing(table: Table, slots: Sequence[Slot], rest: Sequence[str]) -> list[str]:
    """The command lines that run what is missing.

    `reproduce` itself runs what a missing run starts from or scores, not what makes the data that a row
    reads: that comes first. `rest` are its last words.
    """
    missing = {slot.row.id: slot.row for slot in slots if slot.run is None and not slot.cell.not_runnable}
    if not missing:
        return []
    before = [row.before for row in missing.values() if row.before]
    words = ["embedrun", "reproduce", table.name, *_seeds(slots, missing, table.seeds)]
    # A label that several rows have names none of them.
    labels = [row.label if len(table.find(row.label)) == 1 else row.id for row in missing.values()]
    if len(missing) < len({slot.row.id for slot in slots}):
        return [*before, *(shlex.join([*words, "--only", label, *rest]) for label in labels)]
    hint = f"  # one row: --only {shlex.quote(labels[0])}" if len(labels) > 1 else ""
    return [*before, shlex.join([*words, *rest]) + hint]


def _seeds(slots: Sequence[Slot], rows: Collection[str], default: Sequence[int]) -> list[str]:
    """The option for the seeds of these rows, where `reproduce` would take others by default."""
    slots = [slot for slot in slots if slot.row.id in rows]
    seeds = {slot.seed for slot in slots}
    if seeds == {seed for slot in slots for seed in slot.cell.seeds or default}:
        return []
    return ["--seeds", ",".join(map(str, sorted(seeds)))]


def _counting(table: Table, rows: Sequence[SheetRow]) -> list[str]:
    """The command that writes the file of statistics, where one is missing, and `table` from that file."""
    entries = [entry for row in rows if row.kind == "statistics" for entry in row.entries]
    if table.statistics is None or all(entry.mark != "not run" for entry in entries):
        return []
    command = table.statistics.command
    given = dict(word.split("=", 1) for word in shlex.split(command) if "=" in word)
    reading = ["embedrun", "table", table.name, "--data-dir", given.get("output", "DIR")]
    if "tokenizer" in given:
        reading += ["--tokenizer", given["tokenizer"]]
    return [command, shlex.join(reading)]
