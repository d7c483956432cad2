"""SentEval's validation with its convex classifier: logistic regression, solved accurately.

The published scores come from another classifier, trained by Adam and stopped early; `fast` is for use
during research. Folds, regularisers, rounding and the choice are those of the toolkit where it is told to use
scikit-learn (SentEval, senteval/tools/validation.py). Departure from it: scikit-learn stops earlier, up to a
quarter of the weights' length away from the minimum. Nothing is drawn but the folds, and all sums are made on
one thread, so the same vectors give the same scores.

Everywhere features are float32, ``(rows, dim)``, labels are integers, ``(rows,)``, and `progress` is called
with the number of fits that are done and that of all. A training feature that is not finite, or a single
class, is a ValueError.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from embedrun.evaluation.classifier import Outcome, stratified
from embedrun.evaluation.scores import Progress, unheard

# Scale² × rows from which on float32 is not enough: the penalty of a row is 1 / (C scale² rows).
_EXACT_FROM = 2e7


class Scaling:
    """Centre features on 0, scale them to a root mean square length of 1, and add a column of ones.

    The intercept absorbs the centre and the penalty the scale, so the classifier stays the same; single
    precision is then enough whatever the features' unit. A feature that is not finite is a ValueError.
    """

    def __init__(self, features: np.ndarray) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            self.mean = features.mean(axis=0, dtype=np.float64).astype(np.float32)  # (dim,)
            square = np.square(features - self.mean).sum(axis=1, dtype=np.float64).mean()
        if not np.isfinite(square):
            raise ValueError(
                "senteval: the model gives vectors that are not finite; they cannot be classified"
            )
        self.scale = float(np.sqrt(square)) or 1.0
        # Far below 1e-8 the penalty of a row drowns in rounding, as with the states of large models.
        exact = self.scale**2 * len(features) > _EXACT_FROM
        self.dtype = torch.float64 if exact else torch.float32

    def __call__(self, features: np.ndarray) -> Tensor:
        """The scaled features and ones, of type `dtype`, ``(rows, dim + 1)``."""
        scaled = torch.ones(len(features), features.shape[1] + 1, dtype=self.dtype)  # (rows, dim + 1)
        scaled[:, :-1] = torch.from_numpy((features - self.mean) / np.float32(self.scale))
        return scaled

    def penalties(self, regularisers: Sequence[float]) -> Tensor:
        """1 / C of the scaled features, ``(regularisers,)``."""
        return torch.tensor([1 / (value * self.scale**2) for value in regularisers], dtype=self.dtype)


class Blocks:
    """The rows of several fits in blocks, such as folds; a fit has all blocks, or all but one.

    Two classes have one logit, more have one each. Fewer than two are a ValueError.

    Args:
        features: of all rows, the last column ones, float32, ``(rows, dim + 1)``.
        classes: of each row, from 0, int64, ``(rows,)``; `count` of them in all.
        members: the rows of each block.
    """

    def __init__(self, features: Tensor, classes: Tensor, count: int, members: Sequence[np.ndarray]) -> None:
        if count < 2:
            raise ValueError(f"senteval: a classifier needs two classes at least, got {count}")
        sizes = [len(block) for block in members]
        order = torch.from_numpy(np.concatenate(members))  # (rows,)
        self.width, self.dtype = features.shape[1], features.dtype
        self.features = features[order].split(sizes)  # (rows, dim + 1) each
        self.classes = classes[order].split(sizes)  # (rows,) each
        hot = one_hot(classes[order], count).T.to(features.dtype)  # (classes, rows)
        self.target = (hot[1:] if count == 2 else hot).split(sizes, dim=1)  # (logits, rows) each
        self.sizes = torch.tensor(sizes)  # (blocks,)
        self.rows, self.logits = len(order), 1 if count == 2 else count

    def logits_of(self, weights: Tensor, block: int) -> Tensor:
        """Weights ``(fits, logits, dim + 1)``, result ``(fits, logits, rows)``."""
        flat = weights.reshape(-1, weights.shape[-1])  # (fits x logits, dim + 1)
        return (flat @ self.features[block].T).view(len(weights), self.logits, -1)

    def probabilities(self, weights: Tensor, block: int) -> Tensor:
        """Of each logit's class: weights ``(fits, logits, dim + 1)``, result ``(fits, logits, rows)``."""
        logit = self.logits_of(weights, block)  # (fits, logits, rows)
        return logit.sigmoid_() if self.logits == 1 else logit.softmax(1)

    def gradients(self, weights: Tensor) -> Tensor:
        """Of the summed negative log likelihood, by block, ``(blocks, fits, logits, dim + 1)``."""
        return torch.stack([self._gradient(weights, block) for block in range(len(self.features))])

    def gradient(self, weights: Tensor, left_out: Tensor) -> Tensor:
        """Of the summed negative log likelihood, without the block that each fit leaves out.

        Weights are ``(fits, logits, dim + 1)``; `left_out`, ``(fits,)``, is -1 for none.
        """
        total = torch.zeros_like(weights)  # (fits, logits, dim + 1)
        for block in range(len(self.features)):
            total += self._gradient(weights, block, left_out == block)
        return total

    def _gradient(self, weights: Tensor, block: int, without: Tensor | None = None) -> Tensor:
        residual = self.probabilities(weights, block).sub_(self.target[block])  # (fits, logits, rows)
        if without is not None:
            residual[without] = 0
        flat = residual.view(-1, residual.shape[-1])  # (fits x logits, rows)
        return (flat @ self.features[block]).view_as(weights)

    def curvature(self, weights: Tensor | None = None) -> Tensor:
        """A Hessian of the mean negative log likelihood, by logit, ``(logits, dim + 1, dim + 1)``.

        With more than two classes the parts between two logits are left out and the others are scaled by
        K / (K - 1), which is exact for equal probabilities. It is taken at the weights ``(logits, dim + 1)``;
        None for 0, where the logits share one, ``(1, ...)``.
        """
        logits = 1 if weights is None else self.logits
        total = torch.zeros(logits, self.width, self.width, dtype=self.dtype)
        for block, features in enumerate(self.features):
            for own, spread in zip(total, self._spread(weights, block), strict=True):
                own.addmm_((features * spread[:, None]).T, features)
        return total / self.rows

    def _spread(self, weights: Tensor | None, block: int) -> Tensor:
        """p (1 - p) of each row, scaled, ``(logits, rows)``."""
        if weights is None:
            equal = 1 / 4 if self.logits == 1 else 1 / self.logits
            return torch.full((1, len(self.features[block])), equal, dtype=self.dtype)
        probability = self.probabilities(weights[None], block)[0]  # (logits, rows)
        scale = 1 if self.logits == 1 else self.logits / (self.logits - 1)
        return scale * probability * (1 - probability)

    def predict(self, weights: Tensor, block: int) -> Tensor:
        """The class of each row of a block: weights ``(fits, logits, dim + 1)``, result ``(fits, rows)``."""
        return decide(self.logits_of(weights, block))

    def held_out(self, weights: Tensor) -> np.ndarray:
        """The accuracy on each block of the fits without it, in [0, 1], ``(penalties, blocks)``.

        Weights are ``(penalties, blocks, logits, dim + 1)``.
        """
        correct = [self.predict(weights[:, block], block) == own for block, own in enumerate(self.classes)]
        return np.stack([found.numpy().mean(axis=1) for found in correct], axis=1)


def decide(logit: Tensor) -> Tensor:
    """The likelier class, int64: logits ``(..., logits, rows)``, result ``(..., rows)``."""
    return (logit[..., 0, :] > 0).long() if logit.shape[-2] == 1 else logit.argmax(-2)


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


# Of features whose root mean square length is 1; scikit-learn stops at 1e-4, of features as they are.
_FLAT = 1e-5  # the largest gradient entry
_SHORT = 5e-4  # the next step's share of the weights
_ROUGH = 0.1  # the same, where the curvature is taken once more


class Curvatures:
    """Inverse Hessians that serve fits nearby: with a block left out, and with the next penalty.

    They are taken at the weights of each penalty, ``(penalties, logits, dim + 1)``; None for 0.
    """

    def __init__(self, blocks: Blocks, penalties: Tensor, weights: Tensor | None = None) -> None:
        self.inverse = []  # (logits or 1, dim + 1, dim + 1) of every second penalty
        places = range(0, len(penalties), 2)
        found = map(blocks.curvature, weights[::2]) if weights is not None else repeat(blocks.curvature())
        for place, mean in zip(places, found, strict=False):
            hessian = mean.double().clone()  # a copy: those at 0 are one
            # The intercept has no penalty; here it gets one, or its row could be all but zero.
            hessian.diagonal(dim1=1, dim2=2).add_(penalties[place] / blocks.rows)
            self.inverse.append(torch.cholesky_inverse(torch.linalg.cholesky(hessian)).to(mean.dtype))

    def times(self, penalty: Tensor, gradient: Tensor) -> Tensor:
        """The inverse Hessian of each fit's penalty times its gradient, both ``(fits, logits, dim + 1)``."""
        product = torch.empty_like(gradient)
        for place, inverse in enumerate(self.inverse):
            own = (penalty // 2 == place).nonzero()[:, 0]  # (own,)
            if len(own):
                product[own] = (gradient[own].transpose(0, 1) @ inverse).transpose(0, 1)
        return product


def fit(blocks: Blocks, penalties: Tensor) -> tuple[Tensor, Curvatures]:
    r"""One fit to all rows for each penalty.

    Each minimises

    .. math:: \frac1n \sum_{i=1}^n -\log p(y_i \mid x_i) + \frac{1}{2 C n} \lVert W \rVert^2

    over the weights and the intercepts, which have no penalty: scikit-learn's `LogisticRegression(C=C)`.
    `penalties` are 1 / C each, sorted, ``(penalties,)``. Returns the weights, the intercept last,
    ``(penalties, logits, dim + 1)``, and the curvatures near them.
    """
    weights = torch.zeros(len(penalties), blocks.logits, blocks.width, dtype=blocks.dtype)
    nobody = torch.full_like(penalties, -1, dtype=torch.long)  # (penalties,)
    rows = torch.full_like(penalties, blocks.rows)  # (penalties,)
    curvatures = Curvatures(blocks, penalties)
    for flat, short in ((torch.inf, _ROUGH), (_FLAT, _SHORT)):
        fits = _Fits(blocks, penalties, torch.arange(len(penalties)), nobody, rows, curvatures)
        first = fits.mean_gradient(weights, blocks.gradient(weights, nobody))
        weights = fits.solve(weights, first, flat, short)
        if short == _ROUGH:
            curvatures = Curvatures(blocks, penalties, weights)
    return weights, curvatures


def fit_without(blocks: Blocks, penalties: Tensor, start: Tensor, curvatures: Curvatures) -> Tensor:
    """One fit for each penalty and block, to all rows but the block's.

    The minimum is unique: the starting point decides only how long the search takes. `penalties` are 1 / C
    each, ``(penalties,)``; `start` has weights for each, best those of all rows, ``(penalties, logits, dim +
    1)``; `curvatures` are those of these or nearly these rows. Returns the weights, the intercept last,
    ``(penalties, blocks, logits, dim + 1)``.
    """
    count = len(blocks.sizes)
    penalty = torch.arange(len(penalties)).repeat_interleave(count)  # (penalties x blocks,)
    left_out = torch.arange(count).repeat(len(penalties))  # (penalties x blocks,)
    rows = blocks.rows - blocks.sizes[left_out].to(penalties.dtype)  # (penalties x blocks,)
    fits = _Fits(blocks, penalties[penalty], penalty, left_out, rows, curvatures)
    weights = start[penalty]  # (penalties x blocks, logits, dim + 1)
    by_block = blocks.gradients(start)  # (blocks, penalties, logits, dim + 1)
    sums = (by_block.sum(0) - by_block).transpose(0, 1).reshape_as(weights)
    found = fits.solve(weights, fits.mean_gradient(weights, sums), _FLAT, _SHORT)
    return found.view(len(penalties), count, *found.shape[1:])


class _Fits:
    """Fits that are solved together.

    Args:
        strength: 1 / C of each, ``(fits,)``.
        penalty: its index among those of `curvatures`, ``(fits,)``.
        left_out: the block that it leaves out, -1 for none, ``(fits,)``.
        rows: how many rows it has, ``(fits,)``.
    """

    def __init__(
        self,
        blocks: Blocks,
        strength: Tensor,
        penalty: Tensor,
        left_out: Tensor,
        rows: Tensor,
        curvatures: Curvatures,
    ) -> None:
        self.blocks, self.curvatures = blocks, curvatures
        self.strength, self.penalty = strength, penalty
        self.left_out, self.rows = left_out, rows

    def mean_gradient(self, weights: Tensor, sums: Tensor, which: Tensor | slice = slice(None)) -> Tensor:
        """Of the objective, from the summed gradients of the rows, both ``(which, logits, dim + 1)``."""
        decay = weights * self.strength[which, None, None]
        decay[..., -1] = 0  # the intercept
        return (sums + decay) / self.rows[which, None, None]

    def solve(self, start: Tensor, first: Tensor, flat: float, short: float) -> Tensor:
        """The weights, ``(fits, logits, dim + 1)``, from those to start with and their gradient."""
        shape = start.shape[1:]

        def gradient(weights: Tensor, which: Tensor) -> Tensor:
            weights = weights.view(-1, *shape)  # (which, logits, dim + 1)
            sums = self.blocks.gradient(weights, self.left_out[which])
            return self.mean_gradient(weights, sums, which).flatten(1)

        def newton(slope: Tensor, which: Tensor) -> Tensor:
            return self.curvatures.times(self.penalty[which], slope.view(-1, *shape)).flatten(1)

        return minimise(gradient, newton, start.flatten(1), first.flatten(1), flat=flat, short=short).view_as(
            start
        )


# C of scikit-learn's LogisticRegression, by how it is chosen.
NESTED = SPLIT = tuple(2.0**power for power in range(-2, 4))
KFOLD = tuple(2.0**power for power in range(-1, 6))
FOLDS = 10
_SEED = 1111  # of the folds
_BLOCK = 1024  # rows that stay in the processor's cache from the first product of a step to the second


@contextmanager
def _one_thread() -> Iterator[None]:
    """The products are small: threads gain little, and on a busy machine they wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@_one_thread()
def fast_nested(
    features: np.ndarray, labels: np.ndarray, progress: Progress = unheard, *, folds: int = FOLDS
) -> Outcome:
    """Nested cross-validation: MR, CR, SUBJ, MPQA.

    Each outer fold is scored by a classifier of the other nine, whose regulariser had the best mean accuracy
    in a cross-validation within them. `dev` is the mean of these best accuracies. Only the first `folds`
    outer folds are scored; the rows of the others have the first class in `predicted`.
    """
    scaling, (names, classes) = Scaling(features), np.unique(labels, return_inverse=True)
    rows, known = scaling(features), torch.from_numpy(classes)  # (rows, dim + 1), (rows,)
    penalties, fits = scaling.penalties(NESTED), len(NESTED) * FOLDS
    outer = stratified(labels, FOLDS, _SEED)
    blocks = Blocks(rows, known, len(names), [held_out for _, held_out in outer])
    centre, curvatures = fit(blocks, penalties)
    without = fit_without(blocks, penalties, centre, curvatures)  # (penalties, folds, logits, dim + 1)
    dev, test, chosen = [], [], []
    predicted = np.zeros_like(classes)  # (rows,)
    for fold, (train, held_out) in enumerate(outer[:folds]):
        progress(fits * (fold + 1), fits * (folds + 1))
        inner = [train[part] for _, part in stratified(labels[train], FOLDS, _SEED)]
        part = Blocks(rows, known, len(names), inner)
        weights = fit_without(part, penalties, without[:, fold], curvatures)
        best, accuracy = _first_best(part.held_out(weights).mean(axis=1))
        predicted[held_out] = blocks.predict(without[best, fold, None], fold)[0].numpy()
        test.append(_percent(np.mean(predicted[held_out] == classes[held_out])))
        dev.append(accuracy)
        chosen.append(NESTED[best])
    progress(fits * (folds + 1), fits * (folds + 1))
    return Outcome(_mean(dev), _mean(test), names[predicted].astype(np.int64), chosen)


@_one_thread()
def fast_kfold(
    train: np.ndarray,
    labels: np.ndarray,
    test: np.ndarray,
    test_labels: np.ndarray,
    progress: Progress = unheard,
) -> Outcome:
    """Cross-validation on the training rows chooses the regulariser for the test rows: TREC, MRPC."""
    scaling, (names, classes) = Scaling(train), np.unique(labels, return_inverse=True)
    penalties, fits = scaling.penalties(KFOLD), len(KFOLD) * (FOLDS + 1)
    members = [held_out for _, held_out in stratified(labels, FOLDS, _SEED)]
    blocks = Blocks(scaling(train), torch.from_numpy(classes), len(names), members)
    weights, curvatures = fit(blocks, penalties)  # (penalties, logits, dim + 1)
    progress(len(KFOLD), fits)
    without = fit_without(blocks, penalties, weights, curvatures)
    progress(fits, fits)
    best, dev = _first_best(blocks.held_out(without).mean(axis=1))
    predicted = names[_classify(scaling, weights[best], test)].astype(np.int64)
    return Outcome(dev, _percent(np.mean(predicted == test_labels)), predicted, [KFOLD[best]])


@_one_thread()
def fast_split(
    train: np.ndarray,
    labels: np.ndarray,
    dev: np.ndarray,
    dev_labels: np.ndarray,
    test: np.ndarray,
    test_labels: np.ndarray,
    progress: Progress = unheard,
) -> Outcome:
    """The regulariser that is best on a dev split scores the test split: SST2."""
    scaling, (names, classes) = Scaling(train), np.unique(labels, return_inverse=True)
    penalties = scaling.penalties(SPLIT)
    members = np.array_split(np.arange(len(train)), -(-len(train) // _BLOCK))
    blocks = Blocks(scaling(train), torch.from_numpy(classes), len(names), members)
    weights, _ = fit(blocks, penalties)  # (penalties, logits, dim + 1)
    progress(len(SPLIT), len(SPLIT))
    found = [names[_classify(scaling, each, dev)] for each in weights]  # (dev rows,) each
    best, accuracy = _first_best([float(np.mean(each == dev_labels)) for each in found])
    predicted = names[_classify(scaling, weights[best], test)].astype(np.int64)
    return Outcome(accuracy, _percent(np.mean(predicted == test_labels)), predicted, [SPLIT[best]])


def _classify(scaling: Scaling, weights: Tensor, features: np.ndarray) -> np.ndarray:
    """The place of each row's class: weights ``(logits, dim + 1)``, result ``(rows,)``."""
    return decide(weights @ scaling(features).T).numpy()


def _first_best(accuracies: Sequence[float] | np.ndarray) -> tuple[int, float]:
    """The first of the greatest accuracies × 100 to two decimals, and its value."""
    rounded = [_percent(accuracy) for accuracy in accuracies]
    best = int(np.argmax(rounded))
    return best, rounded[best]


def _percent(accuracy: float | np.floating) -> float:
    return round(100 * float(accuracy), 2)


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 2)
