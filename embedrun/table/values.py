"""The measured numbers of one row: from its finished runs, by column and seed."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from embedrun.table.cells import Slot
from embedrun.table.preset import Column, Row

CLEAN = "_clean"  # behind the key of a score: on the rows that are not in the training data


@dataclass(frozen=True)
class Spread:
    """Numbers of several seeds.

    Args:
        mean: of them.
        sd: standard deviation with n - 1; None below two.
        n: how many.
    """

    mean: float
    sd: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        """None of no values."""
        if not values:
            return None
        sd = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), sd, len(values))


class Values:
    """The numbers of a row.

    Args:
        columns: of the table.
        slots: of the row.
    """

    def __init__(self, columns: Sequence[Column], slots: Sequence[Slot]) -> None:
        self._columns = {column.heading: column for column in columns}
        self._slots = slots

    def by_seed(self, heading: str, *, clean: bool = False) -> dict[int, float]:
        """The finite numbers of a column by seed.

        A mean or difference has those seeds that all of its parts have.

        Args:
            heading: of the column.
            clean: on the rows that are not in the training data; of a score that has no such, the score.
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
            scores, key = slot.run.scores, column.key or ""
            value = slot.run.speed.get(column.speed) if column.speed else scores.get(key)
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
    """The number of a row of statistics; None where a part of it is not there.

    Args:
        row: whose keys are paths, as `splits/train/positive`; several are added up.
        heading: of the column.
        found: the file of statistics.
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
