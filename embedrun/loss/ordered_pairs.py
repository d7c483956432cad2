"""Sums over ordered pairs of rows, dense or sorted, and the ranks that order them."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
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
    return torch.searchsorted(score, score)


def log_sum_by_sorting(
    value: Tensor, key: Tensor, *, interval: float = 0, ties: Ties = "min", level: Tensor | None = None
) -> Tensor:
    r"""The sum over every two rows that the ranks of their keys, and levels if there are any, put in order.

    .. math:: L = \log\bigl(1 + \sum_{r_j < r_i - I,\ g_j > g_i} e^{v_j - v_i}\bigr)
                = \log\bigl(1 + \sum_i e^{-v_i} \sum_{j:\, r_j < r_i - I,\ g_j > g_i} e^{v_j}\bigr)

    Sorted by key, the rows of an inner sum are the beginning of all rows, so that one running sum gives all
    inner sums and no two rows are ever compared. Levels take one running sum for each level but the highest,
    over the rows above it. The gradient of row *i* is minus its share of the pairs in which it is above,
    plus its share of those in which it is below, from running sums forwards and backwards.

    All sums are in float64, and of logarithms where values are far from each other: nothing overflows, and a
    share of :math:`e^{-500}` keeps its digits. The identity is elementary; `tests/loss/test_sorted_pairs.py`
    compares it with all pairs.

    Args:
        value: :math:`v`, ``(rows,)``.
        key: what *r* ranks, ``(rows,)``, any real type, no NaN.
        interval: :math:`I`, in ranks, >= 0. With 0 and any but `ordinal`, larger keys are simply above.
        ties: how equal keys are ranked, see :func:`~embedrun.loss.ordered_pairs.ranks`.
        level: :math:`g`, ``(rows,)``, any real type; None leaves out its condition.

    Returns:
        A scalar in float64; 0, with zero gradients, where no two rows are in order.
    """
    return _LogSumBySorting.apply(value, key, interval, ties, level)  # type: ignore[return-value]


class _LogSumBySorting(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, value: Tensor, key: Tensor, interval: float, ties: Ties, level: Tensor | None
    ) -> Tensor:
        in_order, order = key.sort(stable=ties == "ordinal")  # (rows,) each
        below = _below(in_order, interval, ties)  # (rows,)
        value_in_order = value.index_select(0, order).double()  # (rows,)
        level_in_order = None if level is None else level[order]  # (rows,)
        found = _of_numbers if _near(value_in_order) else _of_logarithms
        loss, change = found(value_in_order, level_in_order, below)  # change: (rows,)
        ctx.type = value.dtype
        ctx.save_for_backward(torch.empty_like(change).scatter_(0, order, change))
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:  # type: ignore[override]
        (gradient,) = ctx.saved_tensors  # (rows,)
        return (gradient * grad).to(ctx.type), None, None, None, None


# In both, `below` never falls, so the rows above the row in place n are the last ones: all but those that
# have at most n rows below them.


def _of_numbers(value: Tensor, level: Tensor | None, below: Tensor) -> tuple[Tensor, Tensor]:
    """L, a scalar, and its gradient, ``(rows,)``, of values that are near each other.

    A quarter of the time that logarithms take; NumPy because torch takes as long to begin as to compute. All
    arguments are ``(rows,)``, on a processor.
    """
    own, begins = value.numpy(), below.numpy()  # (rows,) each
    low, high, rows = own.min(), own.max(), len(own)
    from_here = np.bincount(begins, minlength=rows).cumsum()  # (rows,)
    under, over = np.exp(own - high), np.exp(low - own)  # (rows,) each
    total, change, sums = 0.0, np.zeros(rows), np.zeros(rows + 1)
    for can_be_above, can_be_below in _levels(level):
        lower = under if can_be_below is None else under * can_be_below.numpy()  # (rows,)
        upper = over if can_be_above is None else over * can_be_above.numpy()  # (rows,)
        np.cumsum(lower, out=sums[1:])
        part = upper * sums[begins]  # (rows,)
        sums[0] = 0
        np.cumsum(upper[::-1], out=sums[1:])
        change += lower * sums[::-1][from_here] - part
        total += part.sum()
    if total == 0:
        return value.new_zeros(()), torch.zeros_like(value)
    loss = np.logaddexp(exponent := np.log(total) + (high - low), 0)
    return value.new_tensor(loss), torch.from_numpy(change * (np.exp(exponent - loss) / total))


def _of_logarithms(value: Tensor, level: Tensor | None, below: Tensor) -> tuple[Tensor, Tensor]:
    """The same of any values, anywhere, without a wait for the device; levels are compared row by row."""
    place = torch.arange(len(value), device=value.device)  # (rows,)
    if level is None:
        from_here = torch.searchsorted(below, place, right=True)  # (rows,); how many have at most n below
        above = _running(value)[below] - value  # (rows,)
        under = _running(-value.flip(0)).flip(0)[from_here] + value  # (rows,)
    else:
        rows, columns = [], []
        for part in place.split(_BLOCK):
            pairs = (place < below[part, None]) & (level > level[part, None])  # (part, rows)
            gap = (value - value[part, None]).masked_fill(~pairs, -torch.inf)  # (part, rows)
            rows.append(gap.logsumexp(dim=1))  # (part,)
            columns.append(gap.logsumexp(dim=0))  # (rows,)
        above, under = torch.cat(rows), torch.stack(columns).logsumexp(dim=0)  # (rows,) each
    total = pad(above, (1, 0), value=-torch.inf).logsumexp(dim=0)
    loss = torch.logaddexp(total, torch.zeros_like(total))
    return loss, (_share(under, total) - _share(above, total)) * (total - loss).exp()


def _below(in_order: Tensor, interval: float, ties: Ties) -> Tensor:
    """How many rows are far enough below each, ``(rows,)``, int64: the first ones, keys being sorted."""
    if not interval and ties != "ordinal":
        return run_begins(in_order)
    half_ranks = (2 * ranks_in_order(in_order, ties)).long()  # (rows,); twice a rank is a whole number
    # Below n are those up to the next whole number below it; up to 0 there are none.
    # Clamped as a fraction: a huge interval is no whole number.
    nearest = (half_ranks - 2 * interval).ceil().clamp(min=1).long() - 1  # (rows,)
    return torch.searchsorted(half_ranks, nearest, right=True)  # bincount would wait for a device


_BLOCK = 1024  # rows that are compared with all at a time: memory grows with the rows, not with their square


def _levels(level: Tensor | None) -> Iterator[tuple[Tensor | None, Tensor | None]]:
    """Which rows can be above and which below, bool, ``(rows,)`` each, for each level but the highest."""
    if level is None:
        yield None, None
        return
    for one in level.unique()[:-1]:
        yield level == one, level > one


def _near(value: Tensor) -> bool:
    """Whether no product of e to two differences vanishes; never on CUDA: the processor would wait for it."""
    return value.device.type == "cpu" and len(value) > 0 and bool(np.ptp(value.numpy()) < 300)


def _running(exponents: Tensor) -> Tensor:
    """Place n has the log of the sum over the first n: ``(rows,)`` to ``(rows + 1,)``, from -inf on."""
    return pad(exponents.logcumsumexp(dim=0), (1, 0), value=-torch.inf)


def _share(part: Tensor, total: Tensor) -> Tensor:
    """e^(part - total), and 0 where there is nothing to share."""
    return (part - total).exp().masked_fill(part == -torch.inf, 0)


# From this many rows on sorting is faster than comparing all pairs. Measured on a CPU (`make bench-loss`);
# a CUDA device compares many pairs at once, and its figure is an estimate.
SORTED_FROM = {"cpu": 192, "cuda": 2048}
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
