"""The child process of one mirror: reads values from a pipe and gives them to a tracker.

    python -m embedrun.tracking.feeder wandb|tensorboard PATIENCE

It ends by itself when training does, however that ends. `mirror.py` says what goes through the pipes.
"""

import contextlib
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from io import TextIOBase
from pathlib import Path
from typing import Any, Protocol

from embedrun.errors import EmbedrunError
from embedrun.tracking.room import check_room

_ROOM_SECONDS = 15.0  # between two looks at the disk; wandb writes its own file as seldom
_LONGEST_REASON = 300  # characters
_GRACE = 2.0  # seconds; training, where it is alive, does this itself and says so
_SINKS = {
    "wandb": ("embedrun.tracking.wandb_run", "WandbRun"),
    "tensorboard": ("embedrun.tracking.tensorboard_files", "TensorboardFiles"),
}


class Sink(Protocol):
    """Where values go.

    Attributes:
        folder: where it keeps its files.
    """

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
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # a batch system sends them to all; training says when to end
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
        lines.close()  # training sees at once that nobody listens, even if the tracker never lets go
        return 1
    return 0


def copy(lines: Iterator[str] | TextIOBase, connect: Callable[[Mapping[str, Any]], Sink]) -> None:
    """Read what training sends, to its end.

    Args:
        lines: of JSON, as `Mirror` describes them.
        connect: the tracker, from the first line.

    Raises:
        OSError: if the disk takes no more; wandb does not tell.
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


def _rows(lines: Iterator[str] | TextIOBase) -> Iterator[dict[str, Any]]:
    for line in lines:
        if not line.endswith("\n"):  # training was killed in the middle of it
            return
        yield json.loads(line)


def _own_pipes() -> tuple[TextIOBase, TextIOBase]:
    """The pipes to training, taken away from standard input and output.

    A tracker may ask questions there, print, and hand them on to processes that outlive it.
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
    text = text.replace(key, "...") if key else text
    return " ".join(text.split())[:_LONGEST_REASON]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
