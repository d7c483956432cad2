"""The batches of one epoch: a shuffle, rows of like length together, batches in random order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Epoch:
    """The batches of one epoch.

    Args:
        rows: of all batches, one batch after the other, int64, ``(kept,)``.
        starts: batch ``i`` is ``rows[starts[i]:starts[i + 1]]``, int64, ``(batches + 1,)``.
    """

    rows: np.ndarray
    starts: np.ndarray

    @staticmethod
    def even(order: np.ndarray, batch_size: int) -> "Epoch":
        """Batches of `batch_size` neighbours; the rest of the rows is left out, unless it is all of them."""
        size = min(batch_size, len(order))
        batches = len(order) // size
        return Epoch(order[: batches * size], size * np.arange(batches + 1))

    @staticmethod
    def of(batches: Sequence[Sequence[int]]) -> "Epoch":
        """Batches as they are."""
        sizes = [len(batch) for batch in batches]
        rows = np.fromiter((row for batch in batches for row in batch), np.int64, sum(sizes))  # (kept,)
        return Epoch(rows, np.cumsum([0, *sizes]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def batch(self, place: int) -> np.ndarray:
        """The rows of one batch, ``(batch,)``; a copy, because nobody may write into the epoch."""
        return self.rows[self.starts[place] : self.starts[place + 1]].copy()

    def stirred(self, seed: int, epoch: int) -> "Epoch":
        """The same batches in a random order."""
        # The 1 keeps these numbers apart from those of the shuffle of the rows.
        order = np.random.default_rng(np.random.SeedSequence([seed, epoch, 1])).permutation(len(self))
        sizes = np.diff(self.starts)  # (batches,)
        rows = np.concatenate([self.rows[:0], *(self.batch(place) for place in order)])  # (kept,)
        return Epoch(rows, np.cumsum([0, *sizes[order]]))


def shuffled(rows: int, seed: int, epoch: int) -> np.ndarray:
    """The rows of an epoch in random order, ``(rows,)``."""
    return np.random.default_rng(np.random.SeedSequence([seed, epoch])).permutation(rows)


def by_length(order: np.ndarray, lengths: np.ndarray, *, chunk: int, tail: int) -> np.ndarray:
    """Sort each `chunk` of neighbours by length, shortest first; equal lengths stay in their order.

    Args:
        order: random, ``(rows,)``.
        lengths: of each row of the data set, ``(rows,)``.
        chunk: rows sorted together.
        tail: rows at the end that are not sorted. From the end come the rows that fill no batch, and which
            they are should be chance: in a sorted end they would be the longest, in each epoch.

    Returns:
        ``(rows,)``
    """
    end = max(0, len(order) - tail)
    chunks = [order[begin : min(begin + chunk, end)] for begin in range(0, end, chunk)]  # (chunk,) each
    grouped = [part[np.argsort(lengths[part], kind="stable")] for part in chunks]  # (chunk,) each
    return np.concatenate([*grouped, order[end:]])
