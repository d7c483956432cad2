"""The sums over ordered pairs that all ranking losses share, dense for few rows and sorted for many."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from embedrun.loss.ranks import Ties, ranks
from embedrun.loss.sorted_pairs import log_sum_by_sorting

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
        value: :math:`v`, what the model says, ``(rows,)``, already divided by a temperature.
        target: :math:`t`, what it should be ordered by, ``(rows,)``, any real type: it is compared as
            it is, never rounded or truncated; no NaN.

    Raises:
        ValueError: if ``value`` and ``target`` are not two vectors of one length.
    """
    _require_one_each(value, target, "target")
    if not _many(value):
        return _log_sum_of_pairs(value, target[:, None] > target[None, :])
    return _plus_one(_sorted(value, target), value.dtype)


def log_sum_over_ranked_pairs(value: Tensor, score: Tensor, *, interval: float, ties: Ties) -> Tensor:
    r"""The same over rows whose scores are more than a few ranks apart.

    .. math:: L = \log\bigl(1 + \sum_{r_i - r_j > I} e^{v_j - v_i}\bigr)

    Args:
        value: :math:`v`, ``(rows,)``, already multiplied by a scale.
        score: what *r* ranks, ``(rows,)``, larger is more similar.
        interval: :math:`I`, in ranks, >= 0.
        ties: how equal scores are ranked, see :func:`~embedrun.loss.ranks.ranks`.

    Raises:
        ValueError: if ``value`` and ``score`` are not two vectors of one length.
    """
    _require_one_each(value, score, "score")
    if not _many(value):
        rank = ranks(score, ties)  # (rows,)
        return _log_sum_of_pairs(value, rank[:, None] - rank[None, :] > interval)
    return _plus_one(_sorted(value, score, interval=interval, ties=ties), value.dtype)


def log_sum_over_agreeing_pairs(value: Tensor, label: Tensor, score: Tensor) -> Tensor:
    r"""Cost of every two rows that label and score order alike, and whose values contradict it.

    .. math:: L = \log\bigl(1 + \sum_{l_i > l_j,\ s_i < s_j} e^{v_j - v_i}\bigr)

    Equal labels or equal scores form no pair. For many rows there is one sorted pass for each label but
    the highest: its rows against all rows of higher labels, by score.

    Args:
        value: :math:`v`, ``(rows,)``, already multiplied by a scale.
        label: :math:`l`, ``(rows,)``, larger is less similar, as NLI labels are.
        score: :math:`s`, ``(rows,)``, larger is more similar.

    Raises:
        ValueError: if the three are not vectors of one length.
    """
    _require_one_each(value, label, "label")
    _require_one_each(value, score, "score")
    if not _many(value):
        agree = (label[:, None] > label[None, :]) & (score[:, None] < score[None, :])  # (rows, rows)
        return _log_sum_of_pairs(value, agree)
    # From the side of j, which has the larger score: there its value should be the smaller one.
    return _plus_one(_sorted(-value, score, level=label), value.dtype)


def shares_of_pairs(value: Tensor, ordered: Tensor) -> tuple[Tensor, Tensor]:
    """How many of all pairs are ordered, and how many of these the values contradict; 0 to 1 each.

    Args:
        value: ``(rows,)``; the row of the larger target should have the larger one.
        ordered: bool, ``(rows, rows)``; [i, j] says that *i* should be above *j*.
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
    """The logarithm of the sum, float64, a scalar; -inf for no pair."""
    # Running sums on CUDA differ between two runs in their last bits. A vector is soon moved.
    if value.device.type != "cpu" and torch.are_deterministic_algorithms_enabled():
        device, value, key = value.device, value.cpu(), key.cpu()
        level = None if level is None else level.cpu()
        return log_sum_by_sorting(value, key, interval=interval, ties=ties, level=level).to(device)
    return log_sum_by_sorting(value, key, interval=interval, ties=ties, level=level)


def _plus_one(exponent: Tensor, dtype: torch.dtype) -> Tensor:
    """log(1 + eˣ), in the end in the type of the values; exact where eˣ is tiny or not finite."""
    return torch.logaddexp(exponent, torch.zeros_like(exponent)).to(dtype)
