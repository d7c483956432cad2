"""One row: what is printed, what was measured, and what there is to say about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from embedrun.table.cells import Slot
from embedrun.table.preset import Column, Row, Table
from embedrun.table.setting import Setting
from embedrun.table.sheet import Entry, Mark, Origin, SheetRow
from embedrun.table.values import Spread, Values, statistic

_ROUNDING = 1e-9  # a difference that is the tolerance but for this is within it


@dataclass(frozen=True)
class Counted:
    """What rows of statistics are filled from.

    Args:
        numbers: the content of the file of statistics.
        source: where they are from, in words; empty without numbers.
        lacks: why some or all of them are not there; empty for nothing.
    """

    numbers: Mapping[str, object] = field(default_factory=dict)
    source: str = ""
    lacks: str = ""


class Reading:
    """One row of a table and the runs that there are of it.

    Args:
        table: of the paper.
        row: of the table.
        slots: of the row.
        setting: of the runs.
        counted: what a row of statistics is filled from.
    """

    def __init__(
        self, table: Table, row: Row, slots: Sequence[Slot], setting: Setting, counted: Counted
    ) -> None:
        self._table, self._row, self._slots, self._counted = table, row, slots, counted
        # Statistics are of data, which no setting of a run changes.
        own = Setting() if row.kind == "statistics" else setting
        self._scale, self._compared = own.name, not own.name and not own.changes
        self._values = Values(table.columns, slots)

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
        paper = self._row.published.get(column.heading)
        spread, clean = self._measured(column)
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
        )

    def _wanted(self, column: Column) -> int:
        """Seeds that were asked for."""
        if self._row.kind == "statistics":
            return int(column.heading in self._row.keys)
        return len({slot.seed for slot in self._own(column)})

    def _own(self, column: Column) -> list[Slot]:
        """The runs behind a column; of a mean or difference, those of all its parts."""
        heads = {column.heading, *column.mean, *column.difference}
        return [slot for slot in self._slots if heads & {*slot.cell.headings}]

    def _measured(self, column: Column) -> tuple[Spread | None, float | None]:
        """The numbers of all rows, and the mean of the clean rows where it is another."""
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
        """From the paper, of what is compared with it."""
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
        """Whether there is something to measure."""
        if self._row.kind == "statistics":
            return column.heading in self._row.keys
        filled = {heading for slot in self._slots for heading in slot.cell.headings}
        if column.mean or column.difference:
            return all(heading in filled for heading in (*column.mean, *column.difference))
        return column.heading in filled

    def _note(self, column: Column, spread: Spread | None) -> str:
        """Why there are fewer numbers than runs have finished, or were asked for."""
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
        """What there is to say of the whole row."""
        row, counted = self._row, self._counted
        found = [row.note] if row.note else []
        if row.source != self._table.source:
            found.append(f"Numbers of {row.source}")
        found += left_open(row.unspecified)
        if any(slot.others for slot in self._slots):
            found.append("Of several finished runs of one configuration and seed, the newest counts")
        going = [(slot.state, slot.unfinished) for slot in self._slots if slot.run is None]
        found += [f"A run is {state}: {run.path}" for state, run in dict(going).items() if run is not None]
        if row.kind == "statistics" and counted.source:
            found.append(f"Counted in {counted.source}")
        if row.kind == "statistics" and counted.lacks and any(one.mark == "not run" for one in entries):
            found.append(counted.lacks)
        return found


def left_open(lines: Sequence[str]) -> list[str]:
    """What the paper leaves open, and what was chosen, as notes."""
    return [f"Left open by the paper: {line}" for line in lines]
