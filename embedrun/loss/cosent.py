"""Order the cosines of all pairs as their scores are ordered."""

from collections.abc import Collection

from torch import Tensor, nn

from embedrun.loss.cosine import cosine
from embedrun.loss.lists import as_scored_pairs, first_pairs
from embedrun.loss.ordered_pairs import log_sum_over_ordered_pairs, shares_of_pairs
from embedrun.loss.terms import nothing_to_order, pairs_of_rows, require_positive


class Cosent(nn.Module):
    r"""Penalise every two pairs whose cosine order contradicts their score order.

    With cosine :math:`c_i` and score :math:`y_i` of pair *i*,

    .. math:: L = \log\bigl(1 + \sum_{y_i > y_j} e^{(c_j - c_i)/\tau}\bigr)

    Source: Li and Li 2024 (AnglE), Eq. 1, which takes it from Su 2022 (CoSENT),
    https://kexue.fm/archives/8847. Where CoSENT's code multiplies by 20, our τ is 1/20.
    Departure from AnglE's code before release 0.6.0: scores are not truncated to whole numbers,
    which made ties of 4.8 and 4.2 and dropped the comparison.

    Relation: :class:`~embedrun.loss.angle.Angle` is the same sum over another value for each pair.

    Args:
        temperature: τ above, unitless, > 0. Smaller punishes near-ties harder.

    Raises:
        ValueError: if ``temperature`` is not positive.
    """

    def __init__(self, *, temperature: float = 0.05) -> None:
        super().__init__()
        require_positive("Cosent", "temperature", temperature)
        self.temperature = temperature

    def forward(
        self,
        left: Tensor,
        right: Tensor,
        score: Tensor | None = None,
        negative: Tensor | None = None,
        hard_negatives: Tensor | None = None,
        **negatives: Tensor,
    ) -> Tensor:
        """Return the scalar loss; 0 where no two scores differ.

        Args:
            left: first text of each pair, ``(pairs, dim)``; need not be unit length.
            right: second text of each pair, ``(pairs, dim)``.
            score: similarity, ``(pairs,)``, any scale; only the order matters. Without one, the pairs of an
                anchor with its positive and with its hard negatives are ordered (:func:`as_scored_pairs`).
            negative: hard negative of each anchor, ``(rows, dim)``; or None.
            hard_negatives: how many of several each row has, int64, ``(rows,)``; None: all.
            negatives: several hard negatives, ``(rows, dim)`` each.
        """
        hard = (negative, *negatives.values())
        left, right, score = as_scored_pairs(left, right, score, hard, hard_negatives)
        return log_sum_over_ordered_pairs(cosine(left, right) / self.temperature, score)

    def comparisons(
        self,
        left: Tensor,
        right: Tensor,
        score: Tensor | None = None,
        negative: Tensor | None = None,
        hard_negatives: Tensor | None = None,
        **negatives: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Shares of active and of violated comparisons, among the first rows."""
        hard = (negative, *negatives.values())
        left, right, score = first_pairs(left, right, score, hard, hard_negatives)
        return shares_of_pairs(cosine(left, right), score[:, None] > score[None, :])

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return pairs_of_rows(rows, "of unequal score")

    one_of = ("score", "negative")

    def idle(self, rows: int, score: Tensor | None = None) -> str | None:
        """Why no batch of this many rows can have a comparison, or None."""
        return nothing_to_order(rows, score)
