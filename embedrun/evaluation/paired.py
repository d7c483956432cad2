"""Two models on the same rows: how sure is the difference of their scores?

Two answers, each from draws. The paired bootstrap scores both on the same drawn rows again and again, which
gives the difference an interval (Koehn 2004, Statistical Significance Tests for Machine Translation
Evaluation). The paired permutation test asks how often a difference as large comes from two models that
are no different: see permutation.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from embedrun.evaluation.bootstrap import interval, mean_draws, spearman_draws
from embedrun.evaluation.permutation import ranks, swapped_mean, swapped_ranks

# correlation of scores with gold; classes that are gold; rows that are right (1) or wrong (0) by themselves.
Kind = Literal["correlation", "accuracy", "correct"]

DRAWS = 1_000
SWAPS = 10_000
_ROUNDING = 1e-9  # a difference × 100 that is smaller by no more is as large


@dataclass(frozen=True)
class Comparison:
    """The score of B less that of A, × 100; every number is NaN where a score is undefined.

    Args:
        difference: of the two scores.
        low: lower end of its 95 % interval.
        high: upper end.
        p: two-sided, of the permutation test, in (0, 1].
        rows: that both models scored.
    """

    difference: float
    low: float
    high: float
    p: float
    rows: int


def figure(kind: Kind, predicted: np.ndarray, gold: np.ndarray | None) -> float:
    """The score × 100 of one model: Spearman's correlation or an accuracy; NaN where undefined.

    Args:
        kind: of its predictions.
        predicted: scores, classes, or 1 where it is right, ``(rows,)``.
        gold: human scores or true classes, ``(rows,)``; None where a row is right by itself.
    """
    if kind != "correlation":
        return 100 * float(np.mean(predicted if kind == "correct" else predicted == gold))
    left, right = ranks(predicted), ranks(np.asarray(gold))  # (rows,) each
    with np.errstate(invalid="ignore"):
        return 100 * float(left @ right / np.sqrt((left @ left) * (right @ right)))


@dataclass(frozen=True)
class Differences:
    """The score of B less that of A, × 100, as it is and in draws.

    Args:
        found: on the rows as they are.
        resampled: on resampled rows, ``(draws,)``.
        swapped: with predictions that have changed places, ``(swaps,)``.
        rows: how many there are.
    """

    found: float
    resampled: np.ndarray
    swapped: np.ndarray
    rows: int

    def judged(self) -> Comparison:
        """The difference with its interval and p-value, (1 + draws as large) / (1 + draws)."""
        low, high = interval(self.resampled)
        # Turned round, so that an undefined draw counts as one that is as large.
        as_large = ~(np.abs(self.swapped) < abs(self.found) - _ROUNDING)  # (swaps,)
        p = (1 + int(as_large.sum())) / (1 + len(self.swapped))
        return Comparison(self.found, low, high, p if self.found == self.found else float("nan"), self.rows)


def differences(
    kind: Kind,
    a: Sequence[float] | np.ndarray,
    b: Sequence[float] | np.ndarray,
    gold: Sequence[float] | np.ndarray | None,
    *,
    draws: int = DRAWS,
    swaps: int = SWAPS,
    seed: int | Sequence[int] = 0,
) -> Differences:
    """Draw differences of two models.

    Args:
        kind: of their predictions.
        a: of the first model, ``(rows,)``: scores, classes, or 1 where it is right.
        b: of the second.
        gold: human scores or true classes, ``(rows,)``; None where a row is right by itself.
        draws: resamples of the rows.
        swaps: times that predictions change places.
        seed: of the generators; differences that are averaged need one each.

    Raises:
        ValueError: if the columns differ in length, have no rows, or gold is missing.
    """
    base = [seed] if isinstance(seed, int) else list(seed)
    rows_seed, swaps_seed = [*base, 0], [*base, 1]
    left, right = np.asarray(a), np.asarray(b)  # (rows,) each
    if gold is None and kind != "correct":
        raise ValueError(f"paired: {kind} needs the gold column")
    lengths = {len(left), len(right), len(left) if gold is None else len(gold)}
    if len(lengths) > 1 or 0 in lengths:
        raise ValueError(f"paired: columns of one length, with rows, got lengths {sorted(lengths)}")
    if kind == "correlation":
        true = np.asarray(gold, dtype=float)  # (rows,)
        first, second = (spearman_draws(side, true, draws=draws, seed=rows_seed) for side in (left, right))
        found, swapped = swapped_ranks(left, right, true, swaps, swaps_seed)
        return Differences(100 * found, 100 * (second - first), 100 * swapped, len(left))
    if kind == "accuracy":
        left, right = left == np.asarray(gold), right == np.asarray(gold)
    gained = right.astype(int) - left.astype(int)  # (rows,): -1, 0 or 1
    resampled = mean_draws(gained, draws=draws, seed=rows_seed)  # (draws,)
    swapped = swapped_mean(gained, swaps, swaps_seed)
    return Differences(100 * float(gained.mean()), 100 * resampled, 100 * swapped, len(left))


def compare(
    kind: Kind,
    a: Sequence[float] | np.ndarray,
    b: Sequence[float] | np.ndarray,
    gold: Sequence[float] | np.ndarray | None,
    *,
    draws: int = DRAWS,
    swaps: int = SWAPS,
    seed: int | Sequence[int] = 0,
) -> Comparison:
    """How sure the difference of two models on one data set is; see `differences` for the arguments."""
    return differences(kind, a, b, gold, draws=draws, swaps=swaps, seed=seed).judged()


def average(each: Sequence[Differences]) -> Differences:
    """The difference of the unweighted averages over several data sets, whose rows are drawn independently.

    Args:
        each: of one data set each, with equally many draws and a seed of its own.
    """
    return Differences(
        float(np.mean([one.found for one in each])),
        np.mean([one.resampled for one in each], axis=0),  # (draws,)
        np.mean([one.swapped for one in each], axis=0),  # (swaps,)
        sum(one.rows for one in each),
    )
