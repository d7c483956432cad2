"""Pairs with a score and an NLI label: which of the two a model follows where they disagree."""

from itertools import combinations

import numpy as np

from embedrun.rows import Rows

METRICS = ("conflicting", "agreeing")
_BLOCK = 512  # rows of the first label at a time


def metrics_of(rows: Rows) -> tuple[str, ...]:
    """`METRICS` for rows with the three NLI labels and scores of more than two values, else none."""
    label, score = (rows.targets.get(name, np.zeros(0)) for name in ("label", "score"))  # (rows,) each
    return METRICS if len(np.unique(label)) == 3 and len(np.unique(score)) > 2 else ()


def scored(rows: Rows, predicted: np.ndarray) -> dict[str, float]:
    r"""`conflicting` and `agreeing`, × 100; none of rows that do not have both, or if a cosine is not finite.

    Of all pairs of rows *i*, *j* with labels :math:`l_i < l_j` (*i* is the more similar one by its label),

    .. math::
        \text{conflicting} = P(c_i < c_j \mid s_i < s_j) \qquad
        \text{agreeing} = P(c_i > c_j \mid s_i > s_j)

    with the scores *s* and the cosines *c*; equal cosines count half. So `conflicting` is how often a model
    follows the score against the label, and `agreeing` how often it follows both. NaN where there is no such
    pair of rows. RAOE's gate compares the second kind alone (Zhou, Huang and Miao, Sec. 3.2.2); the paper
    has no such number.

    `predicted` are cosines, ``(rows,)``.
    """
    if not metrics_of(rows) or not np.isfinite(predicted).all():
        return {}
    label, score = rows.targets["label"], rows.targets["score"]  # (rows,) each
    right, count = np.zeros(2), np.zeros(2)  # by metric
    for better, worse in combinations(np.unique(label), 2):
        low = label == worse  # (rows,)
        for places in np.array_split(np.flatnonzero(label == better), -(-len(label) // _BLOCK)):
            by_score = np.sign(score[places, None] - score[low])  # (block, rows of the worse label)
            by_cosine = np.sign(predicted[places, None] - predicted[low])  # the same
            for place, sign in enumerate((-1, 1)):
                compared = by_score == sign
                right[place] += (1 + sign * by_cosine[compared]).sum() / 2
                count[place] += compared.sum()
    with np.errstate(invalid="ignore"):
        shares = 100 * right / count
    return dict(zip(METRICS, map(float, shares), strict=True))
