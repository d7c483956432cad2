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
    if ties == "ordinal":
        place = torch.arange(1, len(score) + 1, device=score.device, dtype=torch.float64)  # (rows,)
        return torch.empty_like(place).scatter_(0, order, place)
    smaller = torch.searchsorted(in_order, score.contiguous())  # (rows,); how many scores are below
    if ties == "dense":
        rises = torch.ones_like(smaller)  # (rows,)
        rises[1:] = in_order[1:] > in_order[:-1]
        return rises.cumsum(dim=0)[smaller].double()
    if ties == "min":
        return smaller.double() + 1
    up_to = torch.searchsorted(in_order, score.contiguous(), right=True)  # (rows,)
    return (smaller + 1 + up_to).double() / 2
