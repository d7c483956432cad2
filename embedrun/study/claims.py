r"""Claims that one objective is better than another, decided over rows and seeds together.

Written down before the first run, a claim names two rows of a table and the direction. Its statistic *D* is
the mean score of the runs of one less that of the other's. It varies with the seeds and with the test rows,
which all runs share. With *n* seeds a side, :math:`S^2` the variance of their scores, and *R* the variance of
*D* over resampled rows, the same for all runs (the bootstrap of Efron and Tibshirani 1993, chapter 6),

.. math:: V = \sum_{sides} \max(S^2 - I, 0) / n + R

where *I* is the part of :math:`S^2` that other rows would change, which *R* has already: the variance over
resamples of a seed's distance from the mean of its side, summed over seeds and divided by *n* - 1. Runs of
one seed that read the same rows in the same order are a pair, and the differences of pairs are then the only
side; else the sides are independent.
:math:`D / \sqrt V` is held against Student's t with the degrees of freedom of Satterthwaite and Welch (1947),

.. math:: \nu = V^2 \Big/ \Big(\sum_{sides} \frac{(S^2 / n)^2}{n - 1} + \frac{R^2}{resamples - 1}\Big)

Departure: tests and intervals take at most twice the fewest *n* - 1 of a side. Seeds that happen to agree
make *V* small and :math:`\nu` large at once: without that limit 11 % of simulated studies in which nothing
differs have a verdict, with it 3 % (tests/study/test_claims.py), where 5 % may.

All claims of a study are corrected together (Holm 1979, A Simple Sequentially Rejective Multiple Test
Procedure): ordered by p-value, the *k*-th of *m* is held to :math:`\alpha / (m - k + 1)`, and all behind the
first whose interval at that level has 0 in it to the level of that one, at which they have 0 in theirs too.

A plan asks for the seeds that such a test takes. With :math:`s^2` the variance over seeds of the difference
of a pair, or the sum of both sides' where they are not paired, the error of *n* seeds is
:math:`\sqrt{s^2 / n + R}`: more seeds leave *R* as it is. The power is that of the noncentral t (Cohen 1988,
Statistical Power Analysis for the Behavioral Sciences, chapter 2) at the strictest level of the correction.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import chdtri, nctdtr, nctdtrinc, ndtri, stdtr, stdtrit

from embedrun.errors import DataError

ALPHA = 0.05  # of all claims together
POWER = 0.8  # how often a difference that could have been shown is shown
LEAST = 0.3  # points that a difference must have to be worth a word
MOST = 200  # seeds; nobody trains more
_SURE = 0.8  # how often the upper end of a standard deviation is above the true one
Verdict = Literal["yes", "no", "undecided"]
Correction = Literal["holm", "bonferroni", "none"]


@dataclass(frozen=True)
class Claim:
    """That the row `better` scores higher than the row `worse`; `name` says it in words."""

    name: str
    better: str
    worse: str


@dataclass(frozen=True)
class Scored:
    """One run: its `score`, and that of each resample of the test rows, ``(draws,)``.

    Runs of one seed and of equal `order` were trained on the same rows in the same order. `rows` says which
    test rows count, None for all.
    """

    score: float
    draws: np.ndarray
    order: Hashable = None
    rows: Hashable = None


Runs = Mapping[str, Mapping[int, Scored]]  # by row, then by seed


@dataclass(frozen=True)
class Estimate:
    """A mean over runs, or a difference of two; `error` is the root of V above, `most` limits `freedom`."""

    mean: float
    error: float
    freedom: float
    most: float

    @property
    def p(self) -> float:
        """Two-sided, for a true mean of 0, uncorrected."""
        return float(2 * stdtr(min(self.freedom, self.most), -abs(self.mean) / self.error))

    def interval(self, level: float = ALPHA) -> tuple[float, float]:
        """The ends of the interval that misses the true mean with probability `level`."""
        half = self.error * self._critical(level)
        return self.mean - half, self.mean + half

    def smallest(self, level: float, least: float = LEAST) -> float:
        """The true difference that is told from 0, and is at least `least`, with probability `POWER` each."""
        noncentrality = nctdtrinc(self.freedom, 1 - POWER, self._critical(level))
        return float(max(self.error * noncentrality, least + self.error * ndtri(POWER)))

    def power(self, difference: float, level: float) -> float:
        """How often this true difference is told from 0, in its own direction: the noncentral t's tail."""
        return float(1 - nctdtr(self.freedom, abs(difference) / self.error, self._critical(level)))

    def _critical(self, level: float) -> float:
        return float(stdtrit(min(self.freedom, self.most), 1 - level / 2))


@dataclass(frozen=True)
class Decision:
    """What became of a claim.

    Args:
        each: the difference of each pair of runs, by seed, in points; empty where runs are not paired.
        level: at which it was tested, and at which its interval is to be read.
        verdict: yes or no if that leaves out 0 and the difference is large enough to matter; else undecided.
    """

    claim: Claim
    each: Mapping[int, float]
    estimate: Estimate
    level: float
    verdict: Verdict

    def cells(self, least: float = LEAST) -> list[str]:
        """The difference, its interval, p and the verdict, as they are shown; what could have been shown."""
        low, high = self.estimate.interval(self.level)
        verdict = str(self.verdict)
        if self.verdict == "undecided":
            verdict += f"; {self.estimate.smallest(self.level, least):.2f} could have been shown"
        return [f"{self.estimate.mean:+.2f}", f"{low:+.2f} to {high:+.2f}", f"{self.estimate.p:.2g}", verdict]


def decide(
    claims: Sequence[Claim],
    runs: Runs,
    *,
    alpha: float = ALPHA,
    least: float = LEAST,
    correction: Correction = "holm",
) -> list[Decision]:
    """Decide all claims of a study together, in their order; draws are of the same resamples, in order.

    `alpha` is of all claims together, or with the correction `none` of each; `least` is the difference that
    matters.
    """
    differences = [_difference(claim, runs) for claim in claims]
    decisions: dict[int, Decision] = {}
    each = alpha / (len(claims) if correction == "bonferroni" else 1)  # where the order is nothing to a claim
    level, rejecting = 0.0, True
    for place, number in enumerate(np.argsort([estimate.p for _, estimate in differences], kind="stable")):
        by_seed, estimate = differences[number]
        if correction == "holm":
            level = alpha / (len(claims) - place) if rejecting else level
        else:
            level, rejecting = each, True
        low, high = estimate.interval(level)
        rejecting = rejecting and (low > 0 or high < 0)
        decided = rejecting and abs(estimate.mean) >= least
        verdict: Verdict = "undecided" if not decided else "yes" if low > 0 else "no"
        decisions[int(number)] = Decision(claims[number], by_seed, estimate, level, verdict)
    return [decisions[number] for number in range(len(claims))]


def _difference(claim: Claim, runs: Runs) -> tuple[dict[int, float], Estimate]:
    by_seed, sides = sides_of(claim, runs)
    if min(map(len, sides)) < 2:
        raise ValueError(f"claim {claim.name!r}: {claim.better!r} and {claim.worse!r} need two seeds each")
    return by_seed, estimate(*sides)


def sides_of(claim: Claim, runs: Runs) -> tuple[dict[int, float], list[list[Scored]]]:
    """The difference of each pair by seed, and the pairs as one side; without pairs none, and two sides."""
    better, worse = runs.get(claim.better, {}), runs.get(claim.worse, {})
    sides = [list(better.values()), list(worse.values())]
    if len({run.rows for side in sides for run in side}) > 1:
        raise DataError(
            f"{claim.better} and {claim.worse}: other test rows are clean for one than for the other; "
            "compare scores of all rows"
        )
    if len({run.order for side in sides for run in side}) != 1:
        return {}, sides
    seeds = sorted(better.keys() & worse.keys())
    by_seed = {seed: better[seed].score - worse[seed].score for seed in seeds}
    return by_seed, [[Scored(by_seed[seed], better[seed].draws - worse[seed].draws) for seed in seeds]]


def estimate(*sides: Sequence[Scored]) -> Estimate:
    """The mean score of a side, less that of the other where there are two; each has two runs at least."""
    mean, variance, seeds, draws = 0.0, 0.0, 0.0, np.zeros(1)
    for sign, side in zip((1, -1), sides, strict=False):
        scores, resampled = np.array([run.score for run in side]), np.stack([run.draws for run in side])
        of_rows = np.var(resampled - resampled.mean(axis=0), axis=1).sum() / (len(side) - 1)  # I above
        spread = scores.var(ddof=1)
        mean, draws = mean + sign * scores.mean(), draws + sign * resampled.mean(axis=0)  # (draws,)
        variance += max(spread - of_rows, 0.0) / len(side)
        seeds += (spread / len(side)) ** 2 / (len(side) - 1)
    rows = draws.var(ddof=1)
    variance += rows
    variance = max(float(variance), 1e-12)  # runs of equal predictions
    freedom = variance**2 / max(seeds + rows**2 / (len(draws) - 1), 1e-24)
    fewest = min(map(len, sides)) - 1
    return Estimate(float(mean), variance**0.5, float(freedom), 2 * fewest)


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
        factor = (self.freedom / chdtri(self.freedom, _SURE)) ** 0.5
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
