"""Which rows each step sees, whatever was asked before."""

import math
from bisect import bisect_right
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from embedrun.training.order.epoch import Epoch, by_length, shuffled
from embedrun.training.order.filling import fill


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


@dataclass(frozen=True, eq=False)
class Order:
    """The batches of a run, a pure function of these values.

    Each epoch is a fresh permutation of the rows.

    - `random`: it is cut into batches of `batch_size` neighbours.
    - `length_grouped`: before that, each `grouped_batches` x `batch_size` neighbours are sorted by the length
      of their longest text, so that rows of like length meet; after it, the batches are put into a
      random order. It is the longest text that others are padded to: one pass over a batch of 32 pairs of
      NLI computes 2.5 x the real tokens at random, 1.6 x sorted by the sum of both lengths, 1.3 x sorted
      by the longer one.
    - `batch_tokens`: a batch is closed sooner when the next row would take it above that many tokens, of all
      views.
    - `distinct`: a row that shares a text with another one of the batch waits for the next batch.

    Rows that fill no batch are left out of that epoch. Another epoch leaves out others, because each
    permutes anew and none sorts the rows that come last. These are:

    - with neither of the last two options, the rest of ``rows / batch_size``;
    - with them, the rows of the batch that is open at the end, and those that still wait. No batch has a
      single row, unless `batch_size` or the data set has one: any two rows fit into `batch_tokens`.

    A data set of fewer than `batch_size` rows that fills no batch is one batch, without the rows that share a
    text with it.

    With the last two options the number of batches of an epoch depends on its permutation. To place a step,
    every epoch before it is made once, which takes about 1 s for a million rows; a run does that at its
    start, when it counts its steps. Without them the number is known, and one epoch alone is made.

    Args:
        rows: how many there are, >= 1.
        batch_size: rows a batch, at most.
        accumulate: batches an optimizer step.
        seed: of the permutations.
        batching: as above.
        grouped_batches: batches whose rows are sorted together.
        batch_tokens: tokens of a batch, at most, padding not counted; None: any number.
        distinct: whether equal texts may not meet.
        lengths: tokens of each row in each pass, int64, ``(rows, passes)``; for `length_grouped` and
            `batch_tokens`.
        texts: the identity of the text behind each view, int64, ``(rows, views)``; for `distinct`.

    Raises:
        ValueError: if `lengths` or `texts` is not there or of another shape, if two rows do not fit into
            `batch_tokens`, or, when batches are first asked for, if no batch can be filled.
    """

    rows: int
    batch_size: int
    accumulate: int
    seed: int
    _: KW_ONLY
    batching: Literal["random", "length_grouped"] = "random"
    grouped_batches: int = 50
    batch_tokens: int | None = None
    distinct: bool = False
    lengths: np.ndarray | None = None
    texts: np.ndarray | None = None
    _starts: list[int] = field(init=False, repr=False, default_factory=lambda: [0])

    def __post_init__(self) -> None:
        if self.batching == "length_grouped" or self.batch_tokens is not None:
            if self.lengths is None or self.lengths.ndim != 2 or len(self.lengths) != self.rows:
                raise ValueError(f"order: {self.rows} rows need their lengths")
            longest = np.sort(self.lengths.sum(axis=1))[-min(2, self.batch_size) :].sum()
            if self.batch_tokens is not None and longest > self.batch_tokens:
                raise ValueError(f"order: {longest} tokens in a batch of {self.batch_tokens}")
        if self.distinct and (self.texts is None or self.texts.shape[:1] != (self.rows,)):
            raise ValueError(f"order: {self.rows} rows need the identities of their texts")

    def steps(self, epochs: float, max_steps: int | None) -> int:
        """Optimizer steps of a run, at least 1; part of an epoch is that part of its batches."""
        most = math.inf if max_steps is None else max_steps
        return int(min(most, max(1, round(self._batches(epochs, most * self.accumulate) / self.accumulate))))

    def epoch(self, step: int) -> float:
        """Passes over the data once `step` optimizer steps are done."""
        batches = step * self.accumulate
        if self._per_epoch is not None:
            return batches / self._per_epoch
        if batches == 0:
            return 0.0
        epoch = self._epoch_of(batches - 1)
        return epoch + (batches - self._before(epoch)) / (self._before(epoch + 1) - self._before(epoch))

    def batches(self, step: int) -> list[Draw]:
        """The batches of optimizer step `step` (the first is 1)."""
        first = (step - 1) * self.accumulate
        return [self._draw(number) for number in range(first, first + self.accumulate)]

    def marks(self, steps: int, per_epoch: int) -> frozenset[int]:
        """The steps at which each of `per_epoch` equal parts of an epoch is over, up to `steps`.

        A part that ends amid a step is over with that step; parts shorter than a step share one.
        """
        found: set[int] = set()
        epoch = 0
        while (begin := self._before(epoch)) < steps * self.accumulate:
            count = self._before(epoch + 1) - begin
            ends = [begin - (-part * count // per_epoch) for part in range(1, per_epoch + 1)]  # rounded up
            found |= {-(-end // self.accumulate) for end in ends}
            epoch += 1
        return frozenset(step for step in found if 0 < step <= steps)

    def left_out(self, epoch: int) -> int:
        """Rows that are in no batch of this epoch."""
        return self.rows - len(_made(self, epoch).rows)

    @property
    def _per_epoch(self) -> int | None:
        """Batches an epoch, where that is one number."""
        uneven = self.batch_tokens is not None or self.distinct
        return None if uneven else max(1, self.rows // self.batch_size)

    def _batches(self, epochs: float, most: float) -> float:
        """Batches of so many epochs; of fewer, where these have `most` already."""
        if self._per_epoch is not None:
            return epochs * self._per_epoch
        whole, part = divmod(epochs, 1)
        for epoch in range(int(whole)):
            if self._before(epoch) >= most:
                return self._before(epoch)
        before = self._before(int(whole))
        return before + part * (self._before(int(whole) + 1) - before if part else 0)

    def _before(self, epoch: int) -> int:
        """Batches of all epochs before this one."""
        if self._per_epoch is not None:
            return epoch * self._per_epoch
        while len(self._starts) <= epoch:
            self._starts.append(self._starts[-1] + len(_made(self, len(self._starts) - 1)))
            if self._starts[-1] == 0:
                raise ValueError("order: no batch can be filled")
        return self._starts[epoch]

    def _epoch_of(self, number: int) -> int:
        if self._per_epoch is not None:
            return number // self._per_epoch
        while self._starts[-1] <= number:
            self._before(len(self._starts))
        return bisect_right(self._starts, number) - 1

    def _draw(self, number: int) -> Draw:
        epoch = self._epoch_of(number)
        return Draw(number, epoch, _made(self, epoch).batch(number - self._before(epoch)))


@lru_cache(
    maxsize=2
)  # a step may reach into the next epoch; a million rows take too long to repeat every step
def _made(order: Order, epoch: int) -> Epoch:
    """The batches of an epoch."""
    rows = shuffled(order.rows, order.seed, epoch)  # (rows,)
    even, size = order._per_epoch is not None, order.batch_size
    grouped = order.batching == "length_grouped"
    if grouped:
        assert order.lengths is not None
        tail = order.rows % size + (0 if even else size)
        rows = by_length(rows, order.lengths.max(axis=1), chunk=order.grouped_batches * size, tail=tail)
    if even:
        found = Epoch.even(rows, size)
    else:
        texts = order.texts if order.distinct else None
        tokens = None if order.lengths is None else order.lengths.sum(axis=1)  # (rows,)
        batches, begun = fill(rows, size, lengths=tokens, budget=order.batch_tokens, texts=texts)
        small = not batches and order.rows < size and len(begun) >= min(2, order.rows)
        found = Epoch.of([begun] if small else batches)
    return found.stirred(order.seed, epoch) if grouped else found
