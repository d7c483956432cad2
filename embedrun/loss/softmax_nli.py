"""Classify sentence pairs into entailment, neutral and contradiction."""

from collections.abc import Collection

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embedrun.loss.terms import ALONE

CLASSES = 3


class SoftmaxNli(nn.Module):
    r"""Cross-entropy of a linear classifier on the two vectors of a pair and their difference.

    .. math:: L = -\log \mathrm{softmax}\bigl(W\,[u;\ v;\ |u - v|] + b\bigr)_l

    averaged over the batch. The classifier is trained with the encoder and is no part of the saved model.

    Source: Reimers and Gurevych 2019 (SBERT), doi:10.18653/v1/D19-1410, Sec. 3, classification objective.
    The paper writes no bias *b*; its released code has one. Vectors are not scaled to length 1.

    Args:
        dim: length of a sentence vector; given by the run, not by a configuration.
    """

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(3 * dim, CLASSES)

    def forward(self, left: Tensor, right: Tensor, label: Tensor) -> Tensor:
        """Return the scalar loss.

        Args:
            left: first text of each pair, ``(pairs, dim)``.
            right: second text of each pair, ``(pairs, dim)``.
            label: int64, ``(pairs,)``: 0 entailment, 1 neutral, 2 contradiction.
        """
        with torch.autocast(left.device.type, enabled=False):
            weight = self.classifier.weight
            left, right = left.to(weight.dtype), right.to(weight.dtype)
            features = torch.cat((left, right, (left - right).abs()), dim=1)  # (pairs, 3 * dim)
            return cross_entropy(self.classifier(features), label)

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return ALONE

    def idle(self, rows: int, label: Tensor | None = None) -> str | None:
        """Why no batch can teach anything, or None."""
        if label is not None and len(label.unique()) < 2:
            return (
                f"all training rows have the label {int(label[0])}, so there is nothing to tell apart; "
                "keep more labels (dataset.labels)"
            )
        return None
