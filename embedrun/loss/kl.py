"""Learn a teacher's preference among the texts of each row."""

from collections.abc import Collection

from torch import Tensor, nn

from embedrun.loss.lists import Similarity, require_scores, similarities
from embedrun.loss.terms import ALONE, require_positive


class Kl(nn.Module):
    r"""Kullback-Leibler divergence of the student's distribution over a row's texts from the teacher's.

    With :math:`p_i = \mathrm{softmax}(t_i / \tau_T)` of the teacher's scores of a row's positive and hard
    negatives, and :math:`q_i = \mathrm{softmax}(s_i / \tau)` of the similarities,

    .. math:: L = \frac1n \sum_i \sum_k p_{ik} (\log p_{ik} - \log q_{ik})

    Source: Hinton et al. 2015 (distillation), arXiv:1503.02531, Sec. 2, over the texts of a query. Departure:
    no factor τ². Where that is 1, it is sentence-transformers' `DistillKLDivLoss`, by dot products.

    Args:
        temperature: τ above, unitless, > 0.
        teacher_temperature: :math:`\tau_T`, in units of the scores, > 0.
        similarity: `cosine` or `dot`.

    Raises:
        ValueError: if a temperature is not positive.
    """

    def __init__(
        self,
        *,
        temperature: float = 0.05,
        teacher_temperature: float = 1.0,
        similarity: Similarity = "cosine",
    ) -> None:
        super().__init__()
        require_positive("Kl", "temperature", temperature)
        require_positive("Kl", "teacher_temperature", teacher_temperature)
        self.temperature, self.teacher_temperature = temperature, teacher_temperature
        self.similarity: Similarity = similarity

    def forward(
        self, left: Tensor, right: Tensor, scores: Tensor, negative: Tensor | None = None, **negatives: Tensor
    ) -> Tensor:
        """Return the scalar loss; 0 without a hard negative.

        Args:
            left: anchor of each row, ``(rows, dim)``.
            right: its positive, ``(rows, dim)``.
            scores: the teacher's score of the positive and of each hard negative, ``(rows, 1 + negatives)``;
                NaN where a row has fewer.
            negative: its hard negative, ``(rows, dim)``; or None.
            negatives: the same where rows have several, ``(rows, dim)`` each.
        """
        hard = [*([] if negative is None else [negative]), *negatives.values()]
        student = similarities(left, [right, *hard], self.similarity) / self.temperature
        teacher = require_scores("Kl", scores, student)  # (rows, 1 + negatives)
        is_there = teacher.isfinite()  # (rows, 1 + negatives)
        # The least number is no candidate; infinity times 0 would be no number.
        lowest = -1e30
        p = (teacher / self.teacher_temperature).masked_fill(~is_there, lowest).log_softmax(dim=1)
        q = student.masked_fill(~is_there, lowest).log_softmax(dim=1)  # (rows, 1 + negatives)
        return (p.exp() * (p - q)).masked_fill(~is_there, 0).sum(dim=1).mean()

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return ALONE
