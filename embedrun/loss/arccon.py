"""Tell a sentence's own second vector from those of other sentences, with a margin on its angle."""

import math
from collections.abc import Collection
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embedrun.loss.cosine import angle, cosines
from embedrun.loss.ordered_pairs import WATCHED
from embedrun.loss.terms import Pass, negatives, require_positive

Negatives = Literal["first", "second", "both"]


class Arccon(nn.Module):
    r"""Additive angular margin contrast (ArcCon) of two vectors of each sentence.

    With :math:`\theta_{i,i^*}` the angle between the vectors :math:`h_i` and :math:`h_i^*` of sentence *i*,
    :math:`N_i` its negatives and *m* the margin,

    .. math:: L_i = -\log \frac{e^{\cos(\theta_{i,i^*} + m)/\tau}}
              {e^{\cos(\theta_{i,i^*} + m)/\tau} + \sum_{n \in N_i} e^{\cos\theta_{i,n}/\tau}}

    and the loss is the mean over the batch. The two vectors are two passes through the encoder with
    different dropout.

    Source: Zhang et al. 2022 (ArcCSE), Sec. 3.1, Eq. 3; the paper has m = 10 degrees and τ = 0.05. Eq. 3
    prints the negatives without the star of the positives, which leaves their view open: `second` takes the
    other sentences' :math:`h_j^*`, as SimCSE does, from which the paper descends; `first` takes
    :math:`h_j`, as printed; `both` takes both. No code of the paper is public. Departure from ArcFace's
    code, none from Eq. 3: the cosine is left as it is beyond θ + m = π, where it rises again.

    Relation: with ``margin=0`` and `second` it is :class:`~embedrun.loss.infonce.Infonce` without hard
    negatives, the NT-Xent of the paper's ablation.

    Args:
        margin: m above, in degrees, 0 to 180.
        temperature: τ above, unitless, > 0.
        negatives: `second`, `first` or `both`.

    Raises:
        ValueError: if an option is out of range.
    """

    passes: ClassVar = {"text": Pass("text"), "text_again": Pass("text", draw=1)}
    pulled = ("text", "text_again")

    def __init__(
        self, *, margin: float = 10.0, temperature: float = 0.05, negatives: Negatives = "second"
    ) -> None:
        super().__init__()
        require_positive("Arccon", "temperature", temperature)
        if not 0 <= margin <= 180:
            raise ValueError(f"Arccon: margin must be 0 to 180 degrees, got {margin}")
        self.margin = margin
        self.temperature = temperature
        self.negatives: Negatives = negatives

    def forward(self, text: Tensor, text_again: Tensor) -> Tensor:
        """Return the scalar loss; 0 for a single sentence, which has no negative.

        Args:
            text: first vector of each sentence, ``(rows, dim)``; need not be unit length.
            text_again: second vector of each sentence, ``(rows, dim)``.
        """
        positive, others = self._similarities(text, text_again)
        logits = torch.cat((positive[:, None], others), dim=1) / self.temperature  # (rows, 1 + candidates)
        return cross_entropy(logits, torch.zeros(len(positive), dtype=torch.int64, device=positive.device))

    def comparisons(self, text: Tensor, text_again: Tensor) -> tuple[Tensor, Tensor]:
        """Shares of active and of violated comparisons with a negative, among the first rows."""
        positive, others = self._similarities(text[:WATCHED], text_again[:WATCHED])
        active = others > -torch.inf  # (rows, candidates)
        violated = (others > positive[:, None]).sum() / active.sum().clamp(min=1)
        return active.any(dim=1).float().mean(), violated

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        if self.negatives == "both":
            return negatives(2 * rows - 2, "both vectors of other rows")
        return negatives(rows - 1, f"the {self.negatives} vectors of other rows")

    def idle(self, rows: int) -> str | None:
        """Why no batch of this many rows can have a comparison, or None."""
        return "a batch of one row has no negatives; raise training.batch_size" if rows < 2 else None

    def _similarities(self, text: Tensor, text_again: Tensor) -> tuple[Tensor, Tensor]:
        """Similarity to the positive, margin included, ``(rows,)``, and to each candidate; -inf for none."""
        positive = torch.cos(angle(text, text_again) + math.radians(self.margin))  # (rows,)
        views = {"first": [text], "second": [text_again], "both": [text_again, text]}[self.negatives]
        itself = torch.eye(len(text), dtype=torch.bool, device=text.device)
        others = [cosines(text, view).masked_fill(itself, -torch.inf) for view in views]  # (rows, rows) each
        return positive, torch.cat(others, dim=1)
