"""Pick the partner of a text out of all texts of the batch."""

from collections.abc import Collection
from typing import Literal

import torch
from torch import Tensor, nn

from embedrun.loss.cosine import cosines, normalize, require_pairs
from embedrun.loss.ordered_pairs import WATCHED
from embedrun.loss.terms import Positives, negatives, require_positive, require_shape

PositiveBy = Literal["score", "label"]
Sides = Literal["one", "two"]
Reduction = Literal["mean_all", "mean_pos_rows", "sum"]
IdenticalTexts = Literal["off", "add", "union", "mask"]

_ENTAILMENT = 0  # NLI label


class InBatchNegatives(nn.Module):
    r"""Cross-entropy of finding a text's partner among the texts of the batch.

    With cosine :math:`c`, an anchor *i* is a row, :math:`C_i` its candidates and :math:`T_{ij}` its targets,

    .. math:: L_i = -\sum_{j \in C_i} T_{ij} \log \frac{e^{c_{ij}/\tau}}{\sum_{k \in C_i} e^{c_{ik}/\tau}}

    where :math:`T_{ij}` is 1 if *j* is the partner of *i* in a positive pair, else 0. The partner in any
    other pair is one more negative. Its score or its label makes a pair positive, as `positive_by` says.

    Source: Li and Li 2024 (AnglE), Eq. 2 and the text above it. Eq. 2 as printed is `sides="one"` with
    `reduction="sum"`; AnglE's released code has `sides="two"` with `reduction="mean_all"`, the defaults.
    `mean_all` counts the rows without a target too, so the loss shrinks as negative pairs are added.
    Departure from that code: it multiplies row numbers by whole-number scores, which makes partners of
    unrelated texts when scores are other than 0 and 1; here a score is only compared with `positive_from`.

    Identical texts: `off` leaves a copy of the anchor a negative of it. `add` adds 1 to the target of every
    copy of the anchor (the paper's rule, and the code of 2023), so a partner that equals its anchor counts
    twice and a copy gives a target even to a row that had none. `union` is `add` with targets of at most 1.
    `mask` takes the copies of the anchor and of its partner out of the candidates, never the partner itself.
    With `sides="one"` all of this holds for the candidates, the second texts: `add` and `union` look for
    second texts equal to the first text of the row, `mask` takes out those equal to either text of its pair.

    Args:
        temperature: τ above, unitless, > 0.
        positive_from: pairs with this score or more are positive; in the unit of the scores.
        positive_by: `score`: as `positive_from` says. `label`: entailed pairs are positive, neutral and
            contradicting ones are not, whatever their scores, and `positive_from` is not used.
        sides: `two`: all 2N texts are anchors, each against the other 2N - 1. `one`: the N first texts are,
            each against the N second texts.
        reduction: `mean_all` over all rows, `mean_pos_rows` over the rows with a target, `sum`.
        identical_texts: what to do with texts that occur more than once in the batch.

    Raises:
        ValueError: if ``temperature`` is not positive.
    """

    def __init__(
        self,
        *,
        temperature: float = 0.05,
        positive_from: float = 0.5,
        positive_by: PositiveBy = "score",
        sides: Sides = "two",
        reduction: Reduction = "mean_all",
        identical_texts: IdenticalTexts = "mask",
    ) -> None:
        super().__init__()
        require_positive("InBatchNegatives", "temperature", temperature)
        self.temperature = temperature
        self.positive_from = positive_from
        self.positive_by: PositiveBy = positive_by
        self.requires = (positive_by,)
        self.sides: Sides = sides
        self.reduction: Reduction = reduction
        self.identical_texts: IdenticalTexts = identical_texts

    def forward(
        self,
        left: Tensor,
        right: Tensor,
        score: Tensor | None = None,
        left_identity: Tensor | None = None,
        right_identity: Tensor | None = None,
        label: Tensor | None = None,
    ) -> Tensor:
        """Return the scalar loss; 0 where no row has a target.

        Args:
            left: first text of each pair, ``(pairs, dim)``; need not be unit length.
            right: second text of each pair, ``(pairs, dim)``.
            score: similarity, ``(pairs,)``; not needed where ``positive_by`` is `label`.
            left_identity: int64, ``(pairs,)``, equal for equal texts, over both sides; not needed where
                ``identical_texts`` is `off`.
            right_identity: int64, ``(pairs,)``, likewise.
            label: 0 entailment, 1 neutral, 2 contradiction, ``(pairs,)``; needed where ``positive_by`` is
                `label`.
        """
        positive = self._positive(score, label)  # (pairs,)
        require_shape("InBatchNegatives", self.positive_by, positive, len(left))
        logits = self._similarities(left, right) / self.temperature  # (rows, candidates)
        target, excluded = self._targets(positive, left_identity, right_identity)
        log_share = logits.masked_fill(excluded, -torch.inf).log_softmax(dim=1)  # (rows, candidates)
        # 0 * -inf is NaN: what is no target must leave the product, not be multiplied by 0.
        cost = -(target * log_share.masked_fill(target == 0, 0)).sum(dim=1)  # (rows,)
        return self._reduce(cost, target)

    def comparisons(
        self,
        left: Tensor,
        right: Tensor,
        score: Tensor | None = None,
        left_identity: Tensor | None = None,
        right_identity: Tensor | None = None,
        label: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Shares of rows with a target and a negative, and of these negatives that are nearer than a target.

        Among the first rows.
        """
        left, right, positive = left[:WATCHED], right[:WATCHED], self._positive(score, label)[:WATCHED]
        identities = (None if ids is None else ids[:WATCHED] for ids in (left_identity, right_identity))
        target, excluded = self._targets(positive, *identities)
        similarities = self._similarities(left, right)  # (rows, candidates)
        farthest = similarities.masked_fill(target == 0, torch.inf).amin(dim=1)  # (rows,); inf without target
        active = (target == 0) & ~excluded & target.any(dim=1, keepdim=True)  # (rows, candidates)
        violated = (active & (similarities > farthest[:, None])).sum() / active.sum().clamp(min=1)
        return active.any(dim=1).float().mean(), violated

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        if self.sides == "two":
            return negatives(2 * rows - 2, "both texts of other rows; each text is an anchor")
        return negatives(rows - 1, "the second texts of other rows")

    def idle(self, rows: int, score: Tensor | None = None, label: Tensor | None = None) -> str | None:
        """Why no batch of this many rows can have a comparison, or None."""
        if rows < 2:
            return "a batch of one row has no negatives; raise training.batch_size"
        if self.positive_by == "label":
            none = label is not None and not (label == _ENTAILMENT).any()
            return "no training row is a positive: none is labelled entailment (0)" if none else None
        if score is not None and not (score >= self.positive_from).any():
            return (
                f"no training row is a positive: scores reach {float(score.max()):g}, and "
                f"positive_from={self.positive_from:g}; lower it"
            )
        return None

    def positives(self, score: Tensor | None = None, label: Tensor | None = None) -> Positives:
        """Which rows are positive.

        `score` and `label` are those of all training rows, ``(rows,)``; the one of `positive_by` is needed.
        """
        rule = "label is entailment" if self.positive_by == "label" else f"score >= {self.positive_from:g}"
        return Positives(int(self._positive(score, label).sum()), rule)

    def _similarities(self, left: Tensor, right: Tensor) -> Tensor:
        """Cosine of each anchor with each candidate, ``(rows, candidates)``."""
        require_pairs(left, right)
        if self.sides == "one":
            return cosines(left, right)
        with torch.autocast(left.device.type, enabled=False):
            both = torch.cat((normalize(left), normalize(right)))  # (2 * pairs, dim)
            return both @ both.T

    def _positive(self, score: Tensor | None, label: Tensor | None) -> Tensor:
        """Whether each pair is positive, bool, ``(pairs,)``."""
        if self.positive_by == "label":
            assert label is not None
            return label == _ENTAILMENT
        assert score is not None
        return score >= self.positive_from

    def _targets(
        self, positive: Tensor, left_identity: Tensor | None, right_identity: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Weight of each candidate, and what is no candidate: int64 and bool, both ``(rows, candidates)``."""
        pairs = len(positive)
        two_sided = self.sides == "two"
        itself = torch.eye(2 * pairs if two_sided else pairs, dtype=torch.bool, device=positive.device)
        # Two-sided rows are first texts, then second texts: half a turn leads to the partner.
        partner = itself.roll(pairs, dims=1) if two_sided else itself  # (rows, candidates)
        excluded = itself if two_sided else torch.zeros_like(itself)  # (rows, candidates)
        target = (partner & positive.repeat(2 if two_sided else 1)[:, None]).long()  # (rows, candidates)
        if self.identical_texts == "off":
            return target, excluded

        assert left_identity is not None
        assert right_identity is not None
        candidate = (
            torch.cat((left_identity, right_identity)) if two_sided else right_identity
        )  # (candidates,)
        anchor = candidate if two_sided else left_identity  # (rows,)
        copy = (anchor[:, None] == candidate[None, :]) & ~excluded  # (rows, candidates)
        if self.identical_texts == "add":
            return target + copy, excluded
        if self.identical_texts == "union":
            return (target + copy).clamp(max=1), excluded
        of_partner = candidate.roll(pairs) if two_sided else right_identity  # (rows,); the partner's identity
        copy_of_partner = of_partner[:, None] == candidate[None, :]  # (rows, candidates)
        return target, excluded | ((copy | copy_of_partner) & ~partner)

    def _reduce(self, cost: Tensor, target: Tensor) -> Tensor:
        """One number out of the cost of each row, ``(rows,)``."""
        if self.reduction == "sum":
            return cost.sum()
        rows = target.any(dim=1).sum() if self.reduction == "mean_pos_rows" else torch.tensor(len(cost))
        return cost.sum() / rows.clamp(min=1)
