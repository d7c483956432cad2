"""Tell a text's partner from the partners, and the hard negatives, of the batch."""

from collections.abc import Collection

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embedrun.loss.cosine import cosines, require_pairs
from embedrun.loss.ordered_pairs import WATCHED
from embedrun.loss.terms import negatives, require_positive

CONTRADICTION = 2  # NLI label


class Infonce(nn.Module):
    r"""Cross-entropy of finding :math:`x_i^+` for :math:`x_i` among all positives and all hard negatives.

    .. math:: L_i = -\log \frac{e^{\cos(x_i, x_i^+)/\tau}}
              {\sum_j e^{\cos(x_i, x_j^+)/\tau} + \sum_j e^{\cos(x_i, x_j^-)/\tau}}

    and the loss is the mean over the batch. Without hard negatives :math:`x^-` the second sum is empty.

    Source: Gao et al. 2021 (SimCSE), doi:10.18653/v1/2021.emnlp-main.552: Eq. 5 with hard negatives
    (supervised; premise, entailment, contradiction); Eq. 4 without, on two passes of one sentence with
    different dropout (unsupervised; `views: {left: text, right: {view: text, draw: 1}}`). Its published code
    can add a weight to the own hard negative, which the paper's results do not use; it is not here.

    Relation: :class:`~embedrun.loss.in_batch_negatives.InBatchNegatives` takes pairs of any score and both
    texts of a pair as anchors.

    Args:
        temperature: τ above, unitless, > 0.

    Raises:
        ValueError: if ``temperature`` is not positive.
    """

    def __init__(self, *, temperature: float = 0.05) -> None:
        super().__init__()
        require_positive("Infonce", "temperature", temperature)
        self.temperature = temperature

    def forward(self, left: Tensor, right: Tensor, negative: Tensor | None = None) -> Tensor:
        """Return the scalar loss; 0 for a single row without a hard negative.

        Args:
            left: anchor of each row, ``(rows, dim)``; need not be unit length.
            right: its positive, ``(rows, dim)``.
            negative: its hard negative, ``(rows, dim)``, one more candidate for every anchor; or None.
        """
        own = torch.arange(len(left), device=left.device)  # (rows,)
        return cross_entropy(self._similarities(left, right, negative) / self.temperature, own)

    def comparisons(
        self, left: Tensor, right: Tensor, negative: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Shares of anchors with a negative, and of their negatives that are nearer than the positive."""
        watched = (None if view is None else view[:WATCHED] for view in (left, right, negative))
        similarities = self._similarities(*watched)  # type: ignore[arg-type]  # (watched, candidates)
        rows, candidates = similarities.shape
        nearer = similarities > similarities.diagonal()[:, None]  # (watched, candidates)
        active = similarities.new_full((), float(candidates > 1))
        return active, nearer.sum() / max(rows * (candidates - 1), 1)

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        if "negative" not in views:
            return negatives(rows - 1, "the positives of other rows")
        return negatives(2 * rows - 1, f"{rows - 1:,} positives of other rows, {rows:,} hard negatives")

    def idle(self, rows: int, negative: bool = False, label: Tensor | None = None) -> str | None:
        """Why no batch of this many rows can have a comparison, or why rows are no positives, or None."""
        if label is not None and (label == CONTRADICTION).any():
            return (
                "it takes every row for a positive, and some are labelled contradiction; choose "
                "dataset=nli_triplet, loss=simcse_three_way, or rows of entailment alone"
            )
        if rows < 2 and not negative:
            return "a batch of one row has no negatives; raise training.batch_size"
        return None

    def _similarities(self, left: Tensor, right: Tensor, negative: Tensor | None) -> Tensor:
        """Cosine of each anchor with each candidate, ``(rows, candidates)``; its own comes in its place."""
        require_pairs(left, right)
        return cosines(left, right if negative is None else torch.cat((right, negative)))
