"""SentEval's convex classifier: logistic regression, solved accurately.

The published scores come from another classifier, trained by Adam and stopped early; this one is for use
during research. Departure from the toolkit's: scikit-learn stops earlier there, up to a quarter of the
weights' length away from the minimum. Nothing is drawn but the folds.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from embedrun.evaluation.classifier import Fit, Fitted, Trainer

# C of scikit-learn's LogisticRegression, by the number of a set's splits.
REGULARISERS = {
    1: tuple(2.0**power for power in range(-2, 4)),
    2: tuple(2.0**power for power in range(-1, 6)),
    3: tuple(2.0**power for power in range(-2, 4)),
}
_STEPS = 300  # at most
_MEMORY = 5  # steps that the estimate of the curvature is made of
_SHORT = 5e-4  # a step that is shorter, as a share of the weights' length, is the last
_TOGETHER = 10  # fits that are solved together, so that one product serves them all


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
        """Solves some fits at a time."""
        rows = _Rows(features, labels)

        def train(fits: Sequence[Fit], done: Callable[[int], None]) -> list[list[Fitted]]:
            fitted = []
            for first in range(0, len(fits), _TOGETHER):
                some = fits[first : first + _TOGETHER]
                fitted += rows.fit(some)
                done(sum(len(fit.regularisers) for fit in some))
            return fitted

        return train


class _Rows:
    """All rows of a set, along the principal axes of their features, with a column of ones.

    Along these axes the curvature of the loss is at most a known number each, whatever the weights: a quarter
    of the summed squares for two classes, half of them for more (Böhning 1992, doi:10.1007/BF00048682).
    """

    def __init__(self, features: np.ndarray, labels: np.ndarray) -> None:
        classes = int(labels.max()) + 1
        self.mean = features.mean(axis=0, dtype=np.float64)  # (dim,)
        centred = torch.from_numpy(features - self.mean)  # (rows, dim), float64
        squares, self.axes = torch.linalg.eigh(centred.T @ centred)  # (dim,) and (dim, dim)
        ones = torch.ones(len(features), 1, dtype=torch.float64)
        self.table = torch.cat([centred @ self.axes, ones], dim=1).float()  # (rows, dim + 1)
        squares = torch.cat([squares.clamp(min=0), ones.sum(dim=0)])  # (dim + 1,)
        self.curvature = squares / (4 if classes == 2 else 2)
        self.labels = torch.from_numpy(labels)  # (rows,)
        self.gold = one_hot(self.labels, classes).T.float()[-1 if classes == 2 else 0 :]  # (logits, rows)

    def fit(self, fits: Sequence[Fit]) -> list[list[Fitted]]:
        """The classifiers of fits that have equally many."""
        penalty = 1 / torch.tensor([fit.regularisers for fit in fits], dtype=torch.float64)
        penalty = penalty[:, :, None, None].repeat(1, 1, 1, len(self.curvature))  # (fits, each, 1, dim + 1)
        penalty[..., -1] = 0  # the intercept
        # In this unit the curvature is at most 1 along every axis.
        unit = (self.curvature + penalty).rsqrt()  # (fits, each, 1, dim + 1)
        scale, decay = unit.float(), (penalty * unit**2).float()
        used = torch.zeros(len(fits), 1, 1, len(self.table))  # 1 for rows that are trained on
        for place, fit in enumerate(fits):
            used[place, ..., torch.from_numpy(fit.train)] = 1

        def gradient(weights: Tensor) -> Tensor:
            logits = self.logits(weights * scale)  # (fits, each, logits, rows)
            probability = logits.sigmoid_() if len(self.gold) == 1 else logits.softmax(dim=2)
            residual = probability.sub_(self.gold).mul_(used)
            return (residual.flatten(0, 2) @ self.table).view_as(weights) * scale + decay * weights

        start = torch.zeros(len(fits), penalty.shape[1], len(self.gold), penalty.shape[-1])
        weights = minimise(gradient, start) * scale  # (fits, each, logits, dim + 1)
        logits = self.logits(weights)
        predicted = (logits > 0).long()[:, :, 0] if len(self.gold) == 1 else logits.argmax(dim=2)
        right = (predicted == self.labels).numpy()  # (fits, each, rows)
        return [
            [
                Fitted(float(own[fit.held_out].mean()) if len(fit.held_out) else np.nan, self.plain(each))
                for own, each in zip(right[place], weights[place], strict=True)
            ]
            for place, fit in enumerate(fits)
        ]

    def logits(self, weights: Tensor) -> Tensor:
        """Weights ``(fits, each, logits, dim + 1)``, result ``(fits, each, logits, rows)``."""
        return (weights.flatten(0, 2) @ self.table.T).view(*weights.shape[:3], -1)

    def plain(self, weights: Tensor) -> np.ndarray:
        """From ``(logits, dim + 1)`` to float64 weights of the given features, ``(classes, dim + 1)``."""
        turned = (weights[:, :-1].double() @ self.axes.T).numpy()  # (logits, dim)
        bias = weights[:, -1].double().numpy() - turned @ self.mean  # (logits,)
        both = np.concatenate([turned, bias[:, None]], axis=1)
        return both if len(both) > 1 else np.concatenate([np.zeros_like(both), both])


def minimise(gradient: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """The minima of convex functions whose curvature is at most 1, one along the first two dimensions.

    Limited-memory BFGS (Nocedal 1980, doi:10.1090/S0025-5718-1980-0572855-7) with steps of length 1, all
    functions together. The slope of a convex function along a step only grows: where it turns and gets large,
    the step went too far; it is taken back, and the next is one of gradient descent, which cannot.
    """
    here, slope = start, gradient(start)  # (fits, each, logits, dim + 1)
    past: list[tuple[Tensor, Tensor, Tensor]] = []  # steps, changes of the slope, 1 / their product
    for _ in range(_STEPS):
        step, shares = slope, []
        for before, change, weight in reversed(past):
            shares.append(weight * _dot(before, step))  # (fits, each, 1, 1)
            step = step - shares[-1] * change
        for before, change, weight in past:
            step = step + (shares.pop() - weight * _dot(change, step)) * before
        step = -step
        found = gradient(here + step)
        good = _dot(found, step) <= -_dot(slope, step) / 2  # (fits, each, 1, 1)
        product = _dot(step, found - slope)
        past = [*past[1 - _MEMORY :], (step, found - slope, torch.where(product > 1e-30, 1 / product, 0))]
        past = [(before, change, torch.where(good, weight, 0)) for before, change, weight in past]
        here, slope = torch.where(good, here + step, here), torch.where(good, found, slope)
        if (_dot(step, step) <= _SHORT**2 * _dot(here, here)).all():
            break
    return here


def _dot(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum(dim=(2, 3), keepdim=True)
