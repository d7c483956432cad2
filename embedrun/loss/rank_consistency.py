"""Make two passes of a sentence order the batch alike."""

import math
from collections.abc import Collection

from torch import Tensor, nn

from embedrun.loss.cosine import cosines, require_pairs
from embedrun.loss.terms import order_of_texts, require_positive


class RankConsistency(nn.Module):
    r"""Jensen-Shannon divergence of the similarity lists that two vectors of a sentence see.

    With :math:`P_i = \mathrm{softmax}_j(\cos(x_i, y_j)/\tau)`,
    :math:`Q_i = \mathrm{softmax}_j(\cos(y_i, x_j)/\tau)` and :math:`M_i = (P_i + Q_i)/2`,

    .. math:: L = \frac{1}{2n} \sum_i \bigl[\mathrm{KL}(P_i \| M_i) + \mathrm{KL}(Q_i \| M_i)\bigr]

    in nats, 0 to log 2.

    Source: Liu et al. 2023 (RankCSE), doi:10.18653/v1/2023.acl-long.771. Departure from the public
    code of it by others: that code clamps :math:`\log M` from below at 1e-7, and a log-probability is never
    above 0, so its :math:`M` is 1 and it maximises the entropy of both lists instead.

    Args:
        temperature: τ above, unitless, > 0.

    Raises:
        ValueError: if ``temperature`` is not positive.
    """

    def __init__(self, *, temperature: float = 0.05) -> None:
        super().__init__()
        require_positive("RankConsistency", "temperature", temperature)
        self.temperature = temperature

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the scalar loss; 0 where both sides are equal.

        Args:
            left: x above, ``(rows, dim)``; need not be unit length.
            right: y above, ``(rows, dim)``.
        """
        require_pairs(left, right)
        logits = cosines(left, right) / self.temperature  # (rows, rows)
        log_p, log_q = logits.log_softmax(dim=1), logits.T.log_softmax(dim=1)  # (rows, rows) each
        # Of logarithms: a probability that underflows to 0 has no logarithm, and its gradient is none.
        log_m = log_p.logaddexp(log_q) - math.log(2)  # (rows, rows)
        kl = log_p.exp() * (log_p - log_m) + log_q.exp() * (log_q - log_m)  # (rows, rows)
        return kl.sum(dim=1).mean() / 2

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return order_of_texts(rows)

    def idle(self, rows: int) -> str | None:
        """Why no batch of this many rows can differ, or None."""
        return "a batch of one row has one list of one text; raise training.batch_size" if rows < 2 else None
