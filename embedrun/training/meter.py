"""What the loop writes while it runs: values of a step, and speed since the last line."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from embedrun.batch import Batch
from embedrun.tracking import Tracker


class Meter:
    """Counts rows and tokens between two log lines, and writes both kinds of line.

    Args:
        tracker: where they go; None: nowhere.
        every: steps between two lines.
    """

    def __init__(self, tracker: Tracker | None, every: int) -> None:
        self._tracker, self._every = tracker, every
        self._started = self._last = time.monotonic()
        self._rows = self._tokens = 0

    def due(self, step: int, steps: int) -> bool:
        """Whether this step is logged: the first, the last, and every one in between that is due."""
        return step in (1, steps) or step % self._every == 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time inside, which is not spent on training, out of the speed."""
        started = time.monotonic()
        yield
        self._last += time.monotonic() - started

    def count(self, batch: Batch) -> None:
        """Add one batch."""
        self._rows += len(batch.rows)
        self._tokens += sum(len(view.tokens.ids) for view in batch.views.values())

    def write(self, step: int, epoch: float, values: dict[str, Tensor | float], memory: int | None) -> None:
        """Write the values of this step, and the speed since the last line; memory in bytes."""
        if self._tracker is None:
            return
        for name, value in values.items():
            self._tracker.metric(step=step, epoch=epoch, split="train", name=name, value=float(value))
        now = time.monotonic()
        seconds = max(now - self._last, 1e-9)
        self._tracker.speed(
            step=step,
            time=now - self._started,
            rows_per_second=self._rows / seconds,
            tokens_per_second=self._tokens / seconds,
            memory=memory,
        )
        self._last, self._rows, self._tokens = now, 0, 0
