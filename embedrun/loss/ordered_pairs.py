"""The sum over ordered pairs that all ranking losses share."""

import torch
from torch import Tensor
from torch.nn.functional import pad


def log_sum_over_ordered_pairs(value: Tensor, target: Tensor) -> Tensor:
    r"""Cost of every two rows whose values contradict the order of their targets.

    .. math:: L = \log\bigl(1 + \sum_{t_i > t_j} e^{v_j - v_i}\bigr)

    Equal targets form no ordered pair. Without any ordered pair the value is exactly 0, with
    zero gradients. The sum is not divided by the number of pairs, so it grows with the batch.

    Args:
        value: :math:`v`, what the model says, ``(rows,)``, already divided by a temperature.
        target: :math:`t`, what it should be ordered by, ``(rows,)``, any real type: it is compared as
            it is, never rounded or truncated.

    Raises:
        ValueError: if ``value`` and ``target`` are not two vectors of one length.
    """
    if value.ndim != 1 or value.shape != target.shape:
        raise ValueError(
            "a ranking loss needs one target for each row, "
            f"got values of shape {tuple(value.shape)} and targets of shape {tuple(target.shape)}"
        )
    gap = value[None, :] - value[:, None]  # (rows, rows); [i, j] = v_j - v_i
    ordered = target[:, None] > target[None, :]  # (rows, rows); [i, j] = t_i > t_j
    exponents = gap.masked_fill(~ordered, -torch.inf)  # (rows, rows)
    # log(1 + Σ eˣ) is logsumexp over {0} ∪ x: it cannot overflow, and the 0 keeps an empty sum finite.
    return torch.logsumexp(pad(exponents.flatten(), (1, 0)), dim=0)
