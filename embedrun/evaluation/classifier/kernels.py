"""The published classifier compiled with numba.

All classifiers of a fit go through a minibatch together. The softmax is of logits minus that of class 0, so
K classes are K - 1 products a row and classifier; the gradient of class 0 is minus the sum of the others.
That is half the work for two classes. Four rows and four outputs are worked on at a time, in registers.

In the shapes below `width` is the number of features rounded up to a multiple of 16, a cache line; in
weights the bias follows, and zeros up to `width + 16`. What belongs to an added feature starts at zero and
stays there. `outputs` is classifiers × (K - 1) rounded up to a multiple of 4; an added one has no weights.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import torch
from numba import float32, int32, njit

from embedrun.evaluation.classifier import Permutations
from embedrun.evaluation.classifier.adam import BATCH, BETAS, EPSILON, RATE, Course, Fit, Fitted

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
def products(features, batch, weights, found):
    """Logits of a minibatch minus those of class 0.

    Args:
        features: float32, ``(rows, width)``.
        batch: its rows, int64, ``(64,)``.
        weights: minus those of class 0, float32, ``(outputs, width + 16)``.
        found: output: the logits, float32, ``(outputs, 64)``.
    """
    width = features.shape[1]
    for o in range(0, len(weights), 4):
        w0, w1, w2, w3 = weights[o], weights[o + 1], weights[o + 2], weights[o + 3]  # (width + 16,) each
        for r in range(0, BATCH, 4):
            x0, x1 = features[batch[r]], features[batch[r + 1]]  # (width,) each
            x2, x3 = features[batch[r + 2]], features[batch[r + 3]]
            a = b = c = d = (w0[width], w1[width], w2[width], w3[width])  # the biases
            for i in range(width):
                w = (w0[i], w1[i], w2[i], w3[i])
                a, b, c, d = _add(a, x0[i], w), _add(b, x1[i], w), _add(c, x2[i], w), _add(d, x3[i], w)
            found[o, r], found[o + 1, r], found[o + 2, r], found[o + 3, r] = a
            found[o, r + 1], found[o + 1, r + 1], found[o + 2, r + 1], found[o + 3, r + 1] = b
            found[o, r + 2], found[o + 1, r + 2], found[o + 2, r + 2], found[o + 3, r + 2] = c
            found[o, r + 3], found[o + 1, r + 3], found[o + 2, r + 3], found[o + 3, r + 3] = d


@njit(**_options)
def residuals(found, gold, size, classifiers, others, peak, total):
    """From logits to the residuals that weight each row in the gradient of the mean cross-entropy, in place.

    Args:
        found: logits minus those of class 0; then probability, minus 1 where it is the gold class, over the
            number of rows; 0 beyond them; float32, ``(outputs, 64)``.
        gold: class of each row, int64, ``(64,)``.
        size: rows of this minibatch.
        classifiers: how many.
        others: classes minus 1.
        peak: scratch space for a number of each row, float32, ``(64,)``.
        total: the same.
    """
    share, rows = float32(1 / size), found.shape[1]
    for first in range(0, classifiers * others, others):
        for r in range(rows):
            peak[r] = 0  # the logit of class 0
        for o in range(first, first + others):
            own = found[o]  # (64,)
            for r in range(rows):
                peak[r] = max(peak[r], own[r])
        for r in range(rows):
            total[r] = exp(-peak[r])
        for o in range(first, first + others):
            own = found[o]
            for r in range(rows):
                own[r] = exp(own[r] - peak[r])
                total[r] += own[r]
        for o in range(first, first + others):
            own = found[o]
            for r in range(rows):
                hit = float32(1) if gold[r] == o - first + 1 else float32(0)
                own[r] = share * (own[r] / total[r] - hit)
            own[size:] = 0


@njit(**_options)
def gradients(features, batch, weigh, found):
    """The gradients of all weights but those of class 0.

    Args:
        features: float32, ``(rows, width)``.
        batch: rows of the minibatch, int64, ``(64,)``.
        weigh: residual of each row, float32, ``(outputs, 64)``.
        found: output: the gradients, float32, ``(outputs, width + 16)``.
    """
    width = features.shape[1]
    found[:] = 0
    for o in range(0, len(found), 4):
        g0, g1, g2, g3 = found[o], found[o + 1], found[o + 2], found[o + 3]  # (width + 16,) each
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
            found[o + k, width] = weigh[o + k].sum()  # of the bias


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
    """One step of Adam on every classifier.

    Args:
        state: weights and the running means of their gradient and its square, float32,
            ``(3, classifiers, classes, width + 16)``.
        gradient: of the classes but 0, ``(outputs, width + 16)``.
        decays: weight decay of each classifier, float32, ``(classifiers,)``.
        step: of Adam, from 1.
        less: output: the new weights minus those of class 0, ``(outputs, width + 16)``.
        zero: scratch space for the gradient of class 0, ``(width + 16,)``.
    """
    rate = float32(RATE / (1 - BETAS[0] ** step))
    scale = float32(1 / math.sqrt(1 - BETAS[1] ** step))
    weights, mean, square = state[0], state[1], state[2]  # (classifiers, classes, width + 16) each
    for r in range(weights.shape[0]):
        first = r * (weights.shape[1] - 1)
        zero[:] = 0
        for k in range(1, weights.shape[1]):
            own = gradient[first + k - 1]
            for i in range(len(zero)):
                zero[i] -= own[i]
            _adam(weights[r, k], mean[r, k], square[r, k], own, decays[r], rate, scale)
        _adam(weights[r, 0], mean[r, 0], square[r, 0], zero, decays[r], rate, scale)
        for k in range(1, weights.shape[1]):
            difference(weights[r, k], weights[r, 0], less[first + k - 1])


@njit(**_options)
def difference(one, other, found):
    """`one - other`, ``(width + 16,)``."""
    for i in range(len(found)):
        found[i] = one[i] - other[i]


@njit(**_options)
def train_steps(features, labels, rows, orders, state, decays, less, steps):
    """Train the classifiers of one fit for some epochs, in place; returns the steps taken so far.

    Args:
        features: of all rows, float32, ``(all rows, width)``.
        labels: class of each, int64, ``(all rows,)``.
        rows: which are trained on, int64, ``(rows,)``.
        orders: places in `rows`, one order an epoch, int32, ``(epochs, rows)``.
        state: see `update`.
        decays: weight decay of each classifier, float32, ``(classifiers,)``.
        less: weights minus those of class 0, ``(outputs, width + 16)``.
        steps: of Adam that were taken before.
    """
    batch, gold = np.zeros(BATCH, np.int64), np.zeros(BATCH, np.int64)
    found, gradient = np.empty((len(less), BATCH), np.float32), np.empty_like(less)
    peak, total = np.empty(BATCH, np.float32), np.empty(BATCH, np.float32)
    zero = np.empty(less.shape[1], np.float32)
    for order in orders:
        for start in range(0, len(order), BATCH):
            size = min(BATCH, len(order) - start)
            for r in range(size):
                batch[r] = rows[order[start + r]]
                gold[r] = labels[batch[r]]
            products(features, batch, less, found)
            residuals(found, gold, size, len(decays), state.shape[2] - 1, peak, total)
            gradients(features, batch, found, gradient)
            steps += 1
            update(state, gradient, decays, steps, less, zero)
    return steps


@njit(**_options)
def correct(features, labels, rows, less, others, right):
    """Count the rows that each classifier has right; of equal logits the first class counts.

    Args:
        features: of all rows, float32, ``(all rows, width)``.
        labels: class of each, int64, ``(all rows,)``.
        rows: which are counted, int64, ``(rows,)``.
        less: weights minus those of class 0, ``(outputs, width + 16)``.
        others: classes minus 1.
        right: output: the counts, int64, ``(classifiers,)``.
    """
    batch, found = np.zeros(BATCH, np.int64), np.empty((len(less), BATCH), np.float32)
    right[:] = 0
    for start in range(0, len(rows), BATCH):
        size = min(BATCH, len(rows) - start)
        batch[:size] = rows[start : start + size]
        products(features, batch, less, found)
        for c in range(len(right)):
            for r in range(size):
                best, guess = float32(0), 0
                for k in range(others):
                    if found[c * others + k, r] > best:
                        best, guess = found[c * others + k, r], k + 1
                right[c] += guess == labels[batch[r]]


_LINE = 16  # float32 in a line of the cache


def compiled(
    features: np.ndarray,
    labels: np.ndarray,
    fits: Sequence[Fit],
    permutations: Permutations,
    start: np.ndarray,
    done: Callable[[int], None],
) -> list[list[Fitted]]:
    """See `adam.Engine`. As many threads work as torch has; the result is the same for any number."""
    table = _aligned(len(features), -(-features.shape[1] // _LINE) * _LINE)  # (rows, width)
    table[:, : features.shape[1]] = features
    pool = ThreadPoolExecutor(torch.get_num_threads())
    try:
        work = {pool.submit(_train, table, labels, fit, permutations, start): fit for fit in fits}
        for one in as_completed(work):
            one.result()  # a fault ends the work here
            done(len(work[one].decays))
        return [one.result() for one in work]
    finally:
        pool.shutdown(cancel_futures=True)


def _train(
    table: np.ndarray, labels: np.ndarray, fit: Fit, permutations: Permutations, start: np.ndarray
) -> list[Fitted]:
    """The classifiers of one fit; those that have stopped are dropped from the work."""

    dim, others = start.shape[1] - 1, len(start) - 1
    train, held_out = fit.train.astype(np.int64), fit.held_out.astype(np.int64)
    state = _aligned(3, len(fit.decays), len(start), table.shape[1] + _LINE)
    state[0, :, :, :dim], state[0, :, :, table.shape[1]] = start[:, :-1], start[:, -1]
    columns = [*range(dim), table.shape[1]]  # of the features and the bias
    courses = [Course(len(held_out)) for _ in fit.decays]
    live, steps, index = list(range(len(courses))), 0, 0
    less = _less(state)
    while live:
        decays = np.array([fit.decays[place] for place in live], dtype=np.float32)  # (classifiers,)
        orders = permutations.round(index, len(train), fit.drawn)  # (epochs, rows)
        steps = train_steps(table, labels, train, orders, state, decays, less, steps)
        right = np.empty(len(live), dtype=np.int64)  # (classifiers,)
        correct(table, labels, held_out, less, others, right)
        for own, place in enumerate(live):
            courses[place].see(int(right[own]), state[0, own][:, columns])
        kept = [own for own, place in enumerate(live) if courses[place].goes_on]
        if len(kept) < len(live):
            live, old = [live[own] for own in kept], state
            state = _aligned(3, len(kept), *old.shape[2:])
            state[:] = old[:, kept]
            less = _less(state)
        index += 1
    return [course.end() for course in courses]


def _less(state: np.ndarray) -> np.ndarray:
    """Weights minus those of class 0, and rows of zeros up to a multiple of 4, ``(outputs, width + 16)``."""
    found = (state[0, :, 1:] - state[0, :, :1]).reshape(-1, state.shape[-1])  # (classifiers × others, ...)
    less = _aligned(-(-len(found) // 4) * 4, state.shape[-1])
    less[: len(found)] = found
    return less


def _aligned(*shape: int) -> np.ndarray:
    """Zeros, float32, that begin at a cache line."""
    count = int(np.prod(shape))
    memory = np.zeros(count + _LINE, dtype=np.float32)
    first = -memory.ctypes.data // memory.itemsize % _LINE
    return memory[first : first + count].reshape(shape)
