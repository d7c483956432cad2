"""Order the angles of pairs that label and score order alike."""

from collections.abc import Collection
from typing import Literal

import torch
from torch import Tensor, nn

from embedrun.loss.cosine import angle
from embedrun.loss.ordered_pairs import WATCHED, log_sum_over_ordered_pairs, shares_of_pairs
from embedrun.loss.terms import nothing_to_order, pairs_of_rows, require_scale

Gate = Literal["both", "label", "score"]


class GatedAngular(nn.Module):
    r"""Penalise every two pairs whose angles contradict both their NLI labels and their scores.

    With the angle :math:`\theta_i` between the two texts of pair *i*, in radians, its NLI label :math:`l_i`
    (0 entailment, 1 neutral, 2 contradiction) and its score :math:`s_i`,

    .. math:: L = \log\bigl(1 + \sum_{l_i > l_j,\ s_i < s_j} e^{a (\theta_j - \theta_i)}\bigr)

    Where label and score disagree, two pairs are not compared.

    Source: Zhou, Huang and Miao (RAOE), Sec. 3.2.2, Eq. 3; the paper has a = 20. `gate="label"` and
    `gate="score"` keep one condition of the two: the rows of Table 8. For `label` the released loss file
    has the same formula; for `score` nothing is released. Departure from that file: it clamps the cosine at
    0.999999 before arccos, which is 1 in half precision, where the gradient is not a number; here the angle
    is computed without a clamp, see :func:`~embedrun.loss.cosine.angle`.

    Relation: :class:`~embedrun.loss.rank_margin.RankMargin` orders cosines, by score alone.

    Args:
        scale: a above, per radian, >= 1.
        gate: which conditions two pairs must meet: `both`, `label` or `score`.

    Raises:
        ValueError: if an option is out of range.
    """

    def __init__(self, *, scale: float = 20.0, gate: Gate = "both") -> None:
        super().__init__()
        require_scale("GatedAngular", scale)
        self.scale = scale
        self.gate: Gate = gate
        self.requires = {"both": ("label", "score"), "label": ("label",), "score": ("score",)}[gate]

    def forward(
        self, left: Tensor, right: Tensor, label: Tensor | None = None, score: Tensor | None = None
    ) -> Tensor:
        """Return the scalar loss; 0 where no two pairs are compared.

        Args:
            left: first text of each pair, ``(pairs, dim)``; need not be unit length.
            right: second text of each pair, ``(pairs, dim)``.
            label: ``(pairs,)``, larger is less similar; not read with ``gate="score"``.
            score: similarity, ``(pairs,)``, any scale; not read with ``gate="label"``.
        """
        value = self.scale * angle(left, right)  # (pairs,)
        if self.gate == "label":
            assert label is not None
            return log_sum_over_ordered_pairs(value, label)
        assert score is not None
        # The larger score, the smaller angle.
        return log_sum_over_ordered_pairs(-value, score, level=label if self.gate == "both" else None)

    def comparisons(
        self, left: Tensor, right: Tensor, label: Tensor | None = None, score: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Shares of active and of violated comparisons, among the first rows."""
        value = angle(left[:WATCHED], right[:WATCHED])  # (watched,)
        ordered = torch.ones(len(value), len(value), dtype=torch.bool, device=value.device)
        if label is not None and self.gate != "score":
            ordered = ordered & (label[:WATCHED, None] > label[None, :WATCHED])  # (watched, watched)
        if score is not None and self.gate != "label":
            ordered = ordered & (score[:WATCHED, None] < score[None, :WATCHED])  # (watched, watched)
        return shares_of_pairs(value, ordered)

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        which = {"label": "unequal label", "score": "unequal score"}.get(
            self.gate, "unequal label and score, in like order"
        )
        return pairs_of_rows(rows, f"of {which}")

    def idle(self, rows: int, label: Tensor | None = None, score: Tensor | None = None) -> str | None:
        """Why no batch of this many rows can have a comparison, or None."""
        if self.gate != "score" and label is not None and len(label.unique()) < 2:
            return (
                f"all training rows have the label {int(label[0])}, and the gate compares rows of different "
                "labels; keep more labels (dataset.labels) or use gate=score"
            )
        few = nothing_to_order(rows, score if self.gate != "label" else None)
        if few or self.gate != "both" or label is None or score is None or _agree(label, score):
            return few
        return "no two training rows have labels and scores that agree; are two of the labels swapped?"


def _agree(label: Tensor, score: Tensor) -> bool:
    """Whether any row has a larger label and a smaller score than another."""
    levels = [score[label == level] for level in label.unique()]  # by rising label
    highest = [float(level.max()) for level in levels]
    return any(float(level.min()) < max(highest[:place]) for place, level in enumerate(levels) if place)
