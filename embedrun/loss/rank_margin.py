"""Order the cosines of pairs whose scores are more than a few ranks apart."""

from collections.abc import Collection

from torch import Tensor, nn

from embedrun.loss.cosine import cosine
from embedrun.loss.ordered_pairs import WATCHED, Ties, log_sum_over_ordered_pairs, ranks, shares_of_pairs
from embedrun.loss.terms import nothing_to_order, pairs_of_rows, require_scale


class RankMargin(nn.Module):
    r"""Penalise every two pairs whose cosine order contradicts their score order, near ranks left out.

    With cosine :math:`c_i` of pair *i* and the rank :math:`r_i` of its score in the batch, 1 for the lowest,

    .. math:: L = \log\bigl(1 + \sum_{r_j - r_i > I} e^{a (c_i - c_j)}\bigr)

    Source: Zhou, Huang and Miao (RAOE), Sec. 3.2.1, Eq. 2; the paper has a = 20, and I = 16 for Qwen2.5-7B
    and 2 for all other encoders. The released loss has the default I = 16. Departure from the released
    code: it ranks by sorting twice, which orders equal scores by an unstable sort, so that ties of STS-B
    become comparisons in an arbitrary order; here ties share the mean of their ranks. ``ties="ordinal"``
    orders them by row, stably, which is the nearest reproducible reading of that code.

    A batch of n rows has ranks at most n - 1 apart, so it needs more than I + 1 rows.

    Relation: with ``interval=0`` it is :class:`~embedrun.loss.cosent.Cosent` with τ = 1/a.

    Args:
        interval: I above, in ranks, >= 0.
        scale: a above, unitless, >= 1; multiplies where other terms divide by a temperature.
        ties: how equal scores are ranked, see :func:`~embedrun.loss.ordered_pairs.ranks`.

    Raises:
        ValueError: if an option is out of range.
    """

    def __init__(self, *, interval: float = 2, scale: float = 20.0, ties: Ties = "average") -> None:
        super().__init__()
        if not interval >= 0:
            raise ValueError(f"RankMargin: interval must be at least 0 ranks, got {interval}")
        require_scale("RankMargin", scale)
        self.interval = interval
        self.scale = scale
        self.ties: Ties = ties

    def forward(self, left: Tensor, right: Tensor, score: Tensor) -> Tensor:
        """Return the scalar loss; 0 where no two ranks are far enough apart.

        Args:
            left: first text of each pair, ``(pairs, dim)``; need not be unit length.
            right: second text of each pair, ``(pairs, dim)``.
            score: similarity, ``(pairs,)``, any scale; only the order matters.
        """
        value = self.scale * cosine(left, right)  # (pairs,)
        return log_sum_over_ordered_pairs(value, score, interval=self.interval, ties=self.ties)

    def comparisons(self, left: Tensor, right: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
        """Shares of active and of violated comparisons, among the first rows."""
        rank = ranks(score, self.ties)[:WATCHED]  # (watched,); ranks in the whole batch
        value = cosine(left[:WATCHED], right[:WATCHED])  # (watched,)
        return shares_of_pairs(value, rank[:, None] - rank[None, :] > self.interval)

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return pairs_of_rows(rows - int(self.interval), f"more than {self.interval:g} ranks apart")

    def idle(self, rows: int, score: Tensor | None = None) -> str | None:
        """Why no batch of this many rows can have a comparison, or None."""
        if rows <= self.interval + 1:
            return (
                f"ranks in a batch of {rows} rows are at most {rows - 1} apart, never more than "
                f"interval={self.interval:g}; raise training.batch_size above {self.interval + 1:g} "
                "or lower the interval"
            )
        if score is None or self.ties == "ordinal":
            return None
        levels = len(score.unique())
        # Dense ranks are at most levels - 1 apart; average ranks of two levels always half a batch.
        apart = {"dense": levels - 1, "average": rows / 2 if levels == 2 else rows}.get(self.ties, rows)
        if levels > 1 and apart <= self.interval:
            return (
                f"with {levels} different scores, ranks of ties={self.ties} are at most {apart:g} apart, "
                f"never more than interval={self.interval:g}; lower the interval"
            )
        return nothing_to_order(rows, score)
