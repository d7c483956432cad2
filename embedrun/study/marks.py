"""What tests say of a table: p-values of columns that are tests, the best of each column, daggers.

Differences are tested over seeds and test rows together (:mod:`~embedrun.study.claims`). A dagger asks for
the verdict yes after Holm's correction over all comparisons of the table: of each row with its baseline, or
else of the best row of each column with the second best.
"""

from collections.abc import Sequence
from dataclasses import replace

from embedrun.errors import ConfigError
from embedrun.study.claims import ALPHA, LEAST, Claim, Scored, decide, estimate, sides_of
from embedrun.study.drawn import evidence
from embedrun.table.cells import Slot
from embedrun.table.choice import chosen
from embedrun.table.preset import Table
from embedrun.table.sheet import Entry, Sheet

_Place = tuple[str, str]  # a row and a column


class _Scores:
    """What the runs of a table have, with resamples, read where a comparison asks for it."""

    def __init__(self, table: Table, slots: Sequence[Slot]) -> None:
        self._table, self._slots = table, chosen(slots).slots
        self._known: dict[_Place, dict[int, Scored]] = {}
        self.untested: dict[str, None] = {}  # columns without predictions behind their scores

    def of(self, row: str, heading: str) -> dict[int, Scored]:
        """By seed; nothing without predictions."""
        if (row, heading) not in self._known:
            try:
                self._known[row, heading] = evidence(self._table, row, heading, self._slots)
            except ConfigError:
                self._known[row, heading] = {}
                self.untested[heading] = None
        return self._known[row, heading]

    def sides(self, row: str, other: str, heading: str) -> list[list[Scored]] | None:
        """The sides of a comparison of two rows; None where one has fewer than two seeds."""
        runs = {name: self.of(name, heading) for name in (row, other)}
        _, sides = sides_of(Claim(heading, row, other), runs)
        return sides if row != other and min(map(len, sides)) > 1 else None

    def better(self, pairs: Sequence[tuple[str, str, str]]) -> set[_Place]:
        """The row and column of each pair of rows in a column of which the first is better, all together."""
        runs = {f"{row}|{heading}": self.of(row, heading) for pair in pairs for row, heading in _places(pair)}
        claims = [Claim(heading, f"{row}|{heading}", f"{other}|{heading}") for row, other, heading in pairs]
        decisions = zip(pairs, decide(claims, runs), strict=True)
        return {(row, heading) for (row, _, heading), one in decisions if one.verdict == "yes"}


def _places(pair: tuple[str, str, str]) -> tuple[_Place, _Place]:
    row, other, heading = pair
    return (row, heading), (other, heading)


def judged(sheet: Sheet, table: Table, slots: Sequence[Slot], *, marks: bool) -> Sheet:
    """The sheet with the p-values of columns that are tests and, with `marks`, bold and daggers.

    A p-value is two-sided and uncorrected. What lacks two seeds, or predictions behind its score, is not
    tested; a note says which columns.
    """
    scores = _Scores(table, slots)
    p: dict[_Place, tuple[float, int]] = {}
    for column in (column for column in table.columns if column.test):
        for row in table.rows:
            if sides := scores.sides(row.id, str(column.against), column.parts[0]):
                p[row.id, column.heading] = estimate(*sides).p, len(sides[0])
    against = {(column.against, column.heading) for column in table.columns}
    best, better, told = _marks(sheet, table, scores) if marks else (set(), set(), [])
    if scores.untested:
        told.append(f"Not tested, since no predictions give the score: {', '.join(scores.untested)}")

    def entry(old: Entry) -> Entry:
        place = old.row, old.column
        if place in p:
            return replace(old, mean=p[place][0], n=p[place][1], mark="measured")
        if place in against:
            return replace(old, mark="")
        return replace(old, best=place in best, better=place in better)

    rows = (replace(row, entries=tuple(map(entry, row.entries))) for row in sheet.rows)
    return replace(sheet, rows=tuple(rows), notes=(*told, *sheet.notes))


def _marks(sheet: Sheet, table: Table, scores: _Scores) -> tuple[set[_Place], set[_Place], list[str]]:
    """The entries in bold, those with a dagger, and what both mean."""
    digits = {column.heading: column.digits for column in sheet.columns}
    best: set[_Place] = set()
    pairs: list[tuple[str, str, str]] = []
    for heading in (column.heading for column in table.columns if column.key or column.mean):
        means = {one.row: one.mean for one in sheet.entries if one.column == heading and one.mean is not None}
        ranked = sorted(means, key=lambda row: -means[row])
        shown = {row: round(means[row], digits[heading]) for row in ranked}
        best |= {(row, heading) for row in ranked if shown[row] == shown[ranked[0]]}
        if table.baseline is not None:
            pairs += [(row, table.baseline, heading) for row in ranked]
        elif len(ranked) > 1:
            pairs.append((ranked[0], ranked[1], heading))
    pairs = [pair for pair in pairs if scores.sides(*pair)]
    if not pairs:
        return best, set(), ["Bold: the best of a column. Daggers need two rows with two finished seeds each"]
    than = "the second best" if table.baseline is None else table.baseline
    count = f"{len(pairs)} comparison{'s' * (len(pairs) != 1)}"
    how = f"over seeds and test rows, Holm's correction over {count}, alpha {ALPHA:g}"
    told = f"Bold: the best of a column. †: better than {than} by {LEAST:g} or more, tested {how}"
    return best, scores.better(pairs), [told]
