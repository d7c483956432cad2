"""SentEval's classifier: what is trained, from where, and when it stops. Two engines do the arithmetic.

A linear layer and cross-entropy, trained by Adam in minibatches. SentEval trains one classifier at a time;
here those of several regularisers that share their rows, and so their minibatches, are one `Fit`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from embedrun.evaluation.classifier.permutations import Permutations

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
        held_out: rows whose accuracy says when to stop, ``(held-out rows,)``.
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
        weights: those that had it first, the bias last, float32, ``(classes, dim + 1)``.
        rounds: that it was trained for.
    """

    accuracy: float
    weights: np.ndarray
    rounds: int

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Class of each row, int64, ``(rows,)``; of equal logits the first.

        Args:
            features: float32, ``(rows, dim)``.
        """
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
            fits: what to train.
            permutations: the orders of the rows.
            start: the weights of every classifier at the start, float32, ``(classes, dim + 1)``.
            done: called, from this thread, with the number of classifiers that are newly done.
        """
        ...


class Course:
    """How the training of one classifier went so far, and whether it goes on.

    The count of rounds without a better accuracy is never set back, as in SentEval.
    """

    def __init__(self, held_out: int) -> None:
        self.goes_on = True
        self._held_out, self._best, self._worse, self._rounds = held_out, -1, 0, 0
        self._kept = np.empty(0)

    def see(self, correct: int, weights: np.ndarray) -> None:
        """Take in what a round led to.

        Args:
            correct: held-out rows that the classifier has right now.
            weights: as they are now, ``(classes, dim + 1)``; copied where they are kept.
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
    """What `torch.nn.Linear(dim, classes)` starts from after `torch.manual_seed(seed)`.

    Returns:
        Weights, the bias last, float32, ``(classes, dim + 1)``.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = torch.empty(classes, dim + 1)
    matrix = torch.nn.init.kaiming_uniform_(torch.empty(classes, dim), a=math.sqrt(5), generator=generator)
    weights[:, :-1] = matrix
    weights[:, -1].uniform_(-1 / math.sqrt(dim), 1 / math.sqrt(dim), generator=generator)
    return weights.numpy()
