r"""How many seeds a difference takes: the power of the test of `claims.py`, before there are any runs.

With *n* seeds a side, :math:`s^2` the variance over seeds of the difference of a pair and *R* that of the
difference over test rows, which more seeds leave as it is, the error is :math:`\sqrt{s^2 / n + R}`. Sides
that are not paired have :math:`s^2 = s_a^2 + s_b^2`. The power is that of the noncentral t (Cohen 1988,
Statistical Power Analysis for the Behavioral Sciences, chapter 2) at the strictest level of the correction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from embedrun.study.claims import POWER, Estimate, Scored

MOST = 200  # seeds; nobody trains more
_SURE = 0.8  # how often the upper end of a standard deviation is above the true one


@dataclass(frozen=True)
class Spreads:
    """What a plan rests on, in points.

    Args:
        seeds: standard deviation over seeds of a difference, without what test rows do.
        rows: standard deviation of the mean difference over test rows.
        freedom: degrees of freedom of `seeds`; infinite where it is stated.
    """

    seeds: float
    rows: float
    freedom: float = float("inf")

    @classmethod
    def of(cls, sides: Sequence[Sequence[Scored]]) -> "Spreads":
        """Those of finished runs: one side of differences of pairs, or two that are not paired."""
        variance, freedom, draws = 0.0, 0.0, np.zeros(1)
        for sign, side in zip((1, -1), sides, strict=False):
            resampled = np.stack([run.draws for run in side])  # (runs, draws)
            of_rows = np.var(resampled - resampled.mean(axis=0), axis=1).sum() / (len(side) - 1)
            own = np.var([run.score for run in side], ddof=1)
            variance += max(float(own - of_rows), 0.0)
            freedom += len(side) - 1
            draws = draws + sign * resampled.mean(axis=0)  # (draws,)
        return cls(variance**0.5, float(np.std(draws, ddof=1)), freedom)

    @property
    def upper(self) -> "Spreads":
        """With the seeds' deviation that the true one exceeds in one study of five (chi-squared)."""
        if self.freedom == float("inf"):
            return self
        factor = (self.freedom / chi2.ppf(1 - _SURE, self.freedom)) ** 0.5
        return Spreads(self.seeds * float(factor), self.rows)

    def estimate(self, seeds: int) -> Estimate:
        """What so many seeds a side would give, its mean left at 0."""
        of_seeds, of_rows = self.seeds**2 / seeds, self.rows**2
        variance = max(of_seeds + of_rows, 1e-12)
        freedom = variance**2 / max(of_seeds**2 / (seeds - 1), 1e-24)
        return Estimate(0.0, variance**0.5, min(freedom, 1e6), 2 * (seeds - 1))

    def power(self, seeds: int, difference: float, level: float) -> float:
        """How often so many seeds tell a true difference from 0."""
        return self.estimate(seeds).power(difference, level)

    def needed(self, difference: float, level: float, power: float = POWER) -> int | None:
        """The fewest seeds with this power; None where `MOST` are not enough, as rows alone hide it."""
        for seeds in range(2, MOST + 1):
            if self.power(seeds, difference, level) >= power:
                return seeds
        return None
