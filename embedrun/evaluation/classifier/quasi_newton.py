"""Minimise many smooth convex functions at once, each in few evaluations of its gradient."""

from collections.abc import Callable

import torch
from torch import Tensor

# Parameters (active, size) and which functions these are (active,) -> gradients (active, size).
Gradient = Callable[[Tensor, Tensor], Tensor]
# The same, from gradients to Newton's steps, nearly; linear, symmetric and positive definite.
Metric = Callable[[Tensor, Tensor], Tensor]

_MEMORY = 5  # steps that the estimate of the curvature is made of, beside the metric
_OVERSHOT = 0.5  # a step is kept unless the slope along it turned and is over this share of what it was
_TINY = torch.finfo(torch.float32).tiny  # 1 / less could be infinite


def minimise(
    gradient: Gradient,
    metric: Metric,
    start: Tensor,
    first: Tensor,
    *,
    flat: float,
    short: float,
    steps: int = 300,
) -> Tensor:
    r"""The minima, ``(functions, size)``.

    Limited-memory BFGS (Nocedal 1980, doi:10.1090/S0025-5718-1980-0572855-7) with a given matrix where that
    has a multiple of the identity: where the matrix is close to the inverse Hessian, two or three steps do.
    All functions take their steps together, so that the gradients can share their work; one that has
    converged leaves.

    No value of a function is needed. The slope of a convex function along a step only grows: where it is not
    positive at the step's end the function fell, and where it is, the two slopes say where along the step the
    minimum about is. A step that went far beyond that is cut there and tried again.

    A function has converged when its largest gradient entry is at most `flat` and its next step at most
    `short` of its parameters' length. That step, which is an estimate of the error before it, is still taken.

    Args:
        gradient: of some of the functions.
        metric: nearly the inverse Hessian, times gradients.
        start: parameters to begin with, ``(functions, size)``.
        first: the gradients there, ``(functions, size)``.
        flat: in the functions' unit, >= 0.
        short: a share, >= 0.
        steps: at most; a function that has not converged then stays where it is.
    """
    final = start.clone()  # (functions, size)
    active = torch.arange(len(start))  # (active,)
    here, slope, past = start, first, _Past([])
    level = torch.full_like(first[:, 0], flat)  # (functions,)
    if start.dtype == torch.float64:  # `flat` alone can hold where it begins, as if a left-out row were in
        level = level.minimum(1e-3 * first.abs().amax(1))
    step = -metric(slope, active)  # (active, size)
    for _ in range(steps):
        steep = slope.abs().amax(1) > level[active]  # (active,)
        going = steep | (step.norm(dim=1) > short * here.norm(dim=1))  # (active,)
        if not going.all():
            final[active[~going]] = (here + step)[~going]
            active, here, slope, step = active[going], here[going], slope[going], step[going]
            past = past.of(going)
        if not len(active):
            return final
        there = here + step
        found = gradient(there, active)  # (active, size)
        before, after = (slope * step).sum(1), (found * step).sum(1)  # (active,)
        good = after <= _OVERSHOT * -before
        past = past.and_this(step, found - slope, torch.where(good, after - before, 0))
        here = torch.where(good[:, None], there, here)
        slope = torch.where(good[:, None], found, slope)
        cut = (before / (before - after)).clamp(0.1, 0.9)  # (active,), where the slope would be 0 if straight
        step = torch.where(good[:, None], -past.newton(slope, active, metric), cut[:, None] * step)
    final[active] = here
    return final


class _Past:
    """The last steps, the changes of the gradient over them and 1 / their product, 0 for one to forget."""

    def __init__(self, pairs: list[tuple[Tensor, Tensor, Tensor]]) -> None:
        self.pairs = pairs

    def of(self, some: Tensor) -> "_Past":
        return _Past([(step[some], change[some], weight[some]) for step, change, weight in self.pairs])

    def and_this(self, step: Tensor, change: Tensor, product: Tensor) -> "_Past":
        weight = torch.where(product > _TINY, 1 / product, 0)[:, None]  # (active, 1)
        return _Past([*self.pairs[1 - _MEMORY :], (step, change, weight)])

    def newton(self, slope: Tensor, active: Tensor, metric: Metric) -> Tensor:
        """The estimated inverse Hessian times the gradient, by the two loops of Nocedal."""
        slope, shares = slope.clone(), []
        for step, change, weight in reversed(self.pairs):
            shares.append(weight * (step * slope).sum(1, keepdim=True))  # (active, 1)
            slope -= shares[-1] * change
        slope = metric(slope, active)  # (active, size)
        for step, change, weight in self.pairs:
            slope = slope + (shares.pop() - weight * (change * slope).sum(1, keepdim=True)) * step
        return slope
