"""A moving average of the weights, which is scored and kept in place of those that are trained."""

import contextlib
from collections.abc import Iterator

import torch
from torch.optim.swa_utils import get_ema_multi_avg_fn

AVERAGE = "ema"  # the average of a weight, among what the optimizer keeps of it


def average(optimizer: torch.optim.Optimizer, step: int, decay: float) -> None:
    r"""Move the average of each weight towards what it is after optimizer step `step` (the first is 1).

    .. math:: \bar\theta_t = d_t \bar\theta_{t-1} + (1 - d_t) \, \theta_t, \qquad
       d_t = \min\left(d, \frac{1 + t}{10 + t}\right)

    Source: Polyak and Juditsky 1992, Acceleration of Stochastic Approximation by Averaging; the decay that
    begins lower, so that the first weights are soon forgotten, is TensorFlow's. The average begins with the
    weights after the first step.
    """
    weights = [weight for weight, kept in optimizer.state.items() if kept]
    for weight in weights:
        optimizer.state[weight].setdefault(AVERAGE, weight.detach().clone())  # the shape of the weight
    averages = [optimizer.state[weight][AVERAGE] for weight in weights]
    get_ema_multi_avg_fn(min(decay, (1 + step) / (10 + step)))(averages, weights, 0)


@contextlib.contextmanager
def averaged(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Within it, each weight is its average, if it has one; afterwards it is bit-identical to what it was."""
    averages = {weight: kept[AVERAGE] for weight, kept in optimizer.state.items() if AVERAGE in kept}
    before = {weight: weight.detach().clone() for weight in averages}
    with torch.no_grad():
        for weight, value in averages.items():
            weight.copy_(value)
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, value in before.items():
                weight.copy_(value)
