"""Logistic regression with an L2 penalty, solved accurately: many fits at once that share their rows."""

from itertools import repeat

import torch
from torch import Tensor

from embedrun.evaluation.classifier.blocks import Blocks
from embedrun.evaluation.classifier.quasi_newton import minimise

# Of features whose root mean square length is 1; scikit-learn stops at 1e-4, of features as they are.
_FLAT = 1e-5  # the largest gradient entry
_SHORT = 5e-4  # the next step's share of the weights
_ROUGH = 0.1  # the same, where the curvature is taken once more


class Curvatures:
    """Inverse Hessians that serve fits nearby: with a block left out, and with the next penalty.

    Args:
        blocks: the rows.
        penalties: ``(penalties,)``.
        weights: for each penalty, ``(penalties, logits, dim + 1)``; None for 0.
    """

    def __init__(self, blocks: Blocks, penalties: Tensor, weights: Tensor | None = None) -> None:
        self.inverse = []  # (logits or 1, dim + 1, dim + 1) of every second penalty
        places = range(0, len(penalties), 2)
        found = map(blocks.curvature, weights[::2]) if weights is not None else repeat(blocks.curvature())
        for place, mean in zip(places, found, strict=False):
            hessian = mean.double().clone()  # a copy: those at 0 are one
            # The intercept has no penalty; here it gets one, or its row could be all but zero.
            hessian.diagonal(dim1=1, dim2=2).add_(penalties[place] / blocks.rows)
            self.inverse.append(torch.cholesky_inverse(torch.linalg.cholesky(hessian)).to(mean.dtype))

    def times(self, penalty: Tensor, gradient: Tensor) -> Tensor:
        """The inverse Hessian of each fit's penalty times its gradient, both ``(fits, logits, dim + 1)``."""
        product = torch.empty_like(gradient)
        for place, inverse in enumerate(self.inverse):
            own = (penalty // 2 == place).nonzero()[:, 0]  # (own,)
            if len(own):
                product[own] = (gradient[own].transpose(0, 1) @ inverse).transpose(0, 1)
        return product


def fit(blocks: Blocks, penalties: Tensor) -> tuple[Tensor, Curvatures]:
    r"""One fit to all rows for each penalty.

    Each minimises

    .. math:: \frac1n \sum_{i=1}^n -\log p(y_i \mid x_i) + \frac{1}{2 C n} \lVert W \rVert^2

    over the weights and the intercepts, which have no penalty: scikit-learn's `LogisticRegression(C=C)`.

    Args:
        blocks: the rows.
        penalties: 1 / C each, of neighbours in order, ``(penalties,)``.

    Returns:
        The weights, the intercept last, ``(penalties, logits, dim + 1)``; and the curvatures near them.
    """
    weights = torch.zeros(len(penalties), blocks.logits, blocks.memory.shape[1], dtype=blocks.memory.dtype)
    nobody = torch.full_like(penalties, -1, dtype=torch.long)  # (penalties,)
    rows = torch.full_like(penalties, blocks.rows)  # (penalties,)
    curvatures = Curvatures(blocks, penalties)
    for flat, short in ((torch.inf, _ROUGH), (_FLAT, _SHORT)):
        fits = _Fits(blocks, penalties, torch.arange(len(penalties)), nobody, rows, curvatures)
        first = fits.mean_gradient(weights, blocks.gradient(weights, nobody))
        weights = fits.solve(weights, first, flat, short)
        if short == _ROUGH:
            curvatures = Curvatures(blocks, penalties, weights)
    return weights, curvatures


def fit_without(blocks: Blocks, penalties: Tensor, start: Tensor, curvatures: Curvatures) -> Tensor:
    """One fit for each penalty and block, to all rows but the block's.

    The minimum is unique: where the search begins decides only how long it takes.

    Args:
        blocks: the rows.
        penalties: 1 / C each, ``(penalties,)``.
        start: weights of each penalty, best those of all rows, ``(penalties, logits, dim + 1)``.
        curvatures: of these or of nearly these rows, for these penalties.

    Returns:
        The weights, the intercept last, ``(penalties, blocks, logits, dim + 1)``.
    """
    count = len(blocks.sizes)
    penalty = torch.arange(len(penalties)).repeat_interleave(count)  # (penalties x blocks,)
    left_out = torch.arange(count).repeat(len(penalties))  # (penalties x blocks,)
    rows = blocks.rows - blocks.sizes[left_out].to(penalties.dtype)  # (penalties x blocks,)
    fits = _Fits(blocks, penalties[penalty], penalty, left_out, rows, curvatures)
    weights = start[penalty]  # (penalties x blocks, logits, dim + 1)
    by_block = blocks.gradients(start)  # (blocks, penalties, logits, dim + 1)
    sums = (by_block.sum(0) - by_block).transpose(0, 1).reshape_as(weights)
    found = fits.solve(weights, fits.mean_gradient(weights, sums), _FLAT, _SHORT)
    return found.view(len(penalties), count, *found.shape[1:])


class _Fits:
    """Fits that are solved together.

    Args:
        blocks: the rows.
        strength: 1 / C of each, ``(fits,)``.
        penalty: which penalty of `curvatures` that is, ``(fits,)``.
        left_out: the block that it leaves out, -1 for none, ``(fits,)``.
        rows: how many rows it has, ``(fits,)``.
        curvatures: for its steps.
    """

    def __init__(
        self,
        blocks: Blocks,
        strength: Tensor,
        penalty: Tensor,
        left_out: Tensor,
        rows: Tensor,
        curvatures: Curvatures,
    ) -> None:
        self.blocks, self.curvatures = blocks, curvatures
        self.strength, self.penalty = strength, penalty
        self.left_out, self.rows = left_out, rows

    def mean_gradient(self, weights: Tensor, sums: Tensor, which: Tensor | slice = slice(None)) -> Tensor:
        """Of the objective, from the summed gradients of the rows, both ``(which, logits, dim + 1)``."""
        decay = weights * self.strength[which, None, None]
        decay[..., -1] = 0  # the intercept
        return (sums + decay) / self.rows[which, None, None]

    def solve(self, start: Tensor, first: Tensor, flat: float, short: float) -> Tensor:
        """The weights, ``(fits, logits, dim + 1)``, from those to start with and their gradient."""
        shape = start.shape[1:]

        def gradient(weights: Tensor, which: Tensor) -> Tensor:
            weights = weights.view(-1, *shape)  # (which, logits, dim + 1)
            sums = self.blocks.gradient(weights, self.left_out[which])
            return self.mean_gradient(weights, sums, which).flatten(1)

        def newton(slope: Tensor, which: Tensor) -> Tensor:
            return self.curvatures.times(self.penalty[which], slope.view(-1, *shape)).flatten(1)

        return minimise(gradient, newton, start.flatten(1), first.flatten(1), flat=flat, short=short).view_as(
            start
        )
