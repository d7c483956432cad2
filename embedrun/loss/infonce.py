"""Tell a text's partner from the partners, and the hard negatives, of the batch."""

from collections.abc import Collection
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embedrun.loss.cosine import cosines, require_pairs
from embedrun.loss.ordered_pairs import WATCHED
from embedrun.loss.terms import negatives, require_positive, require_shape
from embedrun.rows import numbered_negatives

CONTRADICTION = 2  # NLI label


class Infonce(nn.Module):
    r"""Cross-entropy of finding :math:`x_i^+` for :math:`x_i` among all positives and all hard negatives.

    .. math:: L_i = -\log \frac{e^{\cos(x_i, x_i^+)/\tau}}
              {\sum_j e^{\cos(x_i, x_j^+)/\tau} + \sum_j \sum_k e^{\cos(x_i, x_{jk}^-)/\tau}}

    and the loss is the mean over the batch. A row has any number of hard negatives :math:`x_{jk}^-`; without
    any, the second sum is empty. Rows may differ in that number: what a row lacks is no candidate. With
    `direction: positive` each positive finds its anchor among those of the batch, without hard negatives;
    `both` is the mean of the two directions.

    `mask` takes what is probably a false negative out of the candidates: another row's positive, or a hard
    negative, whose cosine with the anchor is above that of its own positive less `margin`. The cosines are
    the student's, or with `teacher: true` the mean of the teachers', by which positives of other rows alone
    are masked.

    Source: Gao et al. 2021 (SimCSE), doi:10.18653/v1/2021.emnlp-main.552: Eq. 5 with one hard negative a row
    (supervised; premise, entailment, contradiction); Eq. 4 without, on two passes of one sentence with
    different dropout (unsupervised; `views: {left: text, right: {view: text, draw: 1}}`). Its published code
    can add a weight to the own hard negative, which the paper's results do not use; it is not here.

    The mask is that of Solatorio 2024 (GISTEmbed), arXiv:2402.16829, Sec. 3.1, for pairs of anchor and
    candidate.

    Relation: it is sentence-transformers' `MultipleNegativesRankingLoss` with a `scale` of 1/τ, several hard
    negatives included. :class:`~embedrun.loss.in_batch_negatives.InBatchNegatives` takes pairs of any score
    and both texts of a pair as anchors.

    Args:
        temperature: τ above, unitless, > 0.
        direction: `anchor`, `positive` or `both`.
        mask: `{margin: 0.05, teacher: false}`: cosine, >= 0, and whether the teachers' counts; null: no mask.

    Raises:
        ValueError: if ``temperature`` is not positive, or ``mask`` has other options.
    """

    pulled = ("left", "right")

    def __init__(
        self,
        *,
        temperature: float = 0.05,
        direction: Literal["anchor", "positive", "both"] = "anchor",
        mask: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        require_positive("Infonce", "temperature", temperature)
        self.temperature, self.direction = temperature, direction
        options = {"margin": 0.05, "teacher": False} | (mask or {})
        self.margin, teacher = options["margin"], bool(options["teacher"])
        if len(options) > 2 or isinstance(self.margin, bool) or not 0 <= float(self.margin) <= 2:
            raise ValueError(f"Infonce: mask takes margin, 0 to 2, and teacher, true or false; got {mask}")
        self.masks = mask is not None
        guides = ("left_teacher", "right_teacher")
        self.requires, self.unused = (guides, ()) if teacher else ((), guides)

    def forward(
        self,
        left: Tensor,
        right: Tensor,
        negative: Tensor | None = None,
        hard_negatives: Tensor | None = None,
        left_teacher: Tensor | None = None,
        right_teacher: Tensor | None = None,
        **negatives: Tensor,
    ) -> Tensor:
        """Return the scalar loss; 0 for a single row without a hard negative.

        Args:
            left: anchor of each row, ``(rows, dim)``; need not be unit length.
            right: its positive, ``(rows, dim)``.
            negative: its hard negative, ``(rows, dim)``, one more candidate for every anchor; or None.
            hard_negatives: how many of them each row has, the first ones, int64, ``(rows,)``; None: all.
            left_teacher: the teachers' vectors of the anchors, ``(rows, teachers, widest)``; for the mask.
            right_teacher: the same of the positives, in the same form.
            negatives: its hard negatives where it has several, ``(rows, dim)`` each.
        """
        target = torch.arange(len(left), device=left.device)  # (rows,)
        hard = _given(negative, *negatives.values())
        cosine = self._similarities(left, right, *hard)  # (rows, candidates)
        logits = cosine / self.temperature  # (rows, candidates)
        if self.masks or hard_negatives is not None:
            allowed = self._allowed(cosine, hard_negatives, left_teacher, right_teacher)
            logits = logits.masked_fill(~allowed, -torch.inf)  # (rows, candidates)
        losses = []
        if self.direction != "positive":
            losses.append(cross_entropy(logits, target))
        if self.direction != "anchor":
            losses.append(cross_entropy(logits[:, : len(left)].T, target))
        return torch.stack(losses).mean()

    def _allowed(
        self, cosine: Tensor, numbers: Tensor | None, left: Tensor | None, right: Tensor | None
    ) -> Tensor:
        """Which candidates each anchor has, ``(rows, candidates)``; `left` and `right` are the teachers'."""
        rows, candidates = cosine.shape
        there = _there(rows, candidates // max(rows, 1) - 1, numbers)  # (candidates,)
        allowed = cosine.new_ones(rows, candidates, dtype=torch.bool)  # (rows, candidates)
        if there is not None:
            allowed &= there
        if self.masks:
            guide = cosine.detach()  # (rows, candidates)
            if left is not None and right is not None:
                require_shape("Infonce", "left_teacher", left, rows, None, None)
                require_shape("Infonce", "right_teacher", right, *left.shape)
                each = [cosines(left[:, place], right[:, place]) for place in range(left.shape[1])]
                guide = torch.stack(each).mean(dim=0)  # (rows, rows)
            is_false = guide > guide.diagonal()[:, None] - self.margin  # (rows, rows or candidates)
            is_false[:, :rows].fill_diagonal_(False)
            allowed[:, : guide.shape[1]] &= ~is_false
        return allowed

    def comparisons(
        self,
        left: Tensor,
        right: Tensor,
        negative: Tensor | None = None,
        hard_negatives: Tensor | None = None,
        left_teacher: Tensor | None = None,
        right_teacher: Tensor | None = None,
        **negatives: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Shares of anchors with a negative, and of their negatives that are nearer than the positive."""
        watched = [view[:WATCHED] for view in _given(left, right, negative, *negatives.values())]
        numbers = None if hard_negatives is None else hard_negatives[:WATCHED]
        there = _there(len(watched[0]), len(watched) - 2, numbers)  # (candidates,)
        similarities = self._similarities(*watched)  # (watched, candidates)
        if there is not None:
            similarities = similarities[:, there]  # positives come first and are all there
        rows, candidates = similarities.shape
        nearer = similarities > similarities.diagonal()[:, None]  # (watched, candidates)
        active = similarities.new_full((), float(candidates > 1))
        return active, nearer.sum() / max(rows * (candidates - 1), 1)

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        hard = rows * (len(numbered_negatives(views)) + ("negative" in views))
        if not hard:
            return negatives(rows - 1, "the positives of other rows")
        return negatives(rows - 1 + hard, f"{rows - 1:,} positives of other rows, {hard:,} hard negatives")

    def idle(
        self, rows: int, negative: bool = False, negative_1: bool = False, label: Tensor | None = None
    ) -> str | None:
        """Why no batch of this many rows can have a comparison, or why rows are no positives, or None."""
        if label is not None and (label == CONTRADICTION).any():
            return (
                "it takes every row for a positive, and some are labelled contradiction; choose "
                "dataset=nli_triplet, loss=simcse_by_label, or rows of entailment alone"
            )
        if rows < 2 and not negative and not negative_1:
            return "a batch of one row has no negatives; raise training.batch_size"
        return None

    def _similarities(self, left: Tensor, right: Tensor, *hard: Tensor) -> Tensor:
        """Cosine of each anchor with each candidate, ``(rows, candidates)``; its own comes in its place."""
        require_pairs(left, right)
        return cosines(left, right, *hard)


def _there(rows: int, hard: int, numbers: Tensor | None) -> Tensor | None:
    """Which candidates a batch has, bool, ``(candidates,)``: all positives, then view by view; None: all.

    `hard` is the number of the views of hard negatives, `numbers` how many of them each row has, ``(rows,)``.
    """
    if numbers is None:
        return None
    require_shape("Infonce", "hard_negatives", numbers, rows)
    views = [numbers > place for place in range(hard)]  # (rows,) each
    return torch.cat([torch.ones(rows, dtype=torch.bool, device=numbers.device), *views])


def _given(*views: Tensor | None) -> list[Tensor]:
    return [view for view in views if view is not None]
