"""The one guard between training and another tracker."""

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from embedrun.console import masked, say
from embedrun.errors import EmbedrunError

_log = logging.getLogger("embedrun")
_MOST_WAITING = 20_000  # values
_UNFINISHED_SECONDS = 2.0  # whoever sent a signal may soon send SIGKILL
_LONGEST_REASON = 300  # characters


class Target(Protocol):
    """Where values go."""

    def add(self, step: int, name: str, value: float) -> None:
        """One value; NaN where it is undefined."""
        ...

    def close(self, *, finished: bool) -> None:
        """No value follows."""
        ...


class Mirror:
    """A tracker outside of the run's own files, called in a thread of its own.

    It can neither raise into training nor delay any call but `wait`. Whatever goes wrong, the user reads one
    warning, and `metrics.jsonl` is the same as without the tracker.

    `option`, as ``"tracking.wandb"``, is what warnings start with. `connect`, called in the thread, makes the
    tracker. `patience` is how many seconds it may take to end.
    """

    def __init__(self, option: str, connect: Callable[[], Target], *, patience: float) -> None:
        self._option, self._connect, self._patience = option, connect, patience
        self._values: SimpleQueue[tuple[int, str, float] | None] = SimpleQueue()
        self._warned = threading.Lock()  # taken once and for all by the one warning
        self._open = True
        self._thread = threading.Thread(target=self._feed, name=option, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as fault:  # the limit of threads is reached
            self._open = False
            self._warn(f"cannot be started ({fault})")

    def add(self, *, step: int, name: str, value: float) -> None:
        """Hand over one value; it is dropped where the tracker has fallen far behind or has failed."""
        if not self._open:
            return
        if self._values.qsize() >= _MOST_WAITING:
            self._warn("takes values more slowly than training gives them, and some are missing there")
            return
        self._values.put((step, name, value if math.isfinite(value) else math.nan))

    def end(self, *, finished: bool) -> None:
        """Announce that no value follows; returns at once."""
        self._finished = finished
        seconds = self._patience if finished else min(self._patience, _UNFINISHED_SECONDS)
        self._deadline = time.monotonic() + seconds
        self._values.put(None)

    def wait(self) -> None:
        """Wait for the tracker's end, at most until `patience` seconds after `end` was called."""
        if self._thread.ident is None:  # it never started
            return
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        if self._finished and self._thread.is_alive():
            self._warn(f"had not ended after {self._patience:g} s; values may be missing there")

    def _feed(self) -> None:
        try:
            target = self._connect()
            while (value := self._values.get()) is not None:
                target.add(*value)
            target.close(finished=self._finished)
        except BaseException as fault:  # some libraries raise SystemExit
            self._warn(reason(fault))
        finally:
            self._open = False

    def _warn(self, why: str) -> None:
        if not self._warned.acquire(blocking=False):
            return
        text = f"{self._option}: {why}; training is not affected, and metrics.jsonl has every value"
        _log.info("warning: %s", text)
        with contextlib.suppress(OSError, ValueError):  # standard error may be closed by now
            say(f"warning: {text}")


def reason(fault: BaseException) -> str:
    """One line without the secret that the message of a refused log-in might quote."""
    text = str(fault) if isinstance(fault, EmbedrunError) else f"{type(fault).__name__}: {fault}"
    key = os.environ.get("WANDB_API_KEY")
    text = text.replace(key, "***") if key else text
    return " ".join(masked(text).split())[:_LONGEST_REASON]
