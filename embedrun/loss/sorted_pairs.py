"""One sum over pairs of rows, by sorting: O(n log n) time and O(n) memory, with its own gradient."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def log_sum_by_sorting(value: Tensor, bound: Tensor, other: Tensor, key: Tensor) -> Tensor:
    r"""The sum over every pair of a row and another row whose key lies below the row's bound.

    .. math:: S = \log \sum_{k_j < b_i} e^{o_j - v_i}
                = \log \sum_i e^{-v_i} \sum_{j:\, k_j < b_i} e^{o_j}

    Once the others are sorted by key, the inner sums are the beginnings of one running sum, so that
    no pair is ever looked at by itself. All sums are of logarithms, in float64: nothing overflows, and a
    share of :math:`e^{-500}` keeps its digits. The gradients are the shares of the pairs that a row takes
    part in, from the same running sum, forwards for :math:`v` and backwards for :math:`o`.

    Source: the identity is elementary; the running form follows from it. Checked against all pairs in
    ``tests/loss/test_sorted_pairs.py``.

    Args:
        value: :math:`v`, ``(rows,)``.
        bound: :math:`b`, ``(rows,)``, of a type that compares with ``key``.
        other: :math:`o`, ``(others,)``.
        key: :math:`k`, ``(others,)``.

    Returns:
        A scalar in float64; minus infinity, with zero gradients, where no key lies below any bound.
    """
    return _LogSumBySorting.apply(value, bound, other, key)  # type: ignore[return-value]


class _LogSumBySorting(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, bound: Tensor, other: Tensor, key: Tensor) -> Tensor:
        ctx.types = value.dtype, other.dtype
        sorted_key, order = key.sort()  # (others,) each
        below = torch.searchsorted(sorted_key, bound.contiguous())  # (rows,); others with a smaller key
        ahead = value.double().neg()  # (rows,)
        behind = other.double()[order]  # (others,)
        begun = _start(behind.logcumsumexp(dim=0))  # (others + 1,); [n] = log Σ of the first n
        parts = ahead + begun[below]  # (rows,)
        total = _log_sum(parts)
        ctx.save_for_backward(order, below, ahead, behind, parts, total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor, None]:  # type: ignore[override]
        order, below, ahead, behind, parts, total = ctx.saved_tensors
        # Without a pair the total is -inf, and so is every part: shares of nothing are zero.
        share_of_row = _share(parts, total)  # (rows,)
        # The other in place n is met by the rows that have more than n others below their bound.
        least, rank = below.sort(descending=True)  # (rows,) each
        met = _start(ahead[rank].logcumsumexp(dim=0))  # (rows + 1,)
        place = torch.arange(len(behind), device=behind.device)  # (others,)
        count = torch.searchsorted(least.flip(0), place, right=True)  # (others,); rows that do not meet it
        share_of_other = _share(behind + met[len(least) - count], total)  # (others,)
        grad_other = torch.empty_like(share_of_other)
        grad_other[order] = share_of_other * grad
        value_type, other_type = ctx.types
        return (-share_of_row * grad).to(value_type), None, grad_other.to(other_type), None


def _start(running: Tensor) -> Tensor:
    """The sum of nothing, -inf, before a running sum: ``(n,)`` to ``(n + 1,)``."""
    return torch.cat((running.new_full((1,), -torch.inf), running))


def _log_sum(parts: Tensor) -> Tensor:
    return parts.logsumexp(dim=0) if len(parts) else parts.new_full((), -torch.inf)


def _share(part: Tensor, total: Tensor) -> Tensor:
    """e^(part - total), and 0 where there is nothing to share."""
    return (part - total).exp().masked_fill(part == -torch.inf, 0)
