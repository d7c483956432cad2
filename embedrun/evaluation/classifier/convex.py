"""SentEval's convex classifier: logistic regression, solved accurately.

The published scores come from another classifier, trained by Adam and stopped early; this one is for use
during research. Departure from the toolkit's: scikit-learn stops earlier there, up to a quarter of the
weights' length away from the minimum. Nothing is drawn but the folds.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from embedrun.evaluation.classifier import Fit, Fitted, Trainer

# C of scikit-learn's LogisticRegression, by the number of a set's splits.
REGULARISERS = {
    1: tuple(2.0**power for power in range(-2, 4)),
    2: tuple(2.0**power for power in range(-1, 6)),
    3: tuple(2.0**power for power in range(-2, 4)),
}
_STEPS = 300  # at most
_MEMORY = 5  # steps that the estimate of the curvature is made of, beside the metric
# A slope of this share of the first is that of a minimum. A fit begins where all rows have it, so the first
# is what its held-out rows did: this share of that, at most, is left of them.
_FLAT = 5e-3
_FLAT_EXACT = 1e-3  # of long vectors: a weak penalty puts a fold's minimum far from that of all rows
_TOGETHER = 50  # fits that are solved together, so that one product serves them all
# Scale² × rows from which on float32 is not enough: the penalty of a row is 1 / (C scale² rows).
_EXACT_FROM = 2e7


class Convex:
    r"""Logistic regression with the penalty 1 / C.

    Each classifier minimises

    .. math:: \sum_{i=1}^n -\log p(y_i \mid x_i) + \frac{1}{2 C} \lVert W \rVert^2

    over the weights and the intercepts, which have no penalty: scikit-learn's `LogisticRegression(C=C)`. Two
    classes have one logit, more have one each.
    """

    seed = 1111  # of the folds: the optimum is the same for every seed

    def regularisers(self, splits: int) -> tuple[float, ...]:
        """Values of C."""
        return REGULARISERS[splits]

    def last(self, rows: np.ndarray, regulariser: float) -> Fit:
        """The chosen classifier is fitted to all rows."""
        return Fit(rows, rows[:0], (regulariser,))

    def trainer(self, features: np.ndarray, labels: np.ndarray) -> Trainer:
        """Solves some fits of one regulariser at a time."""
        rows = _Rows(features, labels)

        def train(fits: Sequence[Fit], done: Callable[[int], None]) -> list[list[Fitted]]:
            fitted: list[dict[float, Fitted]] = [{} for _ in fits]
            for regulariser in sorted({value for fit in fits for value in fit.regularisers}):
                places = [place for place, fit in enumerate(fits) if regulariser in fit.regularisers]
                for first in range(0, len(places), _TOGETHER):
                    some = places[first : first + _TOGETHER]
                    solved = rows.fit([fits[place] for place in some], regulariser)
                    for place, classifier in zip(some, solved, strict=True):
                        fitted[place][regulariser] = classifier
                    done(len(some))
            return [[models[c] for c in fit.regularisers] for models, fit in zip(fitted, fits, strict=True)]

        return train


class _Rows:
    """All rows of a set, centred, at a root mean square length of 1, with a column of ones.

    The intercept absorbs the centre and the penalty the scale, so the classifiers stay the same.
    """

    def __init__(self, features: np.ndarray, labels: np.ndarray) -> None:
        classes = int(labels.max()) + 1
        self.mean = features.mean(axis=0, dtype=np.float64)  # (dim,)
        centred = torch.from_numpy(features - self.mean)  # (rows, dim), float64
        self.scale = math.sqrt(centred.square().sum(dim=1).mean()) or 1.0
        exact = self.scale**2 * len(features) > _EXACT_FROM
        self.flat = _FLAT_EXACT if exact else _FLAT
        table = pad(centred / self.scale, (0, 1), value=1.0)
        self.table = table if exact else table.float()  # (rows, dim + 1)
        self.labels = torch.from_numpy(labels)  # (rows,)
        gold = one_hot(self.labels, classes).T.to(self.table.dtype)  # (classes, rows)
        self.gold = gold[-1:] if classes == 2 else gold  # (logits, rows)
        start = self.table.new_zeros(1, len(self.gold), self.table.shape[1])
        self.last = start, self._metric(start, 1.0)
        self.near = cache(self._near)

    def fit(self, fits: Sequence[Fit], regulariser: float) -> list[Fitted]:
        """The classifiers of some fits, started from that of all rows; each has one minimum all the same."""
        start, metric = self.near(regulariser)
        used = torch.zeros(len(fits), 1, len(self.table), dtype=self.table.dtype)  # 1 for rows trained on
        for place, fit in enumerate(fits):
            used[place, :, torch.from_numpy(fit.train)] = 1
        weights = self._solve(start.expand(len(fits), -1, -1), metric, used, regulariser)
        logits = self.logits(weights)
        predicted = (logits > 0).long()[:, 0] if len(self.gold) == 1 else logits.argmax(dim=1)
        right = (predicted == self.labels).numpy()  # (fits, rows)
        return [
            Fitted(float(hits[fit.held_out].mean()) if len(fit.held_out) else np.nan, self.plain(solution))
            for fit, hits, solution in zip(fits, right, weights, strict=True)
        ]

    def _near(self, regulariser: float) -> tuple[Tensor, Tensor]:
        """The classifier of all rows, ``(1, logits, dim + 1)``, and its metric; started from the last."""
        weights, metric = self.last
        everything = self.table.new_ones(1, 1, 1)
        weights = self._solve(weights, metric, everything, regulariser)
        self.last = weights, self._metric(weights, regulariser)
        return self.last

    def _metric(self, weights: Tensor, regulariser: float) -> Tensor:
        r"""R of each logit with :math:`R R^\top` = the inverse Hessian, ``(logits, dim + 1, dim + 1)``.

        With more than two classes the parts between two logits are left out and the others are scaled by
        K / (K - 1), which is exact for equal probabilities.
        """
        probability = self.probabilities(weights)[0]  # (logits, rows)
        share = 1 if len(self.gold) == 1 else len(self.gold) / (len(self.gold) - 1)
        spread = share * probability * (1 - probability)
        hessian = torch.stack([(self.table.T * variance) @ self.table for variance in spread]).double()
        # The intercept has no penalty; here it gets one, or its row could be all but zero.
        hessian.diagonal(dim1=1, dim2=2).add_(1 / (regulariser * self.scale**2))
        triangle = torch.linalg.cholesky(hessian)
        unit = torch.eye(hessian.shape[-1], dtype=hessian.dtype)
        return torch.linalg.solve_triangular(triangle, unit, upper=False).mT.to(self.table.dtype)

    def _solve(self, start: Tensor, metric: Tensor, used: Tensor, regulariser: float) -> Tensor:
        """Weights ``(fits, logits, dim + 1)`` from those to start with; `used` is ``(fits, 1, rows)``."""
        penalty = self.table.new_full(metric.shape[-1:], 1 / (regulariser * self.scale**2))  # (dim + 1,)
        penalty[-1] = 0  # the intercept

        def gradient(moved: Tensor, which: Tensor) -> Tensor:
            weights = start[which] + _turned(moved, metric.mT)
            residual = self.probabilities(weights).sub_(self.gold).mul_(used[which])
            slope = (residual.flatten(0, 1) @ self.table).view_as(weights) + penalty * weights
            return _turned(slope, metric)

        return start + _turned(minimise(gradient, torch.zeros_like(start), self.flat), metric.mT)

    def probabilities(self, weights: Tensor) -> Tensor:
        """Of each logit's class; shapes as of `logits`."""
        logits = self.logits(weights)
        return logits.sigmoid_() if len(self.gold) == 1 else logits.softmax(dim=1)

    def logits(self, weights: Tensor) -> Tensor:
        """Weights ``(fits, logits, dim + 1)``, result ``(fits, logits, rows)``."""
        return (weights.flatten(0, 1) @ self.table.T).view(*weights.shape[:2], -1)

    def plain(self, weights: Tensor) -> np.ndarray:
        """From ``(logits, dim + 1)`` to float64 weights of the given features, ``(classes, dim + 1)``."""
        plain = weights.double().numpy()
        plain[:, :-1] /= self.scale
        plain[:, -1] -= plain[:, :-1] @ self.mean
        return plain if len(plain) > 1 else np.concatenate([np.zeros_like(plain), plain])


def _turned(rows: Tensor, matrices: Tensor) -> Tensor:
    """The rows of each logit times its matrix: ``(fits, logits, dim + 1)``, as the result."""
    return (rows.transpose(0, 1) @ matrices).transpose(0, 1)


def minimise(gradient: Callable[[Tensor, Tensor], Tensor], start: Tensor, flat: float) -> Tensor:
    """The minima of convex functions whose curvature is about 1 there, one along the first dimension.

    Limited-memory BFGS (Nocedal 1980, doi:10.1090/S0025-5718-1980-0572855-7). All functions take their steps
    together, so that the gradients share their work; one that has converged leaves. `gradient` is that of
    some parameters, and which functions these are; a function has converged where it is at most `flat` of
    that at the start.

    No value of a function is needed. The slope of a convex function along a step only grows: where it is not
    positive at the step's end the function fell, and where it is, the two slopes say where along the step the
    minimum about is. A step that went far beyond that is cut there and tried again.
    """
    final, active = start.clone(), torch.arange(len(start))  # (functions, logits, dim + 1), (active,)
    here, slope = start, gradient(start, active)  # (active, logits, dim + 1)
    level, step = flat**2 * _dot(slope, slope)[:, 0, 0], -slope  # (functions,)
    past: list[tuple[Tensor, Tensor, Tensor]] = []  # steps, changes of the slope, 1 / their product
    for _ in range(_STEPS):
        end_slope = gradient(here + step, active)
        before, after = _dot(slope, step), _dot(end_slope, step)  # (active, 1, 1)
        good = after <= -before / 2
        product = (after - before).clamp(min=1e-30)
        past = [*past[1 - _MEMORY :], (step, end_slope - slope, torch.where(good, 1 / product, 0))]
        cut = (-before / product).clamp(0.1, 0.9)  # where the slope would be 0 if it were straight
        here, slope = torch.where(good, here + step, here), torch.where(good, end_slope, slope)
        step = torch.where(good, -_newton(slope, past), cut * step)
        final[active] = here
        going = _dot(slope, slope)[:, 0, 0] > level[active]  # (active,)
        if not going.any():
            break
        active, here, slope, step = active[going], here[going], slope[going], step[going]
        past = [(old[going], change[going], weight[going]) for old, change, weight in past]
    return final


def _newton(slope: Tensor, past: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """The estimated inverse Hessian times the gradient, by the two loops of Nocedal."""
    shares = []
    for step, change, weight in reversed(past):
        shares.append(weight * _dot(step, slope))  # (functions, 1, 1)
        slope = slope - shares[-1] * change
    for step, change, weight in past:
        slope = slope + (shares.pop() - weight * _dot(change, slope)) * step
    return slope


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=(1, 2), keepdim=True)
