"""Which rows each step sees: a pure function of seed, epoch and step."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np


class Draw(NamedTuple):
    """The rows of one batch.

    Args:
        number: of the batch in the run, from 0.
        epoch: that it belongs to, from 0.
        rows: positions in the training split, ``(batch,)``.
    """

    number: int
    epoch: int
    rows: np.ndarray


@dataclass(frozen=True)
class Order:
    """The random order of the training rows.

    Each epoch is a fresh permutation, cut into batches of `batch_size` rows. The rows that do
    not fill the last batch of an epoch are left out of that epoch, so that every loss sees
    the same number of negatives; as every epoch permutes anew, no row is always among them. A
    data set smaller than one batch is one batch.

    Args:
        rows: how many there are, >= 1.
        batch_size: rows a batch.
        accumulate: batches an optimizer step.
        seed: of the permutations.
    """

    rows: int
    batch_size: int
    accumulate: int
    seed: int

    @property
    def per_epoch(self) -> int:
        """Batches an epoch."""
        return max(1, self.rows // self.batch_size)

    def steps(self, epochs: float, max_steps: int | None) -> int:
        """Optimizer steps of a run, at least 1."""
        steps = max(1, round(epochs * self.per_epoch / self.accumulate))
        return steps if max_steps is None else min(steps, max_steps)

    def epoch(self, step: int) -> float:
        """Passes over the data once `step` optimizer steps are done."""
        return step * self.accumulate / self.per_epoch

    def batches(self, step: int) -> list["Draw"]:
        """The batches of optimizer step `step` (the first is 1)."""
        first = (step - 1) * self.accumulate
        return [
            Draw(index, index // self.per_epoch, self._batch(index))
            for index in range(first, first + self.accumulate)
        ]

    def _batch(self, index: int) -> np.ndarray:
        epoch, place = divmod(index, self.per_epoch)
        permutation = _permutation(self.rows, self.seed, epoch)  # (rows,)
        # A copy: the permutation is kept for the steps to come, and nobody may write into it.
        return permutation[place * self.batch_size : (place + 1) * self.batch_size].copy()  # (batch,)


@lru_cache(maxsize=2)  # a million rows take 20 ms, too long to repeat every step
def _permutation(rows: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.default_rng(np.random.SeedSequence([seed, epoch])).permutation(rows)
