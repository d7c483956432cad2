"""Spearman's and Pearson's correlation between cosine similarity and gold scores."""

import math
from collections.abc import Sequence

import numpy as np
from torch.nn.functional import cosine_similarity

from embedrun.evaluation.source import Encode


def spearman(predicted: Sequence[float] | np.ndarray, gold: Sequence[float] | np.ndarray) -> float:
    """Spearman's rank correlation in [-1, 1], tied values sharing their average rank.

    Returns NaN where it is undefined: fewer than two values, or one side constant. Callers report
    that as missing, never as 0 and never as a best score.

    Args:
        predicted: one number for each pair, any scale.
        gold: the human score of each, any scale.

    Raises:
        ValueError: if the two differ in length.
    """
    if len(predicted) != len(gold):
        raise ValueError(
            f"spearman: one gold score for each prediction, got {len(predicted)} and {len(gold)}"
        )
    if len(gold) < 2 or np.ptp(predicted) == 0 or np.ptp(gold) == 0:
        return math.nan
    from scipy.stats import spearmanr  # here, because it takes most of a second to import

    return float(spearmanr(predicted, gold).statistic)  # type: ignore[attr-defined]


def pearson(predicted: Sequence[float] | np.ndarray, gold: Sequence[float] | np.ndarray) -> float:
    """Pearson's correlation in [-1, 1], in float64; NaN where it is undefined, as for `spearman`.

    Args:
        predicted: one number for each pair, any scale.
        gold: the human score of each, any scale.

    Raises:
        ValueError: if the two differ in length.
    """
    if len(predicted) != len(gold):
        raise ValueError(f"pearson: one gold score for each prediction, got {len(predicted)} and {len(gold)}")
    if len(gold) < 2 or np.ptp(predicted) == 0 or np.ptp(gold) == 0:
        return math.nan
    left, right = (np.asarray(side, dtype=np.float64) for side in (predicted, gold))  # (pairs,) each
    left, right = left - left.mean(), right - right.mean()
    return float(left @ right / math.sqrt(float(left @ left) * float(right @ right)))


def cosines(encode: Encode, first: list[str], second: list[str]) -> np.ndarray:
    """Cosine of each pair, float64, ``(pairs,)``; 0 where a vector is zero."""
    left, right = encode(first), encode(second)  # (pairs, dim) each
    return cosine_similarity(left, right, dim=-1).double().numpy()
