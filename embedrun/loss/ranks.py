"""Ranks of scores, with the usual ways to rank ties."""

from typing import Literal

import torch
from torch import Tensor

Ties = Literal["average", "min", "dense", "ordinal"]


def ranks(score: Tensor, ties: Ties) -> Tensor:
    """The rank of each score among all, from 1 for the smallest.

    Equal scores get

    - `average`: the mean of the places that they take (1, 2.5, 2.5, 4)
    - `min`: the first of these places (1, 2, 2, 4)
    - `dense`: one rank, and the next score the next rank (1, 2, 2, 3)
    - `ordinal`: different ranks in the order of the rows (1, 2, 3, 4)

    which are the names of ``scipy.stats.rankdata``. Sorting makes it O(n log n).

    Args:
        score: ``(rows,)``, any real type.
        ties: one of the above.

    Returns:
        ``(rows,)``, float64, whole or half numbers; no gradient.
    """
    in_order, order = score.detach().sort(stable=True)  # (rows,) each
    rank = ranks_in_order(in_order, ties)  # (rows,)
    return torch.empty_like(rank).scatter_(0, order, rank)


def ranks_in_order(score: Tensor, ties: Ties) -> Tensor:
    """The same for scores that are sorted already, ``(rows,)``."""
    place = torch.arange(len(score), device=score.device)  # (rows,)
    if ties == "ordinal":
        return place.double() + 1
    begins = score != score.roll(1)  # (rows,); of a run of equal scores
    begins[:1] = True
    if ties == "dense":
        return begins.cumsum(dim=0).double()
    first = run_begins(score)  # (rows,)
    if ties == "min":
        return first.double() + 1
    ends = begins.roll(-1)  # (rows,)
    last = place.masked_fill(~ends, len(score)).flip(0).cummin(dim=0).values.flip(0)  # (rows,)
    return (first + last).double() / 2 + 1


def run_begins(score: Tensor) -> Tensor:
    """Where the run of scores equal to each begins: ``(rows,)``, sorted, to places ``(rows,)``, int64."""
    place = torch.arange(len(score), device=score.device)  # (rows,)
    begins = score != score.roll(1)  # (rows,); the first one's 0 is right either way
    return (begins * place).cummax(dim=0).values if len(score) else place
