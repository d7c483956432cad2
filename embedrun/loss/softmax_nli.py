"""Classify sentence pairs into entailment, neutral and contradiction."""

from collections.abc import Collection

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embedrun.loss.terms import ALONE


class SoftmaxNli(nn.Module):
    r"""Cross-entropy of a linear classifier on the two vectors of a pair and their difference.

    .. math:: L = -\log \mathrm{softmax}\bigl(W\,[u;\ v;\ |u - v|] + b\bigr)_l

    averaged over the batch. The classifier is trained with the encoder and is no part of the saved model. Two
    classes can also be read from a score, above 0 or not: of MRPC, QQP and QNLI, as for the row SBERT of
    AnglE's Table 3.

    Source: Reimers and Gurevych 2019 (SBERT), doi:10.18653/v1/D19-1410, Sec. 3, classification objective.
    The paper writes no bias *b*; its released code has one. Vectors are not scaled to length 1.

    Args:
        classes: how many; 3 are the NLI labels, and rows without a label have 2, by their score.
        dim: length of a sentence vector; given by the run, not by a configuration.

    Raises:
        ValueError: if there are fewer than two classes.
    """

    one_of = ("label", "score")

    def __init__(self, *, classes: int = 3, dim: int) -> None:
        super().__init__()
        if classes < 2:
            raise ValueError(f"SoftmaxNli: classes must be at least 2, got {classes}")
        self.classes = classes
        self.requires = ("label",) if classes != 2 else ()
        self.classifier = nn.Linear(3 * dim, classes)

    def forward(
        self, left: Tensor, right: Tensor, label: Tensor | None = None, score: Tensor | None = None
    ) -> Tensor:
        """Return the scalar loss.

        Args:
            left: first text of each pair, ``(pairs, dim)``.
            right: second text of each pair, ``(pairs, dim)``.
            label: int64, ``(pairs,)``: 0 entailment, 1 neutral, 2 contradiction; of other rows any from 0.
            score: of two classes without labels, ``(pairs,)``: class 1 where it is above 0, else 0.
        """
        if label is None:
            assert score is not None, "needs asks for one of both"
            label = (score > 0).long()  # (pairs,)
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
        if label is not None and int(label.max()) >= self.classes:
            return f"a training row has the label {int(label.max())}, and classes is {self.classes}"
        if label is not None and len(label.unique()) < 2:
            return (
                f"all training rows have the label {int(label[0])}, so there is nothing to tell apart; "
                "keep more labels (dataset.labels)"
            )
        return None
