"""Sums over ordered pairs of rows, dense or sorted, and the ranks that order them."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

Ties = Literal["average", "min", "dense", "ordinal"]


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


def log_sum_by_sorting(
    value: Tensor, key: Tensor, *, interval: float = 0, ties: Ties = "min", level: Tensor | None = None
) -> Tensor:
    r"""The sum over every two rows that the ranks of their keys, and levels if there are any, put in order.

    .. math:: L = \log\bigl(1 + \sum_{r_j < r_i - I,\ g_j > g_i} e^{v_j - v_i}\bigr)
                = \log\bigl(1 + \sum_i e^{-v_i} \sum_{j:\, r_j < r_i - I,\ g_j > g_i} e^{v_j}\bigr)

    Sorted by key, the rows of an inner sum are the beginning of all rows, so that one running sum gives all
    inner sums and no two rows are ever compared. Levels take one running sum for each level but the highest,
    over the rows above it.

    All sums are in float64 and of logarithms: nothing overflows, and a share of :math:`e^{-500}` keeps its
    digits. The identity is elementary; `tests/loss/test_sorted_pairs.py` compares it with all pairs.

    Args:
        value: :math:`v`, ``(rows,)``.
        key: what *r* ranks, ``(rows,)``, any real type, no NaN.
        interval: :math:`I`, in ranks, >= 0. With 0 and any but `ordinal`, larger keys are simply above.
        ties: how equal keys are ranked, see :func:`~embedrun.loss.ordered_pairs.ranks`.
        level: :math:`g`, ``(rows,)``, any real type; None leaves out its condition.

    Returns:
        A scalar in float64; 0, with zero gradients, where no two rows are in order.
    """
    in_order, order = key.sort(stable=True)  # (rows,) each
    rank = _ranks_in_order(in_order, ties)  # (rows,)
    below = torch.searchsorted(rank, rank - interval)  # (rows,); how many, the first, are far enough below
    value = value.index_select(0, order).double()  # (rows,)
    exponents = [(0 * value).sum(dim=0, keepdim=True)]  # the 1 of the sum; of a graph even without pairs
    for can_be_above, can_be_below in _levels(value, None if level is None else level.index_select(0, order)):
        sums = value.masked_fill(~can_be_below, _NOTHING).logcumsumexp(dim=0)  # (rows,); up to each row
        inner = pad(sums, (1, 0), value=_NOTHING).gather(0, below)  # (rows,)
        exponents.append((inner - value).masked_fill(~can_be_above, -torch.inf))
    return torch.cat(exponents).logsumexp(dim=0)


# The logarithm of a sum over nothing. Finite: torch's gradient of logcumsumexp is not a number at -inf.
_NOTHING = -1e300


def _levels(value: Tensor, level: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Which rows can be above and which below, bool, ``(rows,)`` each, for each level but the highest."""
    if level is None:
        every = torch.ones_like(value, dtype=torch.bool)  # (rows,)
        yield every, every
        return
    for lowest in level.unique()[:-1]:
        yield level == lowest, level > lowest


# From this many rows on sorting is faster than comparing all pairs. Measured on a CPU (`make bench-loss`).
# A CUDA device compares many pairs at once, and waits to learn the levels of a sorted sum: an estimate, whose
# pairs take 1 GB.
SORTED_FROM = {"cpu": 192, "cuda": 8192}
WATCHED = 512  # rows whose pairs are counted for the shares: more would say the same and cost memory


def log_sum_over_ordered_pairs(value: Tensor, target: Tensor) -> Tensor:
    r"""Cost of every two rows whose values contradict the order of their targets.

    .. math:: L = \log\bigl(1 + \sum_{t_i > t_j} e^{v_j - v_i}\bigr)

    Equal targets form no ordered pair. Without any ordered pair the value is exactly 0, with
    zero gradients. The sum is not divided by the number of pairs, so it grows with the batch.
    Few rows are compared pair by pair, many are sorted: O(n log n) time and O(n) memory, the same value
    and gradient.

    Args:
        value: :math:`v`, from the model, ``(rows,)``, already divided by a temperature.
        target: :math:`t`, what it should be ordered by, ``(rows,)``, any real type: it is compared as
            it is, never rounded or truncated; no NaN.
    """
    _require_one_each(value, target, "target")
    if not _many(value):
        return _log_sum_of_pairs(value, target[:, None] > target[None, :])
    return _sorted(value, target)


def log_sum_over_ranked_pairs(value: Tensor, score: Tensor, *, interval: float, ties: Ties) -> Tensor:
    r"""The same over rows whose scores are more than a few ranks apart.

    .. math:: L = \log\bigl(1 + \sum_{r_i - r_j > I} e^{v_j - v_i}\bigr)

    Args:
        value: :math:`v`, ``(rows,)``, already multiplied by a scale.
        score: what *r* ranks, ``(rows,)``, larger is more similar.
        interval: :math:`I`, in ranks, >= 0.
        ties: how equal scores are ranked, see :func:`~embedrun.loss.ordered_pairs.ranks`.
    """
    _require_one_each(value, score, "score")
    if not _many(value):
        rank = ranks(score, ties)  # (rows,)
        return _log_sum_of_pairs(value, rank[:, None] - rank[None, :] > interval)
    return _sorted(value, score, interval=interval, ties=ties)


def log_sum_over_agreeing_pairs(value: Tensor, label: Tensor, score: Tensor) -> Tensor:
    r"""Cost of every two rows that label and score order alike, and whose values contradict it.

    .. math:: L = \log\bigl(1 + \sum_{l_i > l_j,\ s_i < s_j} e^{v_j - v_i}\bigr)

    Equal labels or equal scores form no pair. For many rows there is one sorted pass for each label but
    the highest: its rows against all rows of higher labels, by score.

    Args:
        value: :math:`v`, ``(rows,)``, already multiplied by a scale.
        label: :math:`l`, ``(rows,)``, larger is less similar, as NLI labels are.
        score: :math:`s`, ``(rows,)``, larger is more similar.
    """
    _require_one_each(value, label, "label")
    _require_one_each(value, score, "score")
    if not _many(value):
        agree = (label[:, None] > label[None, :]) & (score[:, None] < score[None, :])  # (rows, rows)
        return _log_sum_of_pairs(value, agree)
    # From the side of j, which has the larger score: there its value should be the smaller one.
    return _sorted(-value, score, level=label)


def shares_of_pairs(value: Tensor, ordered: Tensor) -> tuple[Tensor, Tensor]:
    """The share of all pairs that are ordered, and of these the share that the values contradict.

    `ordered`, bool, ``(rows, rows)``, says at [i, j] that *i* should have a larger value, ``(rows,)``, than
    *j*.
    """
    pairs = len(value) * (len(value) - 1) / 2
    active = ordered.sum()
    violated = (ordered & (value[None, :] > value[:, None])).sum()
    return active / max(pairs, 1), violated / active.clamp(min=1)


def _require_one_each(value: Tensor, target: Tensor, name: str) -> None:
    if value.ndim != 1 or value.shape != target.shape:
        raise ValueError(
            f"a ranking loss needs one {name} for each row, "
            f"got values of shape {tuple(value.shape)} and {name}s of shape {tuple(target.shape)}"
        )


def _many(value: Tensor) -> bool:
    return len(value) >= SORTED_FROM.get(value.device.type, SORTED_FROM["cuda"])


def _log_sum_of_pairs(value: Tensor, ordered: Tensor) -> Tensor:
    """The definition itself, over the marked pairs, ``(rows, rows)``."""
    gap = value[None, :] - value[:, None]  # (rows, rows); [i, j] = v_j - v_i
    exponents = gap.masked_fill(~ordered, -torch.inf)  # (rows, rows)
    # log(1 + Σ eˣ) is logsumexp over {0} ∪ x: it cannot overflow, and the 0 keeps an empty sum finite.
    return torch.logsumexp(pad(exponents.flatten(), (1, 0)), dim=0)


def _sorted(
    value: Tensor, key: Tensor, *, interval: float = 0, ties: Ties = "min", level: Tensor | None = None
) -> Tensor:
    """The loss, a scalar, in the type of the values."""
    # Running sums on CUDA differ between two runs in their last bits. A vector is soon moved.
    if value.device.type != "cpu" and torch.are_deterministic_algorithms_enabled():
        own, level = [value.cpu(), key.cpu()], None if level is None else level.cpu()
    else:
        own = [value, key]
    return log_sum_by_sorting(*own, interval=interval, ties=ties, level=level).to(value)
