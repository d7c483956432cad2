"""The sum over ordered pairs of rows, and the ranks that order them."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

Ties = Literal["average", "min", "dense", "ordinal"]
WATCHED = 512  # rows whose pairs are counted for the shares: more would say the same and cost memory
# The logarithm of a sum over nothing. Finite: torch's gradient of logcumsumexp is not a number at -inf.
_NOTHING = -1e300


def ranks(score: Tensor, ties: Ties) -> Tensor:
    """The rank of each score, ``(rows,)``, among all, from 1 for the smallest; float64, no gradient.

    Equal scores get

    - `average`: the mean of the places that they take (1, 2.5, 2.5, 4)
    - `min`: the first of these places (1, 2, 2, 4)
    - `dense`: one rank, and the next score the next rank (1, 2, 2, 3)
    - `ordinal`: different ranks in the order of the rows (1, 2, 3, 4)

    which are the names of ``scipy.stats.rankdata``. Sorting makes it O(n log n).
    """
    in_order, order = score.detach().sort(stable=True)  # (rows,) each
    rank = _ranks_in_order(in_order, ties)  # (rows,)
    return torch.empty_like(rank).scatter_(0, order, rank)


def _ranks_in_order(score: Tensor, ties: Ties) -> Tensor:
    """The same for scores that are sorted already, ``(rows,)``."""
    if ties == "ordinal":
        return torch.arange(1, len(score) + 1, device=score.device).double()
    if ties == "dense":
        begins = score != score.roll(1)  # (rows,); of a run of equal scores
        begins[:1] = True
        return begins.cumsum(dim=0).double()
    first = torch.searchsorted(score, score)  # (rows,); rows with a smaller score
    if ties == "min":
        return first.double() + 1
    last = torch.searchsorted(score, score, right=True)  # (rows,); rows with the same score or a smaller one
    return (first + 1 + last).double() / 2


def log_sum_over_ordered_pairs(
    value: Tensor,
    target: Tensor,
    *,
    interval: float = 0,
    ties: Ties = "min",
    level: Tensor | None = None,
    levels: int = 3,
) -> Tensor:
    r"""Cost of every two rows whose values contradict the order of their targets, and of their levels.

    .. math:: L = \log\bigl(1 + \sum_{r_i - r_j > I,\ g_j > g_i} e^{v_j - v_i}\bigr)
                = \log\bigl(1 + \sum_i e^{-v_i} \sum_{j:\, r_i - r_j > I,\ g_j > g_i} e^{v_j}\bigr)

    with *r* the ranks of the targets. Sorted by target, the rows of an inner sum are the beginning of all
    rows, so that one running sum gives all inner sums and no two rows are ever compared: O(n log n) time and
    O(n) memory. Levels take one running sum for each level but the highest, over the rows above it.

    All sums are in float64 and of logarithms: nothing overflows, and a share of :math:`e^{-500}` keeps its
    digits. The sum is not divided by the number of pairs, so it grows with the batch.

    Args:
        value: :math:`v`, from the model, ``(rows,)``, already divided by a temperature.
        target: what *r* ranks, ``(rows,)``, any real type: it is compared as it is, never rounded or
            truncated; no NaN.
        interval: :math:`I`, in ranks, >= 0. With 0 and any ``ties`` but `ordinal`, larger targets are simply
            above, and equal ones form no pair.
        ties: how equal targets are ranked, see :func:`ranks`.
        level: :math:`g`, ``(rows,)``, any real type; None leaves out its condition.
        levels: how many different ones there are at most; to count them would make a CUDA device wait.

    Returns:
        A scalar of the type of the values; exactly 0, with zero gradients, where no two rows are in order.
    """
    for column in (target, target if level is None else level):
        if value.ndim != 1 or value.shape != column.shape:
            raise ValueError(
                "a ranking loss needs one target for each row, "
                f"got values of shape {tuple(value.shape)} and targets of shape {tuple(column.shape)}"
            )
    if value.device.type == "cuda" and torch.are_deterministic_algorithms_enabled():
        # Running sums on CUDA differ between two runs in their last bits. A vector is soon moved. Its slope
        # returns as numbers: torch goes back on a thread for each device, and what several terms send to one
        # text would be added in the order in which these threads are done.
        there = value.detach().cpu().requires_grad_()  # (rows,)
        columns = (target.cpu(), None if level is None else level.cpu())
        with torch.enable_grad():
            loss = log_sum_over_ordered_pairs(
                there, columns[0], interval=interval, ties=ties, level=columns[1], levels=levels
            )
        (slope,) = torch.autograd.grad(loss, there)  # (rows,)
        return loss.detach().to(value) + ((value - value.detach()) * slope.to(value)).sum()
    given = value
    in_order, order = target.sort(stable=True)  # (rows,) each
    rank = _ranks_in_order(in_order, ties)  # (rows,)
    below = torch.searchsorted(rank, rank - interval)  # (rows,); how many, the first, are far enough below
    value = value.index_select(0, order).double()  # (rows,)
    exponents = [(0 * value).sum(dim=0, keepdim=True)]  # the 1 of the sum; of a graph even without pairs
    if level is None:
        masks = [(torch.ones_like(order, dtype=torch.bool),) * 2]  # (rows,) each
    else:
        place = ranks(level, "dense").index_select(0, order)  # (rows,); from 1 for the lowest level
        masks = [(place == lowest, place > lowest) for lowest in range(1, levels)]
    for can_be_above, can_be_below in masks:
        sums = value.masked_fill(~can_be_below, _NOTHING).logcumsumexp(dim=0)  # (rows,); up to each row
        inner = pad(sums, (1, 0), value=_NOTHING).gather(0, below)  # (rows,)
        exponents.append((inner - value).masked_fill(~can_be_above, -torch.inf))
    return torch.cat(exponents).logsumexp(dim=0).to(given)


def shares_of_pairs(value: Tensor, ordered: Tensor) -> tuple[Tensor, Tensor]:
    """The share of all pairs that are ordered, and of these the share that the values contradict.

    `ordered`, bool, ``(rows, rows)``, says at [i, j] that *i* should have a larger value, ``(rows,)``, than
    *j*.
    """
    pairs = len(value) * (len(value) - 1) / 2
    active = ordered.sum()
    violated = (ordered & (value[None, :] > value[:, None])).sum()
    return active / max(pairs, 1), violated / active.clamp(min=1)
