"""Rows, one after the other, into batches that hold so many tokens at most and no text twice."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

_AT_ONCE = 8192  # rows turned into Python numbers in one go, so that a large data set never is

_Row = tuple[int, int, Sequence[int]]  # position, tokens, identities of its texts


class Filled(NamedTuple):
    """Full batches, and the one that was never filled.

    Args:
        batches: the rows of each, in the order in which they were closed.
        begun: rows of the batch that was open at the end; each row that is in none has a text of one of them.
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
    """Put each row into the batch that is open; close a batch that is full, and open the next.

    A batch is full with `batch_size` rows, or when the row to come would take it above `budget`. A row that
    has a text of the open batch waits. When that batch is closed, the first of the rows that wait for each of
    its texts comes next; the others could not be in one batch with that row, and are not looked at. So time
    grows with the number of rows, however many of them share a text.

    Args:
        order: of the rows, ``(rows,)``.
        batch_size: rows of a batch, at most.
        lengths: tokens of each row of the data set, at most `budget`, ``(all rows,)``; given with `budget`.
        budget: tokens of a batch, at most; None: any number.
        texts: the identity of the text behind each view, ``(all rows, views)``; None: equal texts may meet.
    """
    filling = _Filling(batch_size, budget)
    for row in _facts(order, None if budget is None else lengths, texts):
        filling.put(row)
        if filling.free:
            filling.put_waiting()
    return Filled(filling.batches, filling.rows)


def _facts(order: np.ndarray, lengths: np.ndarray | None, texts: np.ndarray | None) -> Iterator[_Row]:
    for begin in range(0, len(order), _AT_ONCE):
        rows = order[begin : begin + _AT_ONCE]  # (part,)
        tokens = [0] * len(rows) if lengths is None else lengths[rows].tolist()
        # Tuples from columns: half the time of a list for each row, and this is most of it.
        each = [()] * len(rows) if texts is None else zip(*texts[rows].T.tolist(), strict=True)
        yield from zip(rows.tolist(), tokens, each, strict=True)


class _Filling:
    """The batches so far, and the rows that wait.

    A text that rows wait for is in the open batch, or it is free: its batch is closed.
    """

    def __init__(self, batch_size: int, budget: int | None) -> None:
        self._batch_size = batch_size
        self._budget = float("inf") if budget is None else budget
        self._waiting: dict[int, deque[_Row]] = {}  # by the text they wait for
        self.free: deque[int] = deque()
        self.batches: list[list[int]] = []
        self._open()

    def put(self, row: _Row) -> None:
        """Into the open batch, the next one, or among those that wait."""
        position, tokens, texts = row
        if not self._texts.isdisjoint(texts):
            taken = next(text for text in texts if text in self._texts)
            self._waiting.setdefault(taken, deque()).append(row)
            return
        if self._tokens + tokens > self._budget:
            self._close()
        self.rows.append(position)
        self._texts.update(texts)
        self._tokens += tokens
        if len(self.rows) == self._batch_size:
            self._close()

    def put_waiting(self) -> None:
        """Rows that wait for texts of closed batches, until each of these texts is in the open one."""
        while self.free:
            text = self.free.popleft()
            # The first may have another text that is in the batch; it then waits for that one.
            while text in self._waiting and text not in self._texts:
                self.put(self._first(text))

    def _first(self, text: int) -> _Row:
        queue = self._waiting[text]
        row = queue.popleft()
        if not queue:
            del self._waiting[text]
        return row

    def _open(self) -> None:
        self.rows: list[int] = []
        self._texts: set[int] = set()
        self._tokens = 0

    def _close(self) -> None:
        self.batches.append(self.rows)
        if self._waiting:
            self.free.extend(sorted(self._texts & self._waiting.keys()))
        self._open()
