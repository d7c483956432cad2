"""Both ends of the pipe to another tracker.

    python -m embedrun.tracking.mirror wandb|tensorboard PATIENCE

This process ends by itself when training does, however that ends. `Mirror` says what goes through the pipes.
"""

import contextlib
import json
import logging
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from io import TextIOBase
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Protocol

from embedrun import signals
from embedrun.console import masked, say
from embedrun.errors import EmbedrunError
from embedrun.files import Plain

_log = logging.getLogger("embedrun")
_MOST_LINES = 20_000  # that wait for the child; about 2 MB
_LONGEST_REASON = 1000  # bytes
_UNFINISHED_SECONDS = 2.0  # whoever sent a signal may soon send SIGKILL


class Mirror:
    """A tracker outside of the run's own files, in a child process that a thread feeds through a pipe.

    The child can neither raise into training, block it, nor touch its random state. Whatever goes wrong, the
    user reads one warning, and `metrics.jsonl` is the same as without the tracker.

    The child reads lines of JSON on its standard input: `opening`, what it needs to know of the run, then a
    line for each value, and a last line `{"finished": true}`. Without that one the run did not finish. On its
    standard output it may write one line that says why it failed; an exit code other than 0 is a failure too.

    `option`, as ``"tracking.wandb"``, is what warnings start with. `command` is the child's program and its
    arguments, `environment` that of the child, by default this process's. `patience` is how many seconds it
    may take to end.
    """

    def __init__(
        self,
        option: str,
        command: Sequence[str],
        opening: Plain,
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
        except (OSError, RuntimeError) as fault:  # the limit of processes or threads is reached
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
        """Announce that no value follows; returns at once."""
        self._finished = finished
        self._deadline = time.monotonic() + (
            self._patience if finished else min(self._patience, _UNFINISHED_SECONDS)
        )
        if finished:
            self._put({"finished": True})
        self._lines.put(None)

    def wait(self) -> None:
        """Wait for the child's end, at most until `patience` seconds after `end` was called.

        The child of a run that did not finish is not waited for that long; it ends by itself within
        `patience`.
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

    def _put(self, row: Plain) -> None:
        self._lines.put(json.dumps(row).encode() + b"\n")

    def _feed(self) -> None:
        """The thread: sends lines to the child until the end, or until it accepts no more; then reads why."""
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


_ROOM = 2**16  # bytes; more than wandb writes between two checks


def check_room(folder: Path) -> None:
    """Write a small file to the folder, and remove it.

    Free space alone is not enough: it does not reflect a quota.

    Raises:
        OSError: with the disk's own message and the folder, if the disk is full.
    """
    path = folder / f".room-{os.getpid()}"
    try:
        with path.open("wb") as file:
            file.write(bytes(_ROOM))
            file.flush()
            os.fsync(file.fileno())
    except OSError as fault:
        raise OSError(fault.errno, fault.strerror, str(folder)) from fault
    finally:
        path.unlink(missing_ok=True)


_ROOM_SECONDS = 15.0  # between two checks of the disk; wandb writes its own file as rarely
_LONGEST_FAULT = 300  # characters
_GRACE = 2.0  # seconds; training, where it is alive, does this itself and says so
_SINKS = {
    "wandb": ("embedrun.tracking.trackers", "WandbRun"),
    "tensorboard": ("embedrun.tracking.trackers", "TensorboardFiles"),
}


class Sink(Protocol):
    """Where values go; `folder` is where it keeps its files."""

    folder: Path

    def add(self, step: int, name: str, value: float) -> None:
        """One value; NaN where it is undefined."""
        ...

    def close(self, *, finished: bool) -> None:
        """No value follows."""
        ...


def main(arguments: Sequence[str]) -> int:
    """Feed one tracker; returns 1 if it failed, which standard output explains."""
    kind, patience = arguments
    signals.ignore()  # training says when to end
    with contextlib.suppress(OSError):
        os.nice(10)  # training goes first
    lines, report = _own_pipes()
    _end_with_training(lines, float(patience))
    module, name = _SINKS[kind]
    try:
        copy(lines, lambda opening: getattr(import_module(module), name)(opening))
    except Exception as fault:
        with contextlib.suppress(OSError):  # training may be gone
            print(_reason(fault), file=report, flush=True)
        lines.close()  # training sees at once that nobody reads, even if the tracker never ends
        return 1
    return 0


def copy(lines: Iterator[str] | TextIOBase, connect: Callable[[Plain], Sink]) -> None:
    """Read what training sends, lines of JSON as `Mirror` describes them, to its end.

    `connect` makes the tracker from the first line.

    Raises:
        OSError: if the disk is full, which wandb does not report.
        Exception: whatever the tracker raises.
    """
    rows = _rows(lines)
    opening = next(rows, None)
    if opening is None:
        return
    sink = connect(opening)
    finished, due = False, 0.0
    for row in rows:
        if finished := row.get("finished", False):
            break
        value = row["value"]
        sink.add(row["step"], row["name"], float("nan") if value is None else value)
        if time.monotonic() >= due:
            check_room(sink.folder)
            due = time.monotonic() + _ROOM_SECONDS
    sink.close(finished=finished)
    check_room(sink.folder)


def _rows(lines: Iterator[str] | TextIOBase) -> Iterator[Plain]:
    for line in lines:
        if not line.endswith("\n"):  # training was killed in the middle of it
            return
        yield json.loads(line)


def _own_pipes() -> tuple[TextIOBase, TextIOBase]:
    """The pipes to training, detached from standard input and output.

    A tracker may ask questions there, print, and pass them to processes that outlive it.
    """
    lines, report = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    return lines, report


def _end_with_training(lines: TextIOBase, patience: float) -> None:
    """Kill this process once training has closed the pipe, or was killed, and `patience` is over."""
    pipe = select.poll()
    pipe.register(lines.fileno(), 0)  # no event is asked for: a closed other end is always told

    def watch() -> None:
        pipe.poll()
        time.sleep(patience + _GRACE)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _reason(fault: Exception) -> str:
    """One line without the secret that the message of a refused log-in might quote."""
    if isinstance(fault, EmbedrunError):
        text = str(fault)
    elif isinstance(fault, OSError) and fault.strerror:
        text = f"{fault.strerror}: {fault.filename}" if fault.filename else fault.strerror
    else:
        text = f"{type(fault).__name__}: {fault}"
    key = os.environ.get("WANDB_API_KEY")
    text = text.replace(key, "***") if key else text
    return " ".join(masked(text).split())[:_LONGEST_FAULT]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
