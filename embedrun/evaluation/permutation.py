"""Two models whose predictions change places, row by row, with probability 1/2: the paired permutation test.

If the models are no different, that changes nothing but by chance. Source: Fisher 1935, The Design of
Experiments; Noreen 1989, Computer-Intensive Methods for Testing Hypotheses.

Departure: before they change places, the scores of a correlation become ranks among the model's own
scores, since the cosines of two models need not lie in one range. Of the mixed ranks Pearson's correlation
is taken; where nothing has changed places, that is Spearman's.
"""

from collections.abc import Sequence

import numpy as np

_BLOCK = 2**18  # rows at a time that do or do not change places, 2 MB


def swapped_mean(gained: np.ndarray, swaps: int, seed: int | Sequence[int]) -> np.ndarray:
    """The mean gain when models change places, ``(swaps,)``; only rows where one alone is right matter.

    Args:
        gained: by each row, -1, 0 or 1, ``(rows,)``.
        swaps: how many times.
        seed: of the generator.
    """
    one_right = int(np.abs(gained).sum())
    to_b = np.random.default_rng(seed).binomial(one_right, 0.5, size=swaps)  # (swaps,)
    return (2 * to_b - one_right) / len(gained)


def swapped_ranks(
    a: np.ndarray, b: np.ndarray, gold: np.ndarray, swaps: int, seed: int | Sequence[int]
) -> tuple[float, np.ndarray]:
    """The difference of the correlations as it is, and with ranks that change places, ``(swaps,)``.

    With centred ranks the sum, the sum of squares and the product with gold of a mixed column are those of
    the model's own column and what each row that has changed places adds: one matrix product for all draws.
    NaN where a column, own or mixed, is constant or holds NaN.

    Args:
        a: scores of one model, ``(rows,)``.
        b: of the other.
        gold: ``(rows,)``.
        swaps: how many times.
        seed: of the generator.
    """
    left, right, true = ranks(a), ranks(b), ranks(gold)  # (rows,) each
    gap = right - left  # (rows,)
    change = np.stack([gap, right**2 - left**2, gap * true], axis=1)  # (rows, 3)
    rows = len(gold)

    def gain(moved: np.ndarray) -> np.ndarray:
        """Of B over A, ``(n,)``, from what its rows bring to A's sums, ``(n, 3)``."""
        sums, squares, products = moved.T  # (n,) each
        # Centred ranks are whole or half: with `rows` as a factor, a variance of 0 is exactly 0.
        first = (left @ true + products) / np.sqrt(rows * (left @ left + squares) - sums**2)
        second = (right @ true - products) / np.sqrt(rows * (right @ right - squares) - sums**2)
        return (second - first) * np.sqrt(rows / (true @ true))

    generator = np.random.default_rng(seed)
    step, drawn = max(1, _BLOCK // rows), []
    for start in range(0, swaps, step):
        # A bit for each row: a byte holds those of eight.
        packed = generator.integers(256, size=(min(step, swaps - start), -(-rows // 8)), dtype=np.uint8)
        swap = np.unpackbits(packed, axis=1, count=rows)  # (some swaps, rows): 0 or 1
        drawn.append(swap.astype(float) @ change)
    with np.errstate(invalid="ignore", divide="ignore"):  # a constant side gives NaN
        return float(gain(np.zeros((1, 3)))[0]), gain(np.concatenate(drawn))


def ranks(values: np.ndarray) -> np.ndarray:
    """Average ranks less their mean, ``(rows,)``; all NaN where a value is."""
    if np.isnan(values).any():
        return np.full(len(values), np.nan)
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)  # (rows,) and (groups,)
    return (np.cumsum(counts) - (counts - 1) / 2)[group] - (len(values) + 1) / 2
