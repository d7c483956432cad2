"""The rows of every step: a pure function of (seed, epoch, step)."""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, NamedTuple

import numpy as np


def by_text(order: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Rows of one text next to each other, in their order; a text stands where its first row does.

    That place is as random as the order, so that texts of many rows come neither first nor last. `order` and
    `texts`, the identity of the text of each row of the data set, are ``(rows,)``.
    """
    place = np.argsort(order)  # of each row in the order, (rows,)
    _, first, which = np.unique(texts, return_index=True, return_inverse=True)  # (texts,) twice and (rows,)
    return order[np.argsort(place[first][which][order], kind="stable")]


_AT_ONCE = 8192  # rows turned into Python numbers in one go, so that a large data set never is

_Row = tuple[int, int, Sequence[int]]  # position, tokens, identities of its texts


class Filled(NamedTuple):
    """The rows of full batches, and those of the one that was never filled, `begun`.

    Each row that is in no batch shares a text with one of these.
    """

    batches: list[list[int]]
    begun: list[int]


def fill(
    order: np.ndarray,
    batch_size: int,
    *,
    lengths: np.ndarray | None = None,
    budget: int | None = None,
    texts: np.ndarray | None = None,
) -> Filled:
    """Put each row into the open batch; close a batch that is full, and open the next.

    A batch is full with `batch_size` rows, or when the next row would take it above `budget`. A row that
    shares a text with the open batch waits. When that batch is closed, the first of the rows that wait for
    each of its texts comes next; the others could not be in one batch with that row, and are not looked at.
    So time grows with the number of rows, however many of them share a text.

    Args:
        order: of the rows, ``(rows,)``.
        lengths: tokens of each row of the data set, at most `budget`, ``(all rows,)``; given with `budget`.
        texts: the identity of the text behind each view, ``(all rows, views)``; None: equal texts may meet.
    """
    batches: list[list[int]] = []
    waiting: dict[int, deque[_Row]] = {}  # by the text that the rows wait for, of the open batch or `free`
    free: deque[int] = deque()  # texts of closed batches
    rows: list[int] = []  # of the open batch, with its texts and tokens
    used: set[int] = set()
    total = 0

    def close() -> None:
        nonlocal rows, used, total
        batches.append(rows)
        free.extend(sorted(used & waiting.keys()))
        rows, used, total = [], set(), 0

    def put(row: _Row) -> None:
        nonlocal total
        position, tokens, identities = row
        if not used.isdisjoint(identities):
            taken = next(text for text in identities if text in used)
            waiting.setdefault(taken, deque()).append(row)
            return
        if budget is not None and total + tokens > budget:
            close()
        rows.append(position)
        used.update(identities)
        total += tokens
        if len(rows) == batch_size:
            close()

    for row in _facts(order, None if budget is None else lengths, texts):
        put(row)
        while free:
            text = free.popleft()
            # The first may have another text that is in the batch; it then waits for that one.
            while text in waiting and text not in used:
                first = waiting[text].popleft()
                if not waiting[text]:
                    del waiting[text]
                put(first)
    return Filled(batches, rows)


def _facts(order: np.ndarray, lengths: np.ndarray | None, texts: np.ndarray | None) -> Iterator[_Row]:
    for begin in range(0, len(order), _AT_ONCE):
        rows = order[begin : begin + _AT_ONCE]  # (part,)
        tokens = [0] * len(rows) if lengths is None else lengths[rows].tolist()
        # Tuples from columns: half the time of a list for each row, and this is most of it.
        identities = [()] * len(rows) if texts is None else zip(*texts[rows].T.tolist(), strict=True)
        yield from zip(rows.tolist(), tokens, identities, strict=True)


class Draw(NamedTuple):
    """The rows of one batch, as positions in the training split, ``(batch,)``; numbers count from 0.

    `part` is that of a mixture that they are of; empty where there is one.
    """

    number: int
    epoch: int
    rows: np.ndarray
    part: str = ""


class Schedule(ABC):
    """Batches numbered through all epochs, `accumulate` of them a step: what a run asks of its order."""

    accumulate: int

    def steps(self, epochs: float, max_steps: int | None) -> int:
        """Optimizer steps of a run, at least 1; part of an epoch is that part of its batches."""
        most = math.inf if max_steps is None else max_steps
        return int(min(most, max(1, round(self._batches(epochs, most * self.accumulate) / self.accumulate))))

    def epoch(self, step: int) -> float:
        """Passes over the data after `step` optimizer steps."""
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
        return [self.draw(number) for number in range(first, first + self.accumulate)]

    def marks(self, steps: int, per_epoch: int) -> frozenset[int]:
        """The steps at which each of `per_epoch` equal parts of an epoch ends, up to `steps`.

        A part that ends within a step ends with it; parts shorter than a step share one.
        """
        marks: set[int] = set()
        epoch = 0
        while (begin := self._before(epoch)) < steps * self.accumulate:
            count = self._before(epoch + 1) - begin
            ends = [begin - (-part * count // per_epoch) for part in range(1, per_epoch + 1)]  # rounded up
            marks |= {-(-end // self.accumulate) for end in ends}
            epoch += 1
        return frozenset(step for step in marks if 0 < step <= steps)

    @abstractmethod
    def draw(self, number: int) -> Draw:
        """The batch of this number."""

    @abstractmethod
    def left_out(self, epoch: int) -> int:
        """Rows that are in no batch of this epoch."""

    @property
    @abstractmethod
    def _per_epoch(self) -> int | None:
        """Batches an epoch, where every epoch has the same number."""

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
        assert self._per_epoch is not None
        return epoch * self._per_epoch

    def _epoch_of(self, number: int) -> int:
        assert self._per_epoch is not None
        return number // self._per_epoch


@dataclass(frozen=True, eq=False)
class Order(Schedule):
    """The batches of a run, a pure function of these values.

    Each epoch is a fresh permutation of the rows.

    - `random`: it is cut into batches of `batch_size` neighbours.
    - `length_grouped`: before that, each `grouped_batches` x `batch_size` neighbours are sorted by the length
      of their longest text, so that rows of similar length meet; after it, the batches are put into a
      random order. It is the longest text that others are padded to: one pass over a batch of 32 pairs of
      NLI computes 2.5 x the real tokens at random, 1.6 x sorted by the sum of both lengths, 1.3 x sorted
      by the longer one.
    - `text_grouped`: rows whose first text is the same are neighbours, and meet unless a batch ends between
      them.
    - `batch_tokens`: a batch is closed earlier when the next row would take it above that many tokens, of all
      views.
    - `distinct`: a row that shares a text with another one of the batch waits for the next batch.

    Rows that fill no batch are left out of that epoch: the rest of ``rows / batch_size``, and with the last
    two options the rows of the batch that is open at the end and those that still wait. Another epoch leaves
    out others, because each permutes anew and none sorts the rows that come last. No batch has a single row,
    unless `batch_size` or the data set has one: any two rows fit into `batch_tokens`. A data set of fewer
    than `batch_size` rows that fills no batch is one batch, without the rows that share a text with it.

    With the last two options the number of batches of an epoch depends on its permutation. To place a step,
    every epoch before it is made once, which takes about 1 s for a million rows.

    Args:
        rows: how many there are, >= 1.
        accumulate: batches an optimizer step.
        batch_tokens: tokens of a batch, at most, padding not counted; None: any number.
        lengths: tokens of each row in each pass, int64, ``(rows, passes)``; for `length_grouped` and
            `batch_tokens`.
        texts: the identity of the text behind each view, int64, ``(rows, views)``; for `distinct` and
            `text_grouped`.
    """

    rows: int
    batch_size: int
    accumulate: int
    seed: int
    _: KW_ONLY
    batching: Literal["random", "length_grouped", "text_grouped"] = "random"
    grouped_batches: int = 50
    batch_tokens: int | None = None
    distinct: bool = False
    lengths: np.ndarray | None = None
    texts: np.ndarray | None = None
    _starts: list[int] = field(init=False, repr=False, default_factory=lambda: [0])
    _epochs: dict[int, list[np.ndarray]] = field(init=False, repr=False, default_factory=dict)

    @property
    def in_first_epoch(self) -> int:
        """Batches of the first epoch; others have as many, or about as many."""
        return self._before(1)

    def left_out(self, epoch: int) -> int:
        """Rows that are in no batch of this epoch."""
        return self.rows - sum(map(len, _made(self, epoch)))

    @property
    def _per_epoch(self) -> int | None:
        """Batches an epoch, where every epoch has the same number."""
        uneven = self.batch_tokens is not None or self.distinct
        return None if uneven else max(1, self.rows // self.batch_size)

    def _before(self, epoch: int) -> int:
        if self._per_epoch is not None:
            return super()._before(epoch)
        while len(self._starts) <= epoch:
            self._starts.append(self._starts[-1] + len(_made(self, len(self._starts) - 1)))
            if self._starts[-1] == 0:
                raise ValueError("order: no batch can be filled")
        return self._starts[epoch]

    def _epoch_of(self, number: int) -> int:
        if self._per_epoch is not None:
            return super()._epoch_of(number)
        while self._starts[-1] <= number:
            self._before(len(self._starts))
        return bisect_right(self._starts, number) - 1

    def draw(self, number: int) -> Draw:
        """The batch of this number."""
        epoch = self._epoch_of(number)
        rows = _made(self, epoch)[number - self._before(epoch)].copy()  # nobody may write into the epoch
        return Draw(number, epoch, rows)


def _made(order: Order, epoch: int) -> list[np.ndarray]:
    """The batches of an epoch, int64, ``(batch,)`` each; to make them again at every step takes too long."""
    if epoch not in order._epochs:
        while len(order._epochs) > 1:  # a step may reach into the next epoch
            del order._epochs[next(iter(order._epochs))]
        order._epochs[epoch] = _batches(order, epoch)
    return order._epochs[epoch]


def _batches(order: Order, epoch: int) -> list[np.ndarray]:
    rows = _permuted(order, epoch)  # (rows,)
    size = min(order.batch_size, len(rows))
    if order._per_epoch is None:
        batches = _filled(order, rows)
    else:
        batches = [*rows[: len(rows) // size * size].reshape(-1, size)]
    if order.batching == "length_grouped":
        # The 1 keeps these numbers apart from those of the shuffle of the rows.
        random = np.random.default_rng(np.random.SeedSequence([order.seed, epoch, 1]))
        batches = [batches[place] for place in random.permutation(len(batches))]
    return batches


def _permuted(order: Order, epoch: int) -> np.ndarray:
    rows = np.random.default_rng(np.random.SeedSequence([order.seed, epoch])).permutation(order.rows)
    if order.batching == "length_grouped":
        assert order.lengths is not None
        size = order.batch_size
        # The rows that fill no batch come from the end and should be random: in a sorted end they would be
        # the longest, in each epoch.
        end = max(0, order.rows - order.rows % size - (size if order._per_epoch is None else 0))
        lengths, chunk = order.lengths.max(axis=1), order.grouped_batches * size  # (rows,)
        chunks = [rows[begin : min(begin + chunk, end)] for begin in range(0, end, chunk)]  # (chunk,) each
        grouped = [part[np.argsort(lengths[part], kind="stable")] for part in chunks]  # (chunk,) each
        return np.concatenate([*grouped, rows[end:]])
    if order.batching == "text_grouped":
        assert order.texts is not None
        return by_text(rows, order.texts[:, 0])
    return rows


def _filled(order: Order, rows: np.ndarray) -> list[np.ndarray]:
    """Batches of distinct texts, or of some number of tokens, from the rows in order, ``(batch,)`` each."""
    texts = order.texts if order.distinct else None
    tokens = None if order.lengths is None else order.lengths.sum(axis=1)  # (rows,)
    full, unfilled = fill(rows, order.batch_size, lengths=tokens, budget=order.batch_tokens, texts=texts)
    if not full and order.rows < order.batch_size and len(unfilled) >= min(2, order.rows):
        full = [unfilled]
    return [np.array(batch, dtype=np.int64) for batch in full]
