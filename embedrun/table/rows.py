"""A row of a table: what is printed, what was measured, and the notes."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from embedrun.console import decimals
from embedrun.evaluation.seeds import Spread
from embedrun.table.cells import Slot
from embedrun.table.preset import Column, Row, Scale, Setting, Table
from embedrun.table.sheet import Entry, Mark, Origin, Sheet, SheetColumn, SheetRow, commands

CLEAN = "_clean"  # at the end of a score's key: on the rows that are not in the training data


class Values:
    """The numbers of a row, from its slots; those `before` training instead."""

    def __init__(self, columns: Sequence[Column], slots: Sequence[Slot], *, before: bool = False) -> None:
        self._columns = {column.heading: column for column in columns}
        self._slots, self._before = slots, before

    def by_seed(self, heading: str, *, clean: bool = False) -> dict[int, float]:
        """The finite numbers of a column by seed.

        A mean or difference has those seeds that all of its parts have. `clean` asks for the score on the
        rows that are not in the training data, and gives the score itself where there is no such score.
        """
        column = self._columns[heading]
        if column.mean:
            return self._over(column.mean, statistics.fmean, clean)
        if column.difference:
            return self._over(column.difference, lambda both: both[0] - both[1], clean)
        found = {}
        for slot in self._slots:
            if slot.run is None or heading not in slot.cell.headings:
                continue
            scores, key = slot.run.baseline if self._before else slot.run.scores, column.key or ""
            speed = {} if self._before else slot.run.speed
            value = speed.get(column.speed) if column.speed else scores.get(key)
            if clean and column.key is not None:
                value = scores.get(key + CLEAN, value)
            if value is not None and math.isfinite(value):
                found[slot.seed] = float(value)
        return found

    def _over(
        self, parts: Sequence[str], fold: Callable[[list[float]], float], clean: bool
    ) -> dict[int, float]:
        each = [self.by_seed(part, clean=clean) for part in parts]
        shared = [seed for seed in each[0] if all(seed in own for own in each)]
        return {seed: fold([own[seed] for own in each]) for seed in shared}


def statistic(row: Row, heading: str, found: Mapping[str, object]) -> float | None:
    """The number of a row of statistics in `found`, the file's content; None where a part of it is missing.

    The row's keys are paths, as `splits/train/positive`; several are added up.
    """
    if heading not in row.keys:
        return None
    total = 0.0
    for path in row.keys[heading]:
        value: object = found
        for word in path.split("/"):
            value = value.get(word) if isinstance(value, Mapping) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        total += value
    return total


_ROUNDING = 1e-9  # a difference may exceed the tolerance by this much


@dataclass(frozen=True)
class Counted:
    """The content of the file of statistics, and in words where it is from (empty without numbers).

    `lacks` says why some or all numbers are missing; empty for nothing.
    """

    numbers: Mapping[str, object] = field(default_factory=dict)
    source: str = ""
    lacks: str = ""


class Reading:
    """One row of a table and its runs, or for a row of statistics what was counted."""

    def __init__(
        self, table: Table, row: Row, slots: Sequence[Slot], setting: Setting, counted: Counted
    ) -> None:
        self._table, self._row, self._slots, self._counted = table, row, slots, counted
        # Statistics are of data, which no setting of a run changes.
        own = Setting() if row.kind == "statistics" else setting
        self._scale, self._compared = own.name, not own.name and not own.changes
        self._values = Values(table.columns, slots)
        self._before = Values(table.columns, slots, before=True)

    def row(self) -> SheetRow:
        """The row with its entries, notes and runs."""
        row, entries = self._row, tuple(self._entry(column) for column in self._table.columns)
        return SheetRow(
            id=row.id,
            label=row.label,
            group=row.group,
            kind=row.kind,
            entries=entries,
            notes=tuple(self._notes(entries)),
            origins=tuple(
                Origin(slot.cell.headings, slot.seed, str(slot.run.path))
                for slot in self._slots
                if slot.run is not None
            ),
        )

    def _entry(self, column: Column) -> Entry:
        # A reduced setting is compared with nothing, by a reader's eye neither.
        paper = None if self._scale else self._row.published.get(column.heading)
        spread, clean = self._measured(column)
        before = Spread.of([*self._before.by_seed(column.heading).values()])
        difference = self._difference(column, paper, spread)
        reason = self._reason(column)
        return Entry(
            table=self._table.name,
            scale=self._scale,
            row=self._row.id,
            column=column.heading,
            paper=paper,
            mean=None if spread is None else spread.mean,
            sd=None if spread is None else spread.sd,
            n=0 if spread is None else spread.n,
            wanted=self._wanted(column),
            clean=clean,
            difference=difference,
            mark=self._mark(column, paper, spread, difference, reason),
            note=reason or self._note(column, spread),
            before=None if before is None else before.mean,
        )

    def _wanted(self, column: Column) -> int:
        """How many seeds were asked for."""
        if self._row.kind == "statistics":
            return int(column.heading in self._row.keys)
        parts = (*column.mean, *column.difference) or (column.heading,)
        each = [{slot.seed for slot in self._slots if part in slot.cell.headings} for part in parts]
        return len(set.intersection(*each))

    def _own(self, column: Column) -> list[Slot]:
        """The runs behind a column; of a mean or difference, those of all its parts."""
        heads = {column.heading, *column.mean, *column.difference}
        return [slot for slot in self._slots if heads & {*slot.cell.headings}]

    def _measured(self, column: Column) -> tuple[Spread | None, float | None]:
        """The spread over all rows, and the mean over the clean rows where that differs."""
        if self._row.kind == "statistics":
            number = statistic(self._row, column.heading, self._counted.numbers)
            return (None if number is None else Spread(number, None, 1)), None
        own = self._values.by_seed(column.heading)
        clean = self._values.by_seed(column.heading, clean=True)
        spread = Spread.of([own[seed] for seed in sorted(own)])
        if spread is None or clean == own:
            return spread, None
        part = Spread.of([clean[seed] for seed in sorted(clean)])
        return spread, None if part is None else part.mean

    def _reason(self, column: Column) -> str:
        """Why the column cannot be measured; empty where it can, or where there is nothing to measure."""
        lacking = [slot.cell.not_runnable for slot in self._own(column)]
        return next((f"not reproducible: {reason}" for reason in lacking if reason), "")

    def _difference(self, column: Column, paper: float | str | None, spread: Spread | None) -> float | None:
        """Mean less paper, for what is compared with it."""
        if spread is None or not isinstance(paper, int | float) or column.speed is not None:
            return None
        return spread.mean - paper if self._compared else None

    def _mark(
        self,
        column: Column,
        paper: float | str | None,
        spread: Spread | None,
        difference: float | None,
        reason: str,
    ) -> Mark:
        if column.printed:
            return "in words" if paper is not None else ""
        if self._row.kind == "quoted":
            return "quoted" if paper is not None else ""
        if spread is None:
            if reason:
                return "not reproducible"
            if not self._asked(column):
                return ""
            own = self._own(column)
            return "not measured" if own and all(slot.run is not None for slot in own) else "not run"
        if self._scale:
            return "reduced"
        if column.speed is not None and paper is not None:
            return "not compared"
        if difference is None:
            return "measured"
        return "within" if abs(difference) <= self._table.tolerance + _ROUNDING else "off"

    def _asked(self, column: Column) -> bool:
        """Whether the column has something to measure in this row."""
        if self._row.kind == "statistics":
            return column.heading in self._row.keys
        filled = {heading for slot in self._slots for heading in slot.cell.headings}
        if column.mean or column.difference:
            return all(heading in filled for heading in (*column.mean, *column.difference))
        return column.heading in filled

    def _note(self, column: Column, spread: Spread | None) -> str:
        """Why there are fewer numbers than finished runs, or than seeds asked for."""
        own = self._own(column)
        done, finished = 0 if spread is None else spread.n, sum(slot.run is not None for slot in own)
        if not column.of_a_run:
            return (
                f"{column.heading}: no seed has all of its parts"
                if not done and finished == len(own) > 0
                else ""
            )
        if done < finished:
            return f"{column.heading}: a run has no such number"
        return f"{column.heading}: {done} of {len(own)} seeds" if 0 < done < len(own) else ""

    def _notes(self, entries: Sequence[Entry]) -> list[str]:
        """The notes on the whole row."""
        row, counted = self._row, self._counted
        found = [row.note] if row.note else []
        if row.source != self._table.source:
            found.append(f"Numbers of {row.source}")
        found += left_open(row.unspecified)
        if any(slot.others for slot in self._slots):
            found.append("Of several finished runs of one configuration and seed, the newest counts")
        going = [(slot.state, slot.unfinished) for slot in self._slots if slot.run is None]
        found += [f"A run is {state}: {run.path}" for state, run in dict(going).items() if run is not None]
        old = [slot.passed_over for slot in self._slots if slot.run is None]
        why = "what it has read or starts from has changed"
        found += [f"Not counted: {run.other_code or why} since {run.path}" for run in old if run is not None]
        if row.kind == "statistics" and counted.source:
            found.append(f"Counted in {counted.source}")
        if row.kind == "statistics" and counted.lacks and any(one.mark == "not run" for one in entries):
            found.append(counted.lacks)
        return found


def left_open(lines: Sequence[str]) -> list[str]:
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
    """A note for each data set whose rows differ between the runs."""
    seen: dict[str, set[str]] = {}
    for slot in slots:
        for name, mark in (slot.run.data if slot.run is not None else {}).items():
            seen.setdefault(name, set()).add(mark)
    names = ", ".join(sorted(name for name, marks in seen.items() if len(marks) > 1))
    return [f"The runs have read different rows of {names}"] if names else []


def _digits(column: Column, rows: Sequence[SheetRow]) -> int:
    if not column.statistic:
        return decimals(column.key or "")
    own = [entry for row in rows for entry in row.entries if entry.column == column.heading]
    numbers = [one for entry in own for one in (entry.paper, entry.mean) if isinstance(one, int | float)]
    if all(float(one).is_integer() for one in numbers):
        return 0
    return 2 if any(math.fabs(one) > 1 for one in numbers) else 4
