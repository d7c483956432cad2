"""How long the parts of a run's work took, over all attempts at it."""

import contextlib
import time
from collections.abc import Iterator, Mapping


class Clock:
    """Seconds by the name of the work.

    Args:
        before: what earlier attempts of the run took.
    """

    def __init__(self, before: Mapping[str, float]) -> None:
        self._seconds = dict(before)
        self._running: tuple[str, float] | None = None

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """The time inside is added to that of `name`; the work of two names does not overlap."""
        self._running = name, time.monotonic()
        try:
            yield
        finally:
            self._seconds = self.read()
            self._running = None

    def read(self) -> dict[str, float]:
        """Seconds by name until now, to the millisecond."""
        if self._running is None:
            return dict(self._seconds)
        name, started = self._running
        so_far = self._seconds.get(name, 0.0) + time.monotonic() - started
        return {**self._seconds, name: round(so_far, 3)}
