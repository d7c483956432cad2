"""One sum over pairs of rows, by sorting: O(n log n) time and O(n) memory, with its own gradient."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from embedrun.loss.ranks import Ties, ranks_in_order, run_begins


def log_sum_by_sorting(
    value: Tensor, key: Tensor, *, interval: float = 0, ties: Ties = "min", level: Tensor | None = None
) -> Tensor:
    r"""The sum over every two rows that the ranks of their keys, and levels if there are any, put in order.

    .. math:: S = \log \sum_{r_j < r_i - I,\ g_j > g_i} e^{v_j - v_i}
                = \log \sum_i e^{-v_i} \sum_{j:\, r_j < r_i - I,\ g_j > g_i} e^{v_j}

    Sorted by key, the rows of an inner sum are the beginning of all rows, so that one running sum gives all
    inner sums and no two rows are ever compared. Levels take one running sum for each level but the highest,
    over the rows above it. The gradient of row *i* is minus its share of the pairs in which it is above,
    plus its share of those in which it is below, from running sums forwards and backwards.

    All sums are of logarithms, in float64: nothing overflows, and a share of :math:`e^{-500}` keeps its
    digits. The identity is elementary; `tests/loss/test_sorted_pairs.py` holds it against all pairs.

    Args:
        value: :math:`v`, ``(rows,)``.
        key: what *r* ranks, ``(rows,)``, any real type, no NaN.
        interval: :math:`I`, in ranks, >= 0. With 0 and any but `ordinal`, larger keys are simply above.
        ties: how equal keys are ranked, see :func:`~embedrun.loss.ranks.ranks`.
        level: :math:`g`, ``(rows,)``, any real type; None leaves out its condition.

    Returns:
        A scalar in float64; minus infinity, with zero gradients, where no two rows are in order.
    """
    return _LogSumBySorting.apply(value, key, interval, ties, level)  # type: ignore[return-value]


class _LogSumBySorting(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, value: Tensor, key: Tensor, interval: float, ties: Ties, level: Tensor | None
    ) -> Tensor:
        in_order, order = key.sort(stable=ties == "ordinal")  # (rows,) each
        below = _below(in_order, interval, ties)  # (rows,)
        value_in_order = value.double()[order]  # (rows,)
        level_in_order = None if level is None else level[order]  # (rows,)
        parts = [
            upper + _running(lower)[below] for upper, lower in _passes(value_in_order, level_in_order)
        ]  # (rows,) each
        total = torch.cat([value_in_order.new_full((1,), -torch.inf), *parts]).logsumexp(dim=0)
        ctx.type = value.dtype
        ctx.level = level_in_order
        ctx.save_for_backward(order, below, value_in_order, total, *parts)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:  # type: ignore[override]
        order, below, value, total, *parts = ctx.saved_tensors
        # `below` never falls, so the rows above the row in place n are the last ones: all but those that
        # have at most n rows below them.
        from_here = torch.bincount(below, minlength=len(value)).cumsum(dim=0)  # (rows,)
        change = torch.zeros_like(value)  # (rows,)
        for part, (upper, lower) in zip(parts, _passes(value, ctx.level), strict=True):
            above = _running(upper.flip(0)).flip(0)[from_here]  # (rows,)
            change += _share(lower + above, total) - _share(part, total)
        gradient = torch.empty_like(change)
        gradient[order] = change * grad
        return gradient.to(ctx.type), None, None, None, None


def _below(in_order: Tensor, interval: float, ties: Ties) -> Tensor:
    """How many rows are far enough below each, ``(rows,)``, int64: the first ones, keys being sorted."""
    if not interval and ties != "ordinal":
        return run_begins(in_order)
    half_ranks = (2 * ranks_in_order(in_order, ties)).long()  # (rows,); twice a rank is a whole number
    up_to = torch.bincount(half_ranks, minlength=2 * len(in_order) + 1).cumsum(dim=0)  # by half rank
    # Below n are those up to the next whole number below it; up to 0 there are none.
    # Clamped as a fraction: a huge interval is no whole number.
    nearest = (half_ranks - 2 * interval).ceil().clamp(min=1).long() - 1  # (rows,)
    return up_to[nearest]


def _passes(value: Tensor, level: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Exponents of the rows that can be above, and of those that can be below, ``(rows,)`` each."""
    if level is None:
        yield -value, value
        return
    for one in level.unique()[:-1]:
        yield (-value).masked_fill(level != one, -torch.inf), value.masked_fill(level <= one, -torch.inf)


def _running(exponents: Tensor) -> Tensor:
    """Place n has the log of the sum over the first n: ``(rows,)`` to ``(rows + 1,)``, from -inf on."""
    return torch.cat((exponents.new_full((1,), -torch.inf), exponents.logcumsumexp(dim=0)))


def _share(part: Tensor, total: Tensor) -> Tensor:
    """e^(part - total), and 0 where there is nothing to share."""
    return (part - total).exp().masked_fill(part == -torch.inf, 0)
