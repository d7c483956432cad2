"""Trainings that differ in their seed alone: their spread, and how certain the difference of two groups is.

Here a sample is a trained model, not a row as in `embedrun/evaluation/intervals.py`: an interval over seeds
says what other seeds would give on these test rows, and leaves out what other test rows would.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (n - 1; None below two values) over n seeds."""

    mean: float
    sd: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        """None if there are no values."""
        if not values:
            return None
        sd = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), sd, len(values))


def expected_best(values: Sequence[float], trials: int, *, lowest: bool = False) -> float:
    r"""The best score that so many trials are expected to find, drawn with replacement from these values.

    :math:`\sum_i v_{(i)} [(i/N)^n - ((i-1)/N)^n]`, the values in ascending order, or in descending order
    where the lowest is the best (Dodge et al. 2019, Show Your Work, section 3).
    """
    ranked, count = sorted(values, reverse=lowest), len(values)
    shares = [((place + 1) / count) ** trials - (place / count) ** trials for place in range(count)]
    return math.fsum(value * share for value, share in zip(ranked, shares, strict=True))


def listed(seeds: Sequence[int]) -> str:
    """`1, 2, 5`; six and more that follow each other are `1 to 6`."""
    parts = []
    for _, group in groupby(enumerate(seeds), lambda pair: pair[1] - pair[0]):
        words = [str(seed) for _, seed in group]
        parts += [f"{words[0]} to {words[-1]}"] if len(words) > 5 else words
    return ", ".join(parts)


@dataclass(frozen=True)
class OverSeeds:
    """The mean of B less that of A; `low` and `high` are the ends of its 95 % interval, None without one.

    `p` is two-sided, None also where no seed differs from another. `paired`: both sides have the same seeds.
    """

    difference: float
    low: float | None
    high: float | None
    p: float | None
    paired: bool

    @property
    def is_tie(self) -> bool | None:
        """Whether 0 is in the interval; None without one."""
        return None if self.low is None or self.high is None else self.low <= 0 <= self.high


_Seed = TypeVar("_Seed", int, str)
Ends = tuple[float, float] | None  # of the 95 % interval over rows of one training


def tied(best: Mapping[str, float], rows: Ends, others: Mapping[str, float], other_rows: Ends) -> bool | None:
    """Whether the scores of a group by seed are tied with the best's; None where that cannot be told.

    With two seeds or more on both sides: where 0 is in the 95 % interval of the difference of the means.
    With one seed: where the score of the other is in its interval over rows. That leaves out what another
    seed would change, and is wider than an interval of the difference, since both score the same rows.
    """
    if min(len(best), len(others)) > 1:
        return compared(best, others).is_tie
    ends, scores = (other_rows, best) if len(others) == 1 else (rows, others)
    return ends[0] <= statistics.fmean(scores.values()) <= ends[1] if ends and scores else None


def compared(a: Mapping[_Seed, float], b: Mapping[_Seed, float]) -> OverSeeds:
    r"""Compare the scores of two groups of trainings, each by seed and with one at least.

    The interval is :math:`d \pm t_{0.975, \nu} \, e` with the difference of the means :math:`d`, and

    - for the same seeds on both sides, with :math:`s_d` the standard deviation of the n differences of each
      seed, :math:`e = s_d / \sqrt n` and :math:`\nu = n - 1`: the paired t interval (Student 1908, The
      Probable Error of a Mean, Biometrika 6). A seed decides the order of the rows, new weights and dropout,
      so that its two trainings have something in common;
    - else, with :math:`v = s^2 / n` of each side, :math:`e = \sqrt{v_a + v_b}` and
      :math:`\nu = (v_a + v_b)^2 / (v_a^2 / (n_a - 1) + v_b^2 / (n_b - 1))`: Welch's (1947, The Generalization
      of 'Student's' Problem when Several Different Population Variances are Involved, Biometrika 34).

    Both take the scores of seeds to be normally distributed. A side with one seed has no interval.
    """
    paired = a.keys() == b.keys()
    left, right = ([side[seed] for seed in sorted(side)] for side in (a, b))
    difference = statistics.fmean(right) - statistics.fmean(left)
    if min(len(left), len(right)) < 2:
        return OverSeeds(difference, None, None, None, paired)
    if paired:
        gains = [after - before for before, after in zip(left, right, strict=True)]
        error, freedom = statistics.stdev(gains) / math.sqrt(len(gains)), len(gains) - 1.0
    else:
        variances = [statistics.variance(side) / len(side) for side in (left, right)]
        error = math.sqrt(sum(variances))
        below = sum(part**2 / (len(side) - 1) for part, side in zip(variances, (left, right), strict=True))
        freedom = sum(variances) ** 2 / below if below else math.inf
    if not error:  # no seed changes anything, as where nothing is trained
        return OverSeeds(difference, difference, difference, None, paired)
    from scipy.stats import t  # here, because it takes most of a second to import

    half = float(t.ppf(0.975, freedom)) * error
    p = 2 * float(t.sf(abs(difference) / error, freedom))
    return OverSeeds(difference, difference - half, difference + half, p, paired)
