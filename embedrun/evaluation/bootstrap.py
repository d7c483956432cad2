"""How far a score would move with other rows: the percentile bootstrap.

Rows are drawn with replacement, as many as there are, and scored again; the middle 95 % of these scores is
the interval. Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

# Drawn rows at a time. Small enough for a processor's second cache: eight times as many take twice as long.
_BLOCK = 2**14
FEWEST = 100  # resamples that an interval may rest on
_UNDEFINED_SHARE = 0.05  # of undefined resamples, from which on there is no interval


def resamples(rows: int, draws: int, seed: int | Sequence[int]) -> Iterator[np.ndarray]:
    """Places of rows drawn with replacement, as many as there are, int64, ``(some of the draws, rows)`` each.

    The same three arguments always give the same places, so two models can be scored on the same rows.

    Args:
        rows: how many there are, > 0.
        draws: how many resamples, > 0.
        seed: of the generator, or several numbers that seed it together.

    Raises:
        ValueError: if there is nothing to draw.
    """
    if rows < 1 or draws < 1:
        raise ValueError(f"bootstrap: needs at least one row and one draw, got {rows} and {draws}")
    generator = np.random.default_rng(seed)
    step = max(1, _BLOCK // rows)
    for start in range(0, draws, step):
        yield generator.integers(rows, size=(min(step, draws - start), rows))  # (some draws, rows)


def mean_draws(values: np.ndarray, *, draws: int = 1000, seed: int | Sequence[int] = 0) -> np.ndarray:
    """The mean of each resample, ``(draws,)``.

    Args:
        values: ``(rows,)``.
        draws: how many resamples.
        seed: see `resamples`.
    """
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
    value is NaN.

    Args:
        predicted: one number for each pair, any scale.
        gold: the human score of each, any scale.
        draws: how many resamples.
        seed: see `resamples`.

    Raises:
        ValueError: if the two differ in length or are empty.
    """
    if len(predicted) != len(gold):
        raise ValueError(
            f"bootstrap: one gold score for each prediction, got {len(predicted)} and {len(gold)}"
        )
    left, right = np.asarray(predicted, dtype=float), np.asarray(gold, dtype=float)  # (rows,) each
    if np.isnan(left).any() or np.isnan(right).any():
        return np.full(draws, math.nan)
    groups = [np.unique(side, return_inverse=True)[1] for side in (left, right)]  # (rows,) each
    found = [_spearman(places, *groups) for places in resamples(len(left), draws, seed)]
    return np.concatenate(found)


def _spearman(places: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Pearson's correlation of the ranks of drawn rows, ``(draws,)``.

    Args:
        places: of the rows, ``(draws, rows)``.
        left: number of the distinct value of each row, in ascending order, ``(rows,)``.
        right: the same of the other side.
    """
    first, first_square = _ranks(left[places], int(left.max()) + 1)  # (draws, rows) and (draws,)
    second, second_square = _ranks(right[places], int(right.max()) + 1)
    product = np.einsum("dr,dr->d", first, second)  # (draws,)
    with np.errstate(invalid="ignore"):  # 0 / 0 of a constant side is the NaN that is wanted
        return product / np.sqrt(first_square * second_square)


def _ranks(groups: np.ndarray, many: int) -> tuple[np.ndarray, np.ndarray]:
    """Average ranks less their mean, ``(draws, rows)``, and the sum of their squares, ``(draws,)``.

    Args:
        groups: number of the distinct value of each drawn row, ``(draws, rows)``.
        many: how many such numbers there are.
    """
    draws, rows = groups.shape
    flat = groups + many * np.arange(draws)[:, None]  # (draws, rows): no two draws share a number
    counts = np.bincount(flat.ravel(), minlength=draws * many).reshape(draws, many)
    # The mean rank is (rows + 1) / 2, so that the halves of both cancel.
    ranks = np.cumsum(counts, axis=1) - counts / 2 - rows / 2  # (draws, many)
    squares = np.einsum("dg,dg,dg->d", counts, ranks, ranks)  # (draws,)
    return ranks.ravel()[flat], squares


def interval(draws: np.ndarray) -> tuple[float, float]:
    """The 2.5 and 97.5 percentiles of a score over resamples: the ends of its 95 % interval.

    Resamples where the score is undefined (NaN) are left out; both ends are NaN where they are 5 % or more.

    Args:
        draws: the score of each resample, ``(draws,)``.
    """
    defined = draws[~np.isnan(draws)]  # (defined draws,)
    if len(draws) - len(defined) >= _UNDEFINED_SHARE * len(draws):
        return math.nan, math.nan
    low, high = np.percentile(defined, [2.5, 97.5])
    return float(low), float(high)


def mean_interval(
    values: np.ndarray, *, draws: int = 1000, seed: int | Sequence[int] = 0
) -> tuple[float, float]:
    """The ends of the 95 % interval of a mean, in the unit of the values; NaN where there are none.

    Args:
        values: ``(rows,)``.
        draws: how many resamples.
        seed: see `resamples`.
    """
    if len(values) == 0:
        return math.nan, math.nan
    return interval(mean_draws(values, draws=draws, seed=seed))
