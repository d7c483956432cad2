"""The published classifier of SentEval: a linear layer and cross-entropy, trained by Adam in minibatches.

SentEval trains one classifier at a time; here those of several regularisers that share their rows, and so
their minibatches, are one `Fit`, which numba compiles. The softmax is of logits minus that of class 0, so
K classes are K - 1 products a row and classifier; the gradient of class 0 is minus the sum of the others.
That is half the work for two classes. Four rows and four outputs are worked on at a time, in registers.

In the shapes below `width` is the number of features rounded up to a multiple of 16, a cache line; in
weights the bias follows, and zeros up to `width + 16`. What belongs to an added feature starts at zero and
stays there. `outputs` is classifiers × (K - 1) rounded up to a multiple of 4; an added one has no weights.

The compiled functions write what they compute into an argument; they have in common, floats in float32 and
whole numbers in int64: `features` of all rows, ``(all rows, width)``, and their `labels`; `batch`, the rows
of a minibatch, and `gold`, their classes, ``(64,)`` each; `others`, the classes minus 1; `decays`,
``(classifiers,)``; `state`, the weights and the running means of their gradient and of its square,
``(3, classifiers, classes, width + 16)``; `less`, weights minus those of class 0, ``(outputs, width + 16)``.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache

import numpy as np
import torch
from numba import float32, int32, njit

from embedrun.evaluation.classifier import Fit, Fitted, Trainer

DECAYS = (1e-5, 1e-4, 1e-3, 1e-2)  # of the weights, of the bias too: the gradient gets decay × weight
HELD_OUT = 0.05  # of the rows, where the chosen classifier is trained once more
BATCH = 64  # rows; the last of an epoch may have fewer
EPOCHS = 4  # of a round, after which the held-out rows are scored
MOST_EPOCHS = 200  # no round begins after more
TENACITY = 5  # rounds without a better accuracy, in all, that do not stop it yet
RATE = 1e-3  # of Adam, and its other constants: PyTorch's defaults
BETAS = (0.9, 0.999)
EPSILON = 1e-8


class Adam:
    """Validated with DECAYS; `seed` is that of initial weights, minibatches and folds.

    What SentEval draws from NumPy's legacy generator after seeding it for a classifier: a classifier that
    holds out some of its rows itself first draws one permutation of all of them; each classifier then draws
    one of its training rows for each epoch.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def regularisers(self, splits: int) -> tuple[float, ...]:
        """Weight decays."""
        return DECAYS

    def last(self, rows: np.ndarray, regulariser: float) -> Fit:
        """The chosen classifier holds out a part of the rows itself, for early stopping."""
        order = rows[np.random.RandomState(self.seed).permutation(len(rows))]  # (rows,)
        held_out = int(HELD_OUT * len(rows))
        return Fit(order[held_out:], order[:held_out], (regulariser,), drawn=len(rows))

    def trainer(self, features: np.ndarray, labels: np.ndarray) -> Trainer:
        """As many threads work as torch has; the result is the same for any number."""
        dim = features.shape[1]
        start = initial(self.seed, dim, int(labels.max()) + 1)  # (classes, dim + 1)
        table = _aligned(len(features), -(-dim // _LINE) * _LINE)  # (rows, width)
        table[:, :dim] = features
        orders = _orders(self.seed)

        def train(fits: Sequence[Fit], done: Callable[[int], None]) -> list[list[Fitted]]:
            pool = ThreadPoolExecutor(torch.get_num_threads())
            try:
                work = {pool.submit(_train, table, labels, fit, orders, start): fit for fit in fits}
                for future in as_completed(work):
                    future.result()  # a fault ends the work here
                    done(len(work[future].regularisers))
                return [future.result() for future in work]
            finally:
                pool.shutdown(cancel_futures=True)

        return train


class Course:
    """How the training of one classifier went so far, and early stopping.

    The count of rounds without a better accuracy is never reset, as in SentEval.
    """

    def __init__(self, held_out: int) -> None:
        self.goes_on = True
        self._held_out, self._best, self._worse, self._rounds = held_out, -1, 0, 0
        self._kept = np.empty(0)

    def see(self, correct: int, weights: np.ndarray) -> None:
        """Record the result of a round.

        `correct` counts the held-out rows that are classified correctly. The weights, ``(classes, dim + 1)``,
        are copied where they are kept.
        """
        self._rounds += 1
        if correct > self._best:
            self._best, self._kept = correct, weights.copy()
        elif self._worse >= TENACITY:
            self.goes_on = False
        else:
            self._worse += 1
        self.goes_on &= EPOCHS * self._rounds <= MOST_EPOCHS

    def end(self) -> Fitted:
        """The classifier that is kept."""
        return Fitted(self._best / self._held_out, self._kept, self._rounds)


def initial(seed: int, dim: int, classes: int) -> np.ndarray:
    """The initial weights of `torch.nn.Linear(dim, classes)` after `torch.manual_seed(seed)`.

    The bias is last; float32, ``(classes, dim + 1)``.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = torch.empty(classes, dim + 1)
    matrix = torch.nn.init.kaiming_uniform_(torch.empty(classes, dim), a=math.sqrt(5), generator=generator)
    weights[:, :-1] = matrix
    weights[:, -1].uniform_(-1 / math.sqrt(dim), 1 / math.sqrt(dim), generator=generator)
    return weights.numpy()


_options = {"nogil": True, "fastmath": True, "error_model": "numpy", "cache": True}
_NEW_FIRST, _NEW_SECOND = float32(1 - BETAS[0]), float32(1 - BETAS[1])
_OLD_SECOND, _EPSILON = float32(BETAS[1]), float32(EPSILON)


@njit(**_options)
def exp(x):
    """e to a float32 of at most 0, to 2e-7 of itself; the compiler makes it 16 at a time, `math.exp` not."""
    x = max(x, float32(-87.0))  # below it the result has no float32 of full precision
    power = np.floor(x * float32(1 / math.log(2)) + float32(0.5))  # of 2
    # ln 2 = 355/512 - 2.12e-4: the first part has few bits, so its product is exact.
    rest = x - power * float32(355 / 512) - power * float32(math.log(2) - 355 / 512)
    value = float32(1 / 5040)  # the series of e to the rest, which is at most ln 2 / 2 from 0
    value = value * rest + float32(1 / 720)
    value = value * rest + float32(1 / 120)
    value = value * rest + float32(1 / 24)
    value = value * rest + float32(1 / 6)
    value = value * rest + float32(1 / 2)
    value = value * rest + float32(1)
    value = value * rest + float32(1)
    bits = (int32(power) + int32(127)) << int32(23)  # of the float32 that is 2 to the power
    return value * np.int32(bits).view(np.float32)


@njit(**_options)
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


@njit(**_options)
def _add(sums, x, w):
    return sums[0] + x * w[0], sums[1] + x * w[1], sums[2] + x * w[2], sums[3] + x * w[3]


@njit(**_options)
def products(features, batch, less, logits):
    """Logits of a minibatch minus those of class 0, into `logits`, ``(outputs, 64)``."""
    width = features.shape[1]
    for o in range(0, len(less), 4):
        w0, w1, w2, w3 = less[o], less[o + 1], less[o + 2], less[o + 3]  # (width + 16,) each
        for r in range(0, BATCH, 4):
            x0, x1 = features[batch[r]], features[batch[r + 1]]  # (width,) each
            x2, x3 = features[batch[r + 2]], features[batch[r + 3]]
            a = b = c = d = (w0[width], w1[width], w2[width], w3[width])  # the biases
            for i in range(width):
                w = (w0[i], w1[i], w2[i], w3[i])
                a, b, c, d = _add(a, x0[i], w), _add(b, x1[i], w), _add(c, x2[i], w), _add(d, x3[i], w)
            logits[o, r], logits[o + 1, r], logits[o + 2, r], logits[o + 3, r] = a
            logits[o, r + 1], logits[o + 1, r + 1], logits[o + 2, r + 1], logits[o + 3, r + 1] = b
            logits[o, r + 2], logits[o + 1, r + 2], logits[o + 2, r + 2], logits[o + 3, r + 2] = c
            logits[o, r + 3], logits[o + 1, r + 3], logits[o + 2, r + 3], logits[o + 3, r + 3] = d


@njit(**_options)
def residuals(values, gold, size, classifiers, others, peak, total):
    """From logits to the residuals that weight each row in the gradient of the mean cross-entropy, in place.

    `values`, ``(outputs, 64)``, has logits minus those of class 0; then probability, minus 1 where it is the
    gold class, over the number of rows, `size`; 0 beyond them. `peak` and `total`, ``(64,)``, are scratch.
    """
    share, rows = float32(1 / size), values.shape[1]
    for first in range(0, classifiers * others, others):
        for r in range(rows):
            peak[r] = 0  # the logit of class 0
        for o in range(first, first + others):
            output = values[o]  # (64,)
            for r in range(rows):
                peak[r] = max(peak[r], output[r])
        for r in range(rows):
            total[r] = exp(-peak[r])
        for o in range(first, first + others):
            output = values[o]
            for r in range(rows):
                output[r] = exp(output[r] - peak[r])
                total[r] += output[r]
        for o in range(first, first + others):
            output = values[o]
            for r in range(rows):
                hit = float32(1) if gold[r] == o - first + 1 else float32(0)
                output[r] = share * (output[r] / total[r] - hit)
            output[size:] = 0


@njit(**_options)
def gradients(features, batch, weigh, gradient):
    """The gradients of all weights but those of class 0, into `gradient`, ``(outputs, width + 16)``.

    `weigh` is the residual of each row, ``(outputs, 64)``.
    """
    width = features.shape[1]
    gradient[:] = 0
    for o in range(0, len(gradient), 4):
        g0, g1, g2, g3 = gradient[o], gradient[o + 1], gradient[o + 2], gradient[o + 3]  # (width + 16,) each
        for r in range(0, BATCH, 4):
            x0, x1 = features[batch[r]], features[batch[r + 1]]  # (width,) each
            x2, x3 = features[batch[r + 2]], features[batch[r + 3]]
            a = (weigh[o, r], weigh[o, r + 1], weigh[o, r + 2], weigh[o, r + 3])
            b = (weigh[o + 1, r], weigh[o + 1, r + 1], weigh[o + 1, r + 2], weigh[o + 1, r + 3])
            c = (weigh[o + 2, r], weigh[o + 2, r + 1], weigh[o + 2, r + 2], weigh[o + 2, r + 3])
            d = (weigh[o + 3, r], weigh[o + 3, r + 1], weigh[o + 3, r + 2], weigh[o + 3, r + 3])
            for i in range(width):
                x = (x0[i], x1[i], x2[i], x3[i])
                g0[i] += _dot(a, x)
                g1[i] += _dot(b, x)
                g2[i] += _dot(c, x)
                g3[i] += _dot(d, x)
        for k in range(4):
            gradient[o + k, width] = weigh[o + k].sum()  # of the bias


@njit(**_options)
def _adam(weights, mean, square, gradient, decay, rate, scale):
    """One step of Adam on one class of one classifier, in place; all ``(width + 16,)``."""
    for i in range(len(weights)):
        slope = gradient[i] + decay * weights[i]
        mean[i] += _NEW_FIRST * (slope - mean[i])
        square[i] = _OLD_SECOND * square[i] + _NEW_SECOND * slope * slope
        weights[i] -= rate * mean[i] / (np.sqrt(square[i]) * scale + _EPSILON)


@njit(**_options)
def update(state, gradient, decays, step, less, zero):
    """One step of Adam, from 1, on every classifier: changes `state` and `less`.

    `gradient` is of the classes but 0, as `less`; `zero` is scratch for that of class 0, ``(width + 16,)``.
    """
    rate = float32(RATE / (1 - BETAS[0] ** step))
    scale = float32(1 / math.sqrt(1 - BETAS[1] ** step))
    weights, mean, square = state[0], state[1], state[2]  # (classifiers, classes, width + 16) each
    for r in range(weights.shape[0]):
        first = r * (weights.shape[1] - 1)
        zero[:] = 0
        for k in range(1, weights.shape[1]):
            row = gradient[first + k - 1]
            for i in range(len(zero)):
                zero[i] -= row[i]
            _adam(weights[r, k], mean[r, k], square[r, k], row, decays[r], rate, scale)
        _adam(weights[r, 0], mean[r, 0], square[r, 0], zero, decays[r], rate, scale)
        for k in range(1, weights.shape[1]):
            difference(weights[r, k], weights[r, 0], less[first + k - 1])


@njit(**_options)
def difference(a, b, result):
    """`a - b`, into `result`, ``(width + 16,)`` each."""
    for i in range(len(result)):
        result[i] = a[i] - b[i]


@njit(**_options)
def train_steps(features, labels, rows, orders, state, decays, less, steps):
    """Train the classifiers of one fit for some epochs, in place; returns the `steps` taken so far.

    `rows` are those to train on, ``(rows,)``, and `orders` places in them, one order an epoch,
    ``(epochs, rows)``.
    """
    batch, gold = np.zeros(BATCH, np.int64), np.zeros(BATCH, np.int64)
    values, gradient = np.empty((len(less), BATCH), np.float32), np.empty_like(less)
    peak, total = np.empty(BATCH, np.float32), np.empty(BATCH, np.float32)
    zero = np.empty(less.shape[1], np.float32)
    for order in orders:
        for start in range(0, len(order), BATCH):
            size = min(BATCH, len(order) - start)
            for r in range(size):
                batch[r] = rows[order[start + r]]
                gold[r] = labels[batch[r]]
            products(features, batch, less, values)
            residuals(values, gold, size, len(decays), state.shape[2] - 1, peak, total)
            gradients(features, batch, values, gradient)
            steps += 1
            update(state, gradient, decays, steps, less, zero)
    return steps


@njit(**_options)
def correct(features, labels, rows, less, others, right):
    """Count the `rows` that each classifier has right, into `right`, ``(classifiers,)``.

    Of equal logits the first class counts.
    """
    batch, logits = np.zeros(BATCH, np.int64), np.empty((len(less), BATCH), np.float32)
    right[:] = 0
    for start in range(0, len(rows), BATCH):
        size = min(BATCH, len(rows) - start)
        batch[:size] = rows[start : start + size]
        products(features, batch, less, logits)
        for c in range(len(right)):
            for r in range(size):
                best, guess = float32(0), 0
                for k in range(others):
                    if logits[c * others + k, r] > best:
                        best, guess = logits[c * others + k, r], k + 1
                right[c] += guess == labels[batch[r]]


_LINE = 16  # float32 in a line of the cache
Orders = Callable[[int, int, int], np.ndarray]  # round from 0, rows, `Fit.drawn` -> int32, (epochs, rows)


def _orders(seed: int) -> Orders:
    """The orders of one round; kept, because fits of equally many rows have the same."""

    @cache
    def draw(index: int, rows: int, drawn: int) -> tuple[np.ndarray, dict]:
        generator = np.random.RandomState(seed)
        if index:
            generator.set_state(draw(index - 1, rows, drawn)[1])
        elif drawn:
            generator.permutation(drawn)
        orders = np.stack([generator.permutation(rows) for _ in range(EPOCHS)]).astype(np.int32)
        return orders, generator.get_state(legacy=False)

    return lambda index, rows, drawn: draw(index, rows, drawn)[0]


def _train(
    table: np.ndarray, labels: np.ndarray, fit: Fit, orders: Orders, start: np.ndarray
) -> list[Fitted]:
    dim, others = start.shape[1] - 1, len(start) - 1
    state = _aligned(3, len(fit.regularisers), len(start), table.shape[1] + _LINE)
    state[0, :, :, :dim], state[0, :, :, table.shape[1]] = start[:, :-1], start[:, -1]
    columns = [*range(dim), table.shape[1]]  # of the features and the bias
    courses = [Course(len(fit.held_out)) for _ in fit.regularisers]
    decays = np.array(fit.regularisers, dtype=np.float32)  # (classifiers,)
    live, steps, index, less = courses, 0, 0, _less(state)
    while live:
        drawn = orders(index, len(fit.train), fit.drawn)  # (epochs, rows)
        steps = train_steps(table, labels, fit.train, drawn, state, decays, less, steps)
        index += 1
        right = np.empty(len(live), dtype=np.int64)  # (classifiers,)
        correct(table, labels, fit.held_out, less, others, right)
        for course, count, weights in zip(live, right.tolist(), state[0], strict=True):
            course.see(count, weights[:, columns])
        if not all(goes_on := [course.goes_on for course in live]):
            live = [course for course in live if course.goes_on]
            kept, decays = state[:, goes_on], decays[goes_on]
            state = _aligned(*kept.shape)
            state[:] = kept
            less = _less(state)
    return [course.end() for course in courses]


def _less(state: np.ndarray) -> np.ndarray:
    """Weights minus those of class 0, and rows of zeros up to a multiple of 4, ``(outputs, width + 16)``."""
    rows = (state[0, :, 1:] - state[0, :, :1]).reshape(-1, state.shape[-1])  # (classifiers × others, ...)
    less = _aligned(-(-len(rows) // 4) * 4, state.shape[-1])
    less[: len(rows)] = rows
    return less


def _aligned(*shape: int) -> np.ndarray:
    """Zeros, float32, that begin at a cache line."""
    count = int(np.prod(shape))
    memory = np.zeros(count + _LINE, dtype=np.float32)
    first = -memory.ctypes.data // memory.itemsize % _LINE
    return memory[first : first + count].reshape(shape)
