"""How certain a score is: bootstrap, permutation test, two models on the same rows.

The interval of one score: rows are drawn with replacement, as many as there are, and scored again; the
middle 95 % of these scores is the interval. Source: Efron and Tibshirani 1993, An Introduction to the
Bootstrap, chapter 13.

Two models are compared in two ways, each by random draws. The paired bootstrap scores both on the same drawn
rows again and again, which gives the difference an interval (Koehn 2004, Statistical Significance Tests for
Machine Translation Evaluation). The paired permutation test asks how often a difference as large comes from
two models that are no different: in each row their predictions change places or not, by chance, which then
changes the difference only by chance. Source: Fisher 1935, The Design of Experiments; Noreen 1989,
Computer-Intensive Methods for Testing Hypotheses.

Departure: before they change places, the scores of a correlation become ranks among the model's own
scores, since the cosines of two models need not lie in one range. Pearson's correlation is taken of the
mixed ranks; where nothing has changed places, that is Spearman's.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

# Drawn rows at a time. Small enough for a processor's second cache: eight times as many take twice as long.
_BLOCK = 2**14
FEWEST = 100  # resamples that an interval may rest on
_UNDEFINED_SHARE = 0.05  # with this share of undefined resamples or more there is no interval


def resamples(rows: int, draws: int, seed: int | Sequence[int]) -> Iterator[np.ndarray]:
    """Indices of rows drawn with replacement, as many as there are, int64, ``(some draws, rows)`` each.

    The same three arguments always give the same indices, so two models can be scored on the same rows.
    `seed` is one number, or several that seed the generator together.
    """
    if rows < 1 or draws < 1:
        raise ValueError(f"bootstrap: needs at least one row and one draw, got {rows} and {draws}")
    generator = np.random.default_rng(seed)
    step = max(1, _BLOCK // rows)
    for start in range(0, draws, step):
        yield generator.integers(rows, size=(min(step, draws - start), rows))  # (some draws, rows)


def mean_draws(values: np.ndarray, *, draws: int = 1000, seed: int | Sequence[int] = 0) -> np.ndarray:
    """The mean of each resample of the values, ``(draws,)``; `seed` as in `resamples`."""
    values = np.asarray(values, dtype=float)  # (rows,)
    return np.concatenate([values[places].mean(axis=1) for places in resamples(len(values), draws, seed)])


def spearman_draws(
    predicted: Sequence[float] | np.ndarray,
    gold: Sequence[float] | np.ndarray,
    *,
    draws: int = 1000,
    seed: int | Sequence[int] = 0,
) -> np.ndarray:
    r"""Spearman's correlation of each resample of the pairs, ``(draws,)``, in [-1, 1].

    No resample is sorted: its distinct values are among those of all rows, so with :math:`c_g` drawn rows
    in the *g*-th smallest of these, their average rank is :math:`\sum_{h \le g} c_h - (c_g - 1) / 2`. The
    result is exact, ties included. NaN where it is undefined: one side of a resample is constant, or any
    value is NaN. Both sides may have any scale; `seed` as in `resamples`.
    """
    if len(predicted) != len(gold):
        raise ValueError(
            f"bootstrap: one gold score for each prediction, got {len(predicted)} and {len(gold)}"
        )
    left, right = np.asarray(predicted, dtype=float), np.asarray(gold, dtype=float)  # (rows,) each
    if np.isnan(left).any() or np.isnan(right).any():
        return np.full(draws, math.nan)
    groups = [np.unique(side, return_inverse=True)[1] for side in (left, right)]  # (rows,) each
    correlations = [_spearman(places, *groups) for places in resamples(len(left), draws, seed)]
    return np.concatenate(correlations)


def _spearman(places: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Pearson's correlation of the ranks of drawn rows, ``(draws,)``.

    `places` are the indices of the rows, ``(draws, rows)``; `left` and `right` number the distinct values of
    each side in ascending order, ``(rows,)``.
    """
    first, first_square = _ranks(left[places], int(left.max()) + 1)  # (draws, rows) and (draws,)
    second, second_square = _ranks(right[places], int(right.max()) + 1)
    product = np.einsum("dr,dr->d", first, second)  # (draws,)
    with np.errstate(invalid="ignore"):  # 0 / 0 of a constant side is the NaN that is wanted
        return product / np.sqrt(first_square * second_square)


def _ranks(groups: np.ndarray, many: int) -> tuple[np.ndarray, np.ndarray]:
    """Average ranks less their mean, ``(draws, rows)``, and the sum of their squares, ``(draws,)``.

    `groups` are the numbers, below `many`, of the distinct value of each drawn row, ``(draws, rows)``.
    """
    draws, rows = groups.shape
    flat = groups + many * np.arange(draws)[:, None]  # (draws, rows): no two draws share a number
    counts = np.bincount(flat.ravel(), minlength=draws * many).reshape(draws, many)
    # The mean rank is (rows + 1) / 2, so that the halves of both cancel.
    ranks = np.cumsum(counts, axis=1) - counts / 2 - rows / 2  # (draws, many)
    squares = np.einsum("dg,dg,dg->d", counts, ranks, ranks)  # (draws,)
    return ranks.ravel()[flat], squares


def interval(draws: np.ndarray) -> tuple[float, float]:
    """The 2.5 and 97.5 percentiles of a score over resamples, ``(draws,)``: the ends of its 95 % interval.

    Resamples where the score is undefined (NaN) are left out; both ends are NaN where they are 5 % or more.
    """
    defined = draws[~np.isnan(draws)]  # (defined draws,)
    if len(draws) - len(defined) >= _UNDEFINED_SHARE * len(draws):
        return math.nan, math.nan
    low, high = np.percentile(defined, [2.5, 97.5])
    return float(low), float(high)


_PERMUTED_BLOCK = 2**18  # rows at a time that do or do not change places, 2 MB


def swapped_mean(gained: np.ndarray, swaps: int, seed: int | Sequence[int]) -> np.ndarray:
    """The mean gain when models change places, ``(swaps,)``; only rows where one alone is right matter.

    `gained` has -1, 0 or 1 for each row, ``(rows,)``.
    """
    one_right = int(np.abs(gained).sum())
    to_b = np.random.default_rng(seed).binomial(one_right, 0.5, size=swaps)  # (swaps,)
    return (2 * to_b - one_right) / len(gained)


def swapped_numbers(gained: np.ndarray, swaps: int, seed: int | Sequence[int]) -> np.ndarray:
    """The mean gain when models change places, ``(swaps,)``, of any numbers, ``(rows,)``."""
    generator = np.random.default_rng(seed)
    sums = [_swaps(generator, many, len(gained)) @ gained for many in _swaps_at_once(len(gained), swaps)]
    return (gained.sum() - 2 * np.concatenate(sums)) / len(gained)


def _swaps_at_once(rows: int, swaps: int) -> list[int]:
    """How many swaps are drawn together, block after block."""
    step = max(1, _PERMUTED_BLOCK // rows)
    return [min(step, swaps - start) for start in range(0, swaps, step)]


def _swaps(generator: np.random.Generator, many: int, rows: int) -> np.ndarray:
    """Whether a row changes places, 0.0 or 1.0, ``(many, rows)``: a byte holds the bits of eight rows."""
    packed = generator.integers(256, size=(many, -(-rows // 8)), dtype=np.uint8)
    return np.unpackbits(packed, axis=1, count=rows).astype(float)


def swapped_ranks(
    a: np.ndarray, b: np.ndarray, gold: np.ndarray, swaps: int, seed: int | Sequence[int]
) -> tuple[float, np.ndarray]:
    """The difference of the correlations as it is, and with ranks that change places, ``(swaps,)``.

    With centred ranks the sum, the sum of squares and the product with gold of a mixed column are those of
    the model's own column and what each row that has changed places adds: one matrix product for all draws.
    NaN where a column, own or mixed, is constant or holds NaN. All three columns are ``(rows,)``.
    """
    left, right, true = ranks(a), ranks(b), ranks(gold)  # (rows,) each
    gap = right - left  # (rows,)
    change = np.stack([gap, right**2 - left**2, gap * true], axis=1)  # (rows, 3)
    rows = len(gold)

    def gain(moved: np.ndarray) -> np.ndarray:
        """B's correlation less A's, ``(n,)``, from what swapped rows add to A's sums, ``(n, 3)``."""
        sums, squares, products = moved.T  # (n,) each
        # Centred ranks are whole or half: with `rows` as a factor, a variance of 0 is exactly 0.
        first = (left @ true + products) / np.sqrt(rows * (left @ left + squares) - sums**2)
        second = (right @ true - products) / np.sqrt(rows * (right @ right - squares) - sums**2)
        return (second - first) * np.sqrt(rows / (true @ true))

    generator = np.random.default_rng(seed)
    drawn = [_swaps(generator, many, rows) @ change for many in _swaps_at_once(rows, swaps)]
    with np.errstate(invalid="ignore", divide="ignore"):  # a constant side gives NaN
        return float(gain(np.zeros((1, 3)))[0]), gain(np.concatenate(drawn))


def ranks(values: np.ndarray) -> np.ndarray:
    """Average ranks less their mean, ``(rows,)``; all NaN where a value is."""
    if np.isnan(values).any():
        return np.full(len(values), np.nan)
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)  # (rows,) and (groups,)
    return (np.cumsum(counts) - (counts - 1) / 2)[group] - (len(values) + 1) / 2


# Correlation of scores with gold; share of classes equal to gold; rows right (1) or wrong (0) by themselves;
# a number of each row, whose mean counts.
Kind = Literal["correlation", "accuracy", "correct", "mean"]

_ROUNDING = 1e-9  # a difference × 100 that is smaller by at most this counts as equal


@dataclass(frozen=True)
class Comparison:
    """The score of B less that of A, × 100; every number is NaN where a score is undefined.

    `low` and `high` are the ends of the 95 % interval; `p` is two-sided, of the permutation test, in (0, 1].
    """

    difference: float
    low: float
    high: float
    p: float
    rows: int


def figure(kind: Kind, predicted: np.ndarray, gold: np.ndarray | None) -> float:
    """The score × 100 of one model: Spearman's correlation or an accuracy; NaN where undefined.

    `predicted` and `gold` as in `differences`.
    """
    if kind != "correlation":
        return 100 * float(np.mean(predicted == gold if kind == "accuracy" else predicted))
    left, right = ranks(predicted), ranks(np.asarray(gold))  # (rows,) each
    with np.errstate(invalid="ignore"):
        return 100 * float(left @ right / np.sqrt((left @ left) * (right @ right)))


@dataclass(frozen=True)
class Differences:
    """The score of B less that of A, × 100: on the rows as they are, and in draws.

    `resampled` is on resampled rows, ``(draws,)``; `swapped` is with predictions that have changed places,
    ``(swaps,)``.
    """

    value: float
    resampled: np.ndarray
    swapped: np.ndarray
    rows: int

    def judged(self) -> Comparison:
        """The difference with its interval and p-value, (1 + draws as large) / (1 + draws)."""
        low, high = interval(self.resampled)
        # Negated, so that an undefined draw counts as one that is as large.
        as_large = ~(np.abs(self.swapped) < abs(self.value) - _ROUNDING)  # (swaps,)
        p = (1 + int(as_large.sum())) / (1 + len(self.swapped))
        return Comparison(self.value, low, high, p if self.value == self.value else float("nan"), self.rows)


def differences(
    kind: Kind,
    a: Sequence[float] | np.ndarray,
    b: Sequence[float] | np.ndarray,
    gold: Sequence[float] | np.ndarray | None,
    *,
    draws: int = 1000,
    swaps: int = 10_000,
    seed: int | Sequence[int] = 0,
) -> Differences:
    """Draw differences of two models.

    Args:
        a, b: of the first and the second model, ``(rows,)``: scores, classes, or 1 where it is right.
        gold: human scores or true classes, ``(rows,)``; None where a row is right by itself.
        draws: resamples of the rows.
        swaps: times that predictions change places.
        seed: of the generators; differences that are averaged need one each.
    """
    base = [seed] if isinstance(seed, int) else list(seed)
    rows_seed, swaps_seed = [*base, 0], [*base, 1]
    left, right = np.asarray(a), np.asarray(b)  # (rows,) each
    if gold is None and kind not in ("correct", "mean"):
        raise ValueError(f"paired: {kind} needs the gold column")
    lengths = {len(left), len(right), len(left) if gold is None else len(gold)}
    if len(lengths) > 1 or 0 in lengths:
        raise ValueError(f"paired: columns of one length, with rows, got lengths {sorted(lengths)}")
    if kind == "correlation":
        true = np.asarray(gold, dtype=float)  # (rows,)
        first, second = (spearman_draws(side, true, draws=draws, seed=rows_seed) for side in (left, right))
        value, swapped = swapped_ranks(left, right, true, swaps, swaps_seed)
        return Differences(100 * value, 100 * (second - first), 100 * swapped, len(left))
    if kind == "accuracy":
        left, right = left == np.asarray(gold), right == np.asarray(gold)
    gained = right - left if kind == "mean" else right.astype(int) - left.astype(int)  # (rows,)
    resampled = mean_draws(gained, draws=draws, seed=rows_seed)  # (draws,)
    swapped = (swapped_numbers if kind == "mean" else swapped_mean)(gained, swaps, swaps_seed)
    return Differences(100 * float(gained.mean()), 100 * resampled, 100 * swapped, len(left))


def average(parts: Sequence[Differences]) -> Differences:
    """The difference of the unweighted averages over several data sets, whose rows are drawn independently.

    Each is of one data set, with equally many draws and a seed of its own.
    """
    return Differences(
        float(np.mean([part.value for part in parts])),
        np.mean([part.resampled for part in parts], axis=0),  # (draws,)
        np.mean([part.swapped for part in parts], axis=0),  # (swaps,)
        sum(part.rows for part in parts),
    )
