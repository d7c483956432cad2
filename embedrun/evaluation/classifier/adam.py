"""The published classifier of SentEval in torch, many fits at once.

A linear layer and cross-entropy, trained by Adam in minibatches. SentEval trains one classifier at a time;
here those of several regularisers that share their rows, and so their minibatches, are one `Fit`.

Fits with equally many minibatches an epoch form a stack, so that a step is a handful of operations on all of
them: one product of the stacked minibatches with all weights, one for all gradients, Adam in place. As in the
compiled kernels, the softmax is of logits minus that of class 0.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from embedrun.evaluation.classifier import Permutations

BATCH = 64  # rows; the last of an epoch may have fewer
EPOCHS = 4  # of a round, after which the held-out rows are scored
MOST_EPOCHS = 200  # no round begins after more
TENACITY = 5  # rounds without a better accuracy, in all, that do not stop it yet
RATE = 1e-3  # of Adam, and its other constants: PyTorch's defaults
BETAS = (0.9, 0.999)
EPSILON = 1e-8


@dataclass(frozen=True)
class Fit:
    """Classifiers that share their rows.

    Args:
        train: rows they are trained on, in the order that the permutations refer to, ``(train rows,)``.
        held_out: rows for early stopping, ``(held-out rows,)``.
        decays: weight decay of each classifier: the gradient gets decay × weight, of the bias too.
        drawn: rows of the permutation that was drawn before training, or 0.
    """

    train: np.ndarray
    held_out: np.ndarray
    decays: tuple[float, ...]
    drawn: int = 0


@dataclass(frozen=True)
class Fitted:
    """One trained classifier.

    Args:
        accuracy: the best on the held-out rows, in [0, 1].
        weights: the first with that accuracy, the bias last, float32, ``(classes, dim + 1)``.
        rounds: that it was trained for.
    """

    accuracy: float
    weights: np.ndarray
    rounds: int

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Class of each row, int64, ``(rows,)``; of equal logits the first. Features are float32."""
        return (features @ self.weights[:, :-1].T + self.weights[:, -1]).argmax(axis=1)


class Engine(Protocol):
    """Trains the classifiers of several fits."""

    def __call__(
        self,
        features: np.ndarray,
        labels: np.ndarray,
        fits: Sequence[Fit],
        permutations: Permutations,
        start: np.ndarray,
        done: Callable[[int], None],
    ) -> list[list[Fitted]]:
        """The classifiers by fit and decay.

        Args:
            features: of all rows that the fits name, float32, ``(rows, dim)``.
            labels: class of each row, int64, ``(rows,)``.
            start: the weights of every classifier at the start, float32, ``(classes, dim + 1)``.
            done: called, from this thread, with the number of newly trained classifiers.
        """
        ...


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


_STACK = 10  # fits at most; more do not stay in the processor's cache


def stacked(
    features: np.ndarray,
    labels: np.ndarray,
    fits: Sequence[Fit],
    permutations: Permutations,
    start: np.ndarray,
    done: Callable[[int], None],
) -> list[list[Fitted]]:
    """See `adam.Engine`."""
    table = torch.ones(len(features), features.shape[1] + 1)  # (rows, dim + 1)
    table[:, :-1] = torch.from_numpy(features)
    found: dict[int, list[Fitted]] = {}
    for places in _stacks(fits):
        stack = _Stack(table, labels, [fits[place] for place in places], permutations, start)
        while stack.goes_on:
            stack.round()
        done(sum(len(fits[place].decays) for place in places))
        found |= dict(zip(places, stack.end(), strict=True))
    return [found[place] for place in range(len(fits))]


def _stacks(fits: Sequence[Fit]) -> Iterator[list[int]]:
    """Indices of the fits that are trained together: with equally many minibatches and classifiers."""
    alike: dict[tuple[int, int], list[int]] = {}
    for place, fit in enumerate(fits):
        alike.setdefault((-(-len(fit.train) // BATCH), len(fit.decays)), []).append(place)
    for places in alike.values():
        for first in range(0, len(places), _STACK):
            yield places[first : first + _STACK]


class _Stack:
    """Fits that are trained together.

    A fit leaves the stack when all its classifiers have stopped, and a place among the decays when it has
    stopped in every fit; until then, stopped classifiers are trained on without effect.
    """

    def __init__(
        self,
        table: Tensor,
        labels: np.ndarray,
        fits: list[Fit],
        permutations: Permutations,
        start: np.ndarray,
    ) -> None:
        self._table, self._permutations, self._fits = table, permutations, fits
        self._labels = torch.from_numpy(labels)  # (rows,)
        classes = torch.arange(1, len(start))  # (others,)
        self._gold = (self._labels[:, None] == classes).float()  # (rows, others)
        self._courses = [[Course(len(fit.held_out)) for _ in fit.decays] for fit in fits]
        self._live, self._places = list(range(len(fits))), list(range(len(fits[0].decays)))
        self._steps = self._index = 0
        decays = torch.tensor([fit.decays for fit in fits], dtype=torch.float32)  # (fits, classifiers)
        self._decays = decays[:, :, None, None]
        shape = (*decays.shape, *start.shape)
        self._weights = torch.from_numpy(start).expand(shape).clone()  # (fits, classifiers, classes, dim + 1)
        self._mean, self._square = torch.zeros(shape), torch.zeros(shape)

    @property
    def goes_on(self) -> bool:
        """Whether any classifier is still being trained."""
        return bool(self._live)

    def end(self) -> list[list[Fitted]]:
        """The classifiers by fit and decay."""
        return [[course.end() for course in courses] for courses in self._courses]

    def round(self) -> None:
        """Train for a round, score, and remove what has stopped."""
        fits = [self._fits[fit] for fit in self._live]
        orders = [self._permutations.round(self._index, len(fit.train), fit.drawn) for fit in fits]
        self._index += 1
        rows, shares = _minibatches([fit.train for fit in fits], orders)
        for epoch in rows:
            for batch, share in zip(epoch, shares, strict=True):
                self._step(batch, share)
        for own, fit in enumerate(self._live):
            held_out = torch.from_numpy(self._fits[fit].held_out).long()
            logits = self._table[held_out] @ self._weights[own].transpose(
                1, 2
            )  # (classifiers, rows, classes)
            right = (logits.argmax(dim=2) == self._labels[held_out]).sum(dim=1).tolist()
            for column, place in enumerate(self._places):
                if self._courses[fit][place].goes_on:
                    self._courses[fit][place].see(right[column], self._weights[own, column].numpy())
        self._leave()

    def _step(self, batch: Tensor, share: Tensor) -> None:
        """One step of Adam on all.

        Args:
            batch: rows of the minibatch of each fit, int64, ``(fits, 64)``.
            share: of each row in the mean of its fit's losses, ``(fits, 64, 1, 1)``.
        """
        fits, classifiers, classes, columns = self._weights.shape
        rows = batch.reshape(-1)  # (fits × 64,)
        features = self._table.index_select(0, rows).view(fits, BATCH, columns)
        less = self._weights[:, :, 1:] - self._weights[:, :, :1]  # (fits, classifiers, others, dim + 1)
        logits = torch.bmm(features, less.view(fits, -1, columns).transpose(1, 2))
        logits = logits.view(fits, BATCH, classifiers, classes - 1)
        gold = self._gold.index_select(0, rows).view(fits, BATCH, 1, classes - 1)
        residual = _probabilities(logits).sub_(gold).mul_(share).view(fits, BATCH, -1)
        gradient = torch.empty_like(self._weights)
        others = torch.bmm(residual.transpose(1, 2), features).view_as(less)
        gradient[:, :, 1:] = others
        torch.sum(others, dim=2, out=gradient[:, :, 0]).neg_()
        gradient.addcmul_(self._weights, self._decays)
        self._steps += 1
        self._mean.lerp_(gradient, 1 - BETAS[0])
        self._square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        scale = 1 / math.sqrt(1 - BETAS[1] ** self._steps)
        size = torch.sqrt(self._square, out=gradient).mul_(scale).add_(EPSILON)
        self._weights.addcdiv_(self._mean, size, value=-RATE / (1 - BETAS[0] ** self._steps))

    def _leave(self) -> None:
        goes_on = [[self._courses[fit][place].goes_on for place in self._places] for fit in self._live]
        fits = [own for own, row in enumerate(goes_on) if any(row)]
        columns = [own for own, column in enumerate(zip(*goes_on, strict=True)) if any(column)]
        if len(fits) == len(self._live) and len(columns) == len(self._places):
            return
        self._live, self._places = [self._live[own] for own in fits], [self._places[own] for own in columns]
        self._weights, self._mean, self._square, self._decays = (
            values[fits][:, columns] for values in (self._weights, self._mean, self._square, self._decays)
        )


def _probabilities(logits: Tensor) -> Tensor:
    """Softmax of logits minus that of class 0, without that class; ``(..., others)``."""
    peak = logits.amax(dim=-1, keepdim=True).clamp_min_(
        0
    )  # of all classes; torch's softmax is slow on so few
    each = (logits - peak).exp_()
    return each.div_(each.sum(dim=-1, keepdim=True).add_(peak.neg_().exp_()))


def _minibatches(trained: list[np.ndarray], orders: list[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Rows of each minibatch, int64, ``(epochs, steps, fits, 64)``, and the share of each in the mean.

    `orders` are places in the rows that each fit is trained on, ``(epochs, rows)`` each. Shares are
    ``(steps, fits, 64, 1, 1)``, and 0 where a minibatch has no such row.
    """
    steps, epochs = -(-len(trained[0]) // BATCH), len(orders[0])
    rows = np.zeros((len(trained), epochs, steps * BATCH), dtype=np.int64)
    shares = np.zeros((len(trained), steps * BATCH), dtype=np.float32)
    for own, (train, order) in enumerate(zip(trained, orders, strict=True)):
        rows[own, :, : len(train)] = train[order]
        shares[own, : len(train)] = 1 / BATCH
        last = len(train) - (steps - 1) * BATCH
        shares[own, (steps - 1) * BATCH : len(train)] = 1 / last
    rows = rows.reshape(len(trained), epochs, steps, BATCH).transpose(1, 2, 0, 3)
    shares = shares.reshape(len(trained), steps, BATCH, 1, 1).transpose(1, 0, 2, 3, 4)
    return torch.from_numpy(np.ascontiguousarray(rows)), torch.from_numpy(np.ascontiguousarray(shares))
