"""What tests say of a table: p-values of columns that are tests, the best of each column, daggers.

Differences are tested over seeds and test rows together (:mod:`~embedrun.study.claims`). A dagger asks for
the verdict yes after Holm's correction over all comparisons of the table: of each row with its baseline, or
else of the best row of each column with the second best.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from embedrun.errors import ConfigError
from embedrun.study.claims import ALPHA, LEAST, Claim, Scored, decide, estimate, sides_of
from embedrun.study.drawn import evidence
from embedrun.table.cells import Slot
from embedrun.table.preset import Table
from embedrun.table.sheet import Entry, Sheet

_Place = tuple[str, str]  # a row and a column


def judged(sheet: Sheet, table: Table, slots: Sequence[Slot], *, marks: bool) -> Sheet:
    """The sheet with the p-values of columns that are tests and, with `marks`, bold and daggers.

    A p-value is two-sided and uncorrected. What lacks two seeds, or predictions behind its score, is not
    tested; a note says which columns.
    """
    scores = [column.heading for column in table.columns if column.key or column.mean] if marks else []
    tests = {column.heading: column for column in table.columns if column.test}
    drawn, untested = {}, []
    for heading in dict.fromkeys([*scores, *(column.parts[0] for column in tests.values())]):
        try:
            drawn |= {(row.id, heading): evidence(table, row.id, heading, slots) for row in table.rows}
        except ConfigError:
            untested.append(heading)
    p = {
        (row.id, heading): _p(drawn, row.id, str(column.against), column.parts[0])
        for heading, column in tests.items()
        for row in table.rows
    }
    best, better, told = _marks(sheet, table, scores, drawn) if marks else (set(), set(), [])
    if untested:
        told.append(f"Not tested, since no predictions give the score: {', '.join(untested)}")

    def entry(old: Entry) -> Entry:
        place = old.row, old.column
        if (value := p.get(place)) is not None:
            return replace(
                old, mean=value, n=len(drawn[old.row, tests[old.column].parts[0]]), mark="measured"
            )
        return replace(old, best=place in best, better=place in better)

    rows = (replace(row, entries=tuple(map(entry, row.entries))) for row in sheet.rows)
    return replace(sheet, rows=tuple(rows), notes=(*told, *sheet.notes))


_Drawn = Mapping[_Place, Mapping[int, Scored]]


def _p(drawn: _Drawn, row: str, against: str, heading: str) -> float | None:
    sides = _sides(drawn, row, against, heading)
    return None if row == against or sides is None else estimate(*sides).p


def _sides(drawn: _Drawn, row: str, other: str, heading: str) -> list[list[Scored]] | None:
    """The sides of a comparison; None where one has fewer than two seeds."""
    runs = {name: drawn.get((name, heading), {}) for name in (row, other)}
    _, sides = sides_of(Claim(heading, row, other), runs)
    return sides if min(map(len, sides)) > 1 else None


def _marks(
    sheet: Sheet, table: Table, headings: Sequence[str], drawn: _Drawn
) -> tuple[set[_Place], set[_Place], list[str]]:
    """The entries in bold, those with a dagger, and what both mean."""
    digits = {column.heading: column.digits for column in sheet.columns}
    best: set[_Place] = set()
    pairs: list[tuple[str, str, str]] = []
    for heading in headings:
        means = {one.row: one.mean for one in sheet.entries if one.column == heading and one.mean is not None}
        ranked = sorted(means, key=lambda row: -means[row])
        shown = {row: round(means[row], digits[heading]) for row in ranked}
        best |= {(row, heading) for row in ranked if shown[row] == shown[ranked[0]]}
        if table.baseline is not None:
            pairs += [(row, table.baseline, heading) for row in ranked if row != table.baseline]
        elif len(ranked) > 1:
            pairs.append((ranked[0], ranked[1], heading))
    pairs = [pair for pair in pairs if _sides(drawn, *pair)]
    claims = [Claim(heading, f"{row}|{heading}", f"{other}|{heading}") for row, other, heading in pairs]
    decisions = decide(claims, {f"{row}|{heading}": runs for (row, heading), runs in drawn.items()})
    better = {
        (row, heading)
        for (row, _, heading), one in zip(pairs, decisions, strict=True)
        if one.verdict == "yes"
    }
    than = "the second best" if table.baseline is None else table.baseline
    test = (
        f"tested over seeds and test rows, Holm's correction over {len(pairs)} comparisons, alpha {ALPHA:g}"
    )
    told = f"Bold: the best of a column. †: better than {than} by {LEAST:g} or more, {test}"
    return (
        best,
        better,
        [told if pairs else "Bold: the best of a column. Daggers need two finished seeds a row"],
    )
