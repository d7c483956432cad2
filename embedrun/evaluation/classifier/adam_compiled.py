"""SentEval's classifier with compiled kernels, one fit a thread."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import torch

from embedrun.evaluation.classifier.adam import Course, Fit, Fitted
from embedrun.evaluation.classifier.permutations import Permutations

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
    """The classifiers of one fit; those that have stopped leave the work."""
    from embedrun.evaluation.classifier import kernels

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
        steps = kernels.train(table, labels, train, orders, state, decays, less, steps)
        right = np.empty(len(live), dtype=np.int64)  # (classifiers,)
        kernels.correct(table, labels, held_out, less, others, right)
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
    """Weights less those of class 0, and rows of zeros up to a multiple of 4, ``(outputs, width + 16)``."""
    found = (state[0, :, 1:] - state[0, :, :1]).reshape(-1, state.shape[-1])  # (classifiers × others, ...)
    less = _aligned(-(-len(found) // 4) * 4, state.shape[-1])
    less[: len(found)] = found
    return less


def _aligned(*shape: int) -> np.ndarray:
    """Zeros, float32, that begin where a line of the cache does."""
    count = int(np.prod(shape))
    memory = np.zeros(count + _LINE, dtype=np.float32)
    first = -memory.ctypes.data // memory.itemsize % _LINE
    return memory[first : first + count].reshape(shape)
