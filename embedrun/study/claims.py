r"""Claims that one objective is better than another, decided over rows and seeds together.

Written down before the first run, a claim names two rows of a table, trained with the same seeds, and the
direction. Its statistic is the difference of their scores, the mean over paired seeds.

Its interval comes of resampling rows and seeds together: in each draw the rows of every test set are drawn
with replacement, the same for all runs, and the seeds too; the percentiles of the differences are the ends
(Efron and Tibshirani 1993, chapter 13). With *n* seeds the resampled seeds vary by :math:`(n-1)/n` of their
variance, which is why a claim asks for more than an interval.

All claims of a study are corrected together (Holm 1979, A Simple Sequentially Rejective Multiple Test
Procedure): ordered by p-value, the *k*-th of *m* is held to :math:`\alpha / (m - k + 1)`, and all behind the
first whose interval at that level has 0 in it to the level of that one, at which they have 0 in theirs too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

ALPHA = 0.05  # of all claims together
LEAST = 0.3  # points that a difference must have to be worth a word
Verdict = Literal["yes", "no", "undecided"]


@dataclass(frozen=True)
class Claim:
    """That the row `better` scores higher than the row `worse`; `name` says it in words."""

    name: str
    better: str
    worse: str


@dataclass(frozen=True)
class Scored:
    """One run: its `score`, and that of each resample of the test rows, ``(draws,)``."""

    score: float
    draws: np.ndarray


Runs = Mapping[str, Mapping[int, Scored]]  # by row, then by seed


@dataclass(frozen=True)
class Decision:
    """What became of a claim.

    Args:
        each: the difference of each pair of runs, by seed, in points.
        difference: their mean.
        low, high: the ends of its interval at the corrected level.
        p: two-sided, uncorrected: twice the share of draws on the other side of 0, at least 1 / draws.
        verdict: yes or no if the interval leaves out 0, all seeds agree in sign, and the difference is at
            least `LEAST`; else undecided.
    """

    claim: Claim
    each: Mapping[int, float]
    difference: float
    low: float
    high: float
    p: float
    verdict: Verdict

    @property
    def smallest(self) -> float:
        """The difference that could have been told from 0: half of the interval, at least `LEAST`."""
        return max(LEAST, (self.high - self.low) / 2)


def decide(claims: Sequence[Claim], runs: Runs, *, seed: int = 0) -> list[Decision]:
    """Decide all claims of a study together, in their order.

    `runs` of both rows of a claim must share seeds; others are left out. Their draws must be of the same
    resamples, in order. `seed` is of the drawing of seeds.

    Raises:
        ValueError: for a claim whose rows share no seed.
    """
    found = [_differences(claim, runs) for claim in claims]
    drawn = [
        over_seeds(draws, np.random.default_rng([seed, place])) for place, (_, draws) in enumerate(found)
    ]
    tails = [2 * min(float((one <= 0).mean()), float((one >= 0).mean())) for one in drawn]
    p_values = [min(1.0, max(tail, 1 / len(one))) for tail, one in zip(tails, drawn, strict=True)]
    order = np.argsort(p_values, kind="stable")
    decisions: dict[int, Decision] = {}
    level, going_on = 0.0, True
    for place, number in enumerate(order):
        level = ALPHA / (len(claims) - place) if going_on else level
        each, values = found[number][0], drawn[number]
        low, high = (float(end) for end in np.quantile(values, [level / 2, 1 - level / 2]))
        going_on = going_on and (low > 0 or high < 0)
        mean = float(np.mean(list(each.values())))
        agree = len({value > 0 for value in each.values()}) == 1
        decided = going_on and agree and abs(mean) >= LEAST
        verdict: Verdict = "undecided" if not decided else "yes" if mean > 0 else "no"
        decisions[int(number)] = Decision(claims[number], each, mean, low, high, p_values[number], verdict)
    return [decisions[number] for number in range(len(claims))]


def _differences(claim: Claim, runs: Runs) -> tuple[dict[int, float], np.ndarray]:
    """The difference of each pair of runs by seed, and those of each resample, ``(seeds, draws)``."""
    better, worse = runs.get(claim.better, {}), runs.get(claim.worse, {})
    seeds = sorted(better.keys() & worse.keys())
    if not seeds:
        raise ValueError(f"claim {claim.name!r}: {claim.better!r} and {claim.worse!r} share no seed")
    each = {seed: better[seed].score - worse[seed].score for seed in seeds}
    return each, np.stack([better[seed].draws - worse[seed].draws for seed in seeds])


def over_seeds(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The mean over drawn seeds in each resample of the rows, ``(draws,)``.

    `values`, ``(seeds, draws)``, are of each seed in each resample; in each, as many seeds are drawn as there
    are, with replacement.
    """
    seeds, draws = values.shape
    chosen = random.integers(seeds, size=(seeds, draws))  # (seeds, draws)
    return np.take_along_axis(values, chosen, axis=0).mean(axis=0)  # (draws,)
