"""Keep a sentence nearer to its slightly masked copy than to its more masked one."""

from collections.abc import Collection
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import relu

from embedrun.loss.cosine import cosine
from embedrun.loss.ordered_pairs import WATCHED
from embedrun.loss.terms import Pass, require_shape


class MaskedTriplet(nn.Module):
    r"""Triplet loss on a sentence :math:`s` and its copies :math:`s'` and :math:`s''`, masked more and more.

    .. math:: L = \frac1n \sum_i \max\bigl(0,\ \cos(h_i, h''_i) - \cos(h_i, h'_i) + m\bigr)

    Source: Zhang et al. 2022 (ArcCSE), Sec. 3.2, Eq. 4; the paper has m = 0, masks contiguous segments, 20 %
    and 40 % of sentences of at least 25 words, the second mask extending the first, and computes all three
    vectors without dropout, as the passes here are by default. It names no reduction; this is the mean over
    the sentences that have masked copies.

    Args:
        margin: m above, a difference of cosines, >= 0.

    Raises:
        ValueError: if ``margin`` is negative.
    """

    passes: ClassVar = {
        "text": Pass("text", dropout=False),
        "masked_once": Pass("masked_once", dropout=False),
        "masked_twice": Pass("masked_twice", dropout=False),
    }

    def __init__(self, *, margin: float = 0.0) -> None:
        super().__init__()
        if not margin >= 0:
            raise ValueError(f"MaskedTriplet: margin must be >= 0, got {margin}")
        self.margin = margin

    def forward(
        self, text: Tensor, masked_once: Tensor, masked_twice: Tensor, maskable: Tensor | None = None
    ) -> Tensor:
        """Return the scalar loss; 0 for a batch without a masked sentence.

        Args:
            text: each sentence, ``(rows, dim)``; need not be unit length.
            masked_once: its copy with the smaller mask, ``(rows, dim)``.
            masked_twice: its copy with the larger mask, ``(rows, dim)``.
            maskable: bool, ``(rows,)``: rows that have masked copies; the others are left out. None: all.
        """
        cost = relu(self._gap(text, masked_once, masked_twice))  # (rows,)
        if maskable is None:
            return cost.sum() / max(len(cost), 1)
        require_shape("MaskedTriplet", "maskable", maskable, len(cost))
        return cost.masked_fill(~maskable, 0).sum() / maskable.sum().clamp(min=1)

    def comparisons(
        self, text: Tensor, masked_once: Tensor, masked_twice: Tensor, maskable: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Shares of rows with masked copies, and of those that the margin finds in the wrong order."""
        wrong = self._gap(text[:WATCHED], masked_once[:WATCHED], masked_twice[:WATCHED]) > 0  # (watched,)
        active = wrong | ~wrong if maskable is None else maskable[:WATCHED]  # (watched,)
        return active.float().mean(), (wrong & active).sum() / active.sum().clamp(min=1)

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return "a triplet a row, of those long enough to be masked; no negatives"

    def idle(self, rows: int, maskable: Tensor | None = None) -> str | None:
        """Why no batch can have a comparison, or None."""
        if maskable is not None and not maskable.any():
            return "no training row is long enough to be masked"
        return None

    def _gap(self, text: Tensor, masked_once: Tensor, masked_twice: Tensor) -> Tensor:
        """How much nearer the second copy is than allowed, ``(rows,)``."""
        return cosine(text, masked_twice) - cosine(text, masked_once) + self.margin
