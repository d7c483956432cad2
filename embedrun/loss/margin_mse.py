"""Learn by how much a teacher prefers the positive to each hard negative."""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from embedrun.loss.lists import Similarity, require_scores, similarities
from embedrun.loss.terms import ALONE


class MarginMse(nn.Module):
    r"""Mean squared error of the student's margins, over all hard negatives of the batch.

    With similarity :math:`s` and teacher's score :math:`t` of a row's positive (0) and hard negatives,

    .. math:: L = \frac1N \sum_i \sum_{k > 0} \bigl((s_{i0} - s_{ik}) - (t_{i0} - t_{ik})\bigr)^2

    where *N* counts the hard negatives that have a score.

    Source: Hofstätter et al. 2020 (MarginMSE), arXiv:2010.02666, Eq. 1. It is sentence-transformers'
    `MarginMSELoss` with a score for each text.

    Args:
        similarity: `dot`, as there, or `cosine`, for scores from -1 to 1.
    """

    def __init__(self, *, similarity: Similarity = "dot") -> None:
        super().__init__()
        self.similarity: Similarity = similarity

    def forward(
        self, left: Tensor, right: Tensor, scores: Tensor, negative: Tensor | None = None, **negatives: Tensor
    ) -> Tensor:
        """Return the scalar loss; 0 without a hard negative.

        Args:
            left: anchor of each row, ``(rows, dim)``.
            right: its positive, ``(rows, dim)``.
            scores: the teacher's score of the positive and of each hard negative, ``(rows, 1 + negatives)``,
                any scale; NaN where a row has fewer.
            negative: its hard negative, ``(rows, dim)``; or None.
            negatives: the same where rows have several, ``(rows, dim)`` each.
        """
        hard = [*([] if negative is None else [negative]), *negatives.values()]
        student = similarities(left, [right, *hard], self.similarity)  # (rows, 1 + negatives)
        teacher = require_scores("MarginMse", scores, student)  # (rows, 1 + negatives)
        gap = (student[:, :1] - student[:, 1:]) - (teacher[:, :1] - teacher[:, 1:])  # (rows, negatives)
        is_there = teacher[:, 1:].isfinite()  # (rows, negatives)
        return torch.where(is_there, gap, 0).square().sum() / is_there.sum().clamp(min=1)

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return ALONE
