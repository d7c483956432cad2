"""Terms that order a value of each pair as the scores of the pairs are ordered."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn

from embedrun.loss.ordered_pairs import WATCHED, log_sum_over_ordered_pairs, shares_of_pairs
from embedrun.loss.terms import nothing_to_order, pairs_of_rows, require_positive


class OrdersByScore(nn.Module, ABC):
    r"""Penalise every two pairs whose values contradict the order of their scores.

    With a value :math:`v` of each pair and its score :math:`y`,

    .. math:: L = \log\bigl(1 + \sum_{y_i > y_j} e^{(v_j - v_i)/\tau}\bigr)

    Rows without a score are triplets: each anchor with its positive has score 1, and with each of its hard
    negatives 0, as AnglE's library does it (Li and Li 2024; `DatasetFormats.B` of angle_emb 0.5.6).
    """

    one_of = ("score", "negative")

    def __init__(self, *, temperature: float) -> None:
        super().__init__()
        require_positive(type(self).__name__, "temperature", temperature)
        self.temperature = temperature

    @abstractmethod
    def value(self, left: Tensor, right: Tensor) -> Tensor:
        """What should be large for similar texts, ``(pairs,)``, of vectors ``(pairs, dim)``."""

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
            left: first text of each pair, or the anchor, ``(rows, dim)``; need not be unit length.
            right: second text, or the positive, ``(rows, dim)``. :class:`~embedrun.loss.angle.Angle` with
                `delta: sum` tells the two apart.
            score: similarity, ``(rows,)``, any scale; only the order matters. None: of triplets.
            negative: hard negative of each anchor, ``(rows, dim)``; or None.
            hard_negatives: how many of several each row has, int64, ``(rows,)``; None: all.
            negatives: several hard negatives, ``(rows, dim)`` each.
        """
        hard = [*([] if negative is None else [negative]), *negatives.values()]
        left, right, score = _pairs(left, right, score, hard, hard_negatives)
        return log_sum_over_ordered_pairs(self.value(left, right) / self.temperature, score)

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
        hard = [*([] if negative is None else [negative]), *negatives.values()]
        rows = WATCHED if score is not None else WATCHED // (1 + len(hard))  # which give as many pairs
        first = None if score is None else score[:rows]
        numbers = None if hard_negatives is None else hard_negatives[:rows]
        left, right, score = _pairs(left[:rows], right[:rows], first, [one[:rows] for one in hard], numbers)
        return shares_of_pairs(self.value(left, right), score[:, None] > score[None, :])

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return pairs_of_rows(rows, "of unequal score")

    def idle(self, rows: int, score: Tensor | None = None) -> str | None:
        """Why no batch of this many rows can have a comparison, or None."""
        return nothing_to_order(rows, score)


def _pairs(
    left: Tensor, right: Tensor, score: Tensor | None, negatives: Sequence[Tensor], numbers: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs with a score, ``(pairs, dim)`` twice and ``(pairs,)``; `numbers` are a row's negatives."""
    if score is not None:
        return left, right, score
    pairs, scores = [(left, right)], [left.new_ones(len(left))]
    for place, negative in enumerate(negatives):
        is_there = slice(None) if numbers is None else numbers > place  # (rows,)
        pairs.append((left[is_there], negative[is_there]))
        scores.append(left.new_zeros(len(pairs[-1][0])))
    first, second = (torch.cat(side) for side in zip(*pairs, strict=True))
    return first, second, torch.cat(scores)
