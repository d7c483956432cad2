"""The training process's side of another tracker: it hands lines over and never waits, but at the end."""

import contextlib
import json
import logging
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import IO, Any

from embedrun.console import say

_log = logging.getLogger("embedrun")
_MOST_LINES = 20_000  # that wait for the child; about 2 MB
_LONGEST_REASON = 1000  # bytes
_UNFINISHED_SECONDS = 2.0  # whoever sent a signal may soon send the one that kills


class Mirror:
    """A tracker outside of the run's own files, in a child process that a thread feeds through a pipe.

    The child can neither raise into training, hold it up, nor touch its random state. Whatever goes wrong,
    a person reads one warning, and `metrics.jsonl` is what it would have been.

    The child reads lines of JSON on its standard input: `opening`, then a line for each value, and a last
    line `{"finished": true}`. Without that one the run did not finish. On its standard output it may write
    one line that says why it failed; an exit code other than 0 is a failure too.

    Args:
        option: what the user asked for, as ``"tracking.wandb"``; warnings begin with it.
        command: of the child, a program and its arguments.
        opening: what the child needs to know of the run.
        patience: seconds that it may take to end.
        environment: of the child; None: this process's.
    """

    def __init__(
        self,
        option: str,
        command: Sequence[str],
        opening: Mapping[str, Any],
        *,
        patience: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._option, self._patience = option, patience
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._warned = threading.Lock()  # taken once and for all by the one warning
        self._open = True
        self._thread: threading.Thread | None = None
        self._put(opening)
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,  # the lock of a buffer, held by a stuck thread, would abort the interpreter's exit
                env=environment,
                start_new_session=True,  # Ctrl-C is for training, and a group can be killed as one
            )
            thread = threading.Thread(target=self._feed, daemon=True)
            thread.start()
            self._thread = thread
        except (OSError, RuntimeError) as fault:  # no more processes or threads to be had
            self._open = False
            self._warn(f"cannot be started ({fault})")

    def add(self, *, step: int, name: str, value: float) -> None:
        """Hand over one value; it is dropped where the child has fallen far behind or has failed."""
        if not self._open:
            return
        if self._lines.qsize() >= _MOST_LINES:
            self._warn("takes values more slowly than training gives them, and some are missing there")
            return
        self._put({"step": step, "name": name, "value": value if math.isfinite(value) else None})

    def end(self, *, finished: bool) -> None:
        """Say that no value follows; returns at once."""
        self._finished = finished
        self._deadline = time.monotonic() + (
            self._patience if finished else min(self._patience, _UNFINISHED_SECONDS)
        )
        if finished:
            self._put({"finished": True})
        self._lines.put(None)

    def wait(self) -> None:
        """Wait for the child's end, at most until `patience` seconds after `end` was called.

        The child of a run that did not finish is left to end by itself, within `patience` too.
        """
        if self._thread is None:
            return
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        if self._finished and self._thread.is_alive():
            self._warn(
                f"had not ended after {self._patience:g} s and was stopped; values may be missing there"
            )
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._thread.join(1.0)

    def _put(self, row: Mapping[str, Any]) -> None:
        self._lines.put(json.dumps(row).encode() + b"\n")

    def _feed(self) -> None:
        """The thread: lines to the child until the end, or until it takes no more; then its word."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(OSError), self._child.stdin as pipe:
            while (line := self._lines.get()) is not None:
                _write(pipe, line)
        self._open = False
        reason = self._child.stdout.readline(_LONGEST_REASON).decode(errors="replace").strip()
        if reason:
            self._warn(reason)
        code = self._child.wait()
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            self._warn(f"its process {how}")

    def _warn(self, reason: str) -> None:
        if not self._warned.acquire(blocking=False):
            return
        text = f"{self._option}: {reason}; training is not affected, and metrics.jsonl has every value"
        _log.info("warning: %s", text)
        with contextlib.suppress(OSError, ValueError):  # standard error may be closed by now
            say(f"warning: {text}")


def _write(pipe: IO[bytes], line: bytes) -> None:
    rest = memoryview(line)
    while rest:  # a signal may cut a write short
        rest = rest[pipe.write(rest) :]
