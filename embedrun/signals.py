"""Orderly shutdown on SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2, of one process and of several jobs."""

import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from embedrun.console import say
from embedrun.errors import Terminated

# A machine sends SIGTERM when it shuts down or kills a job, a batch system SIGUSR1 or SIGUSR2 before that (a
# job of submitit's SIGUSR2), and a closed terminal SIGHUP.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_received: list[int] = []  # since the last `raised` began; global, as signal handlers are
_Handler = Callable[[int, FrameType | None], None]


def fault(number: int) -> KeyboardInterrupt:
    """The exception for a signal: `KeyboardInterrupt` for SIGINT, `Terminated` for the others."""
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated()


@contextlib.contextmanager
def handling(handle: _Handler) -> Iterator[None]:
    """Inside, `handle` gets our signals, and the former handlers are back afterwards.

    SIGHUP stays ignored where it is, as under nohup. Outside the main thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        for number, handler in former.items():
            if number != signal.SIGHUP or handler != signal.SIG_IGN:
                signal.signal(number, handle)
        yield
    finally:
        for number, handler in former.items():
            # None: installed outside Python, and cannot be restored.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Inside, Ctrl-C raises `KeyboardInterrupt` at once, and every other signal of ours `Terminated`.

    Only the first does, since batch systems and process groups send several, and the next must not interrupt
    the clean-up. A second Ctrl-C does raise. A signal that a `Deferred` has noted counts as the first.
    """
    _received.clear()

    def handle(number: int, _: FrameType | None) -> None:
        again = bool(_received)
        _received.append(number)
        if number == signal.SIGINT or not again:
            raise fault(number)

    with handling(handle):
        yield


@contextlib.contextmanager
def held() -> Iterator[list[int]]:
    """Inside, signals wait, in the list; at the end of the block each is handled as it would have been."""
    waiting: list[int] = []
    try:
        with handling(lambda number, _: waiting.append(number)):
            yield waiting
    finally:
        for number in waiting:
            signal.raise_signal(number)


def interrupted_twice() -> bool:
    """Whether Ctrl-C has come twice since the last `raised` began."""
    return _received.count(signal.SIGINT) > 1


def leave(code: int) -> NoReturn:
    """Exit; after a second Ctrl-C at once, without the threads that Python would wait for."""
    if interrupted_twice():
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def seconds_of(duration: str) -> int:
    """Seconds in a duration such as ``3h50m``: days, hours, minutes and seconds, each a whole number.

    Raises:
        ValueError: if it is none, or 0.
    """
    match = _DURATION.fullmatch(duration)
    parts = [int(part or 0) for part in match.groups()] if match else []
    seconds = sum(part * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=False))
    if not seconds:
        raise ValueError(f"expected a duration such as 3h50m, 45m or 90s, got {duration!r}")
    return seconds


@contextlib.contextmanager
def time_limit(duration: str | None) -> Iterator[None]:
    """Inside, this process gets SIGUSR1 when the time is up, as from a batch system; None: no limit."""

    def end() -> None:
        say(f"training.max_time={duration} is over: saving a checkpoint, then stopping")
        os.kill(os.getpid(), signal.SIGUSR1)

    if duration is None:
        yield
        return
    timer = threading.Timer(seconds_of(duration), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Deferred:
    """Inside, a signal is only noted, so that the step can end; a second Ctrl-C raises at once.

    At the end of the block, a noted signal is raised. `asked` is the first signal that came, or None.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self._at_once = False

    def fault(self) -> KeyboardInterrupt:
        """The exception to raise once all is saved, even in a process that got no signal itself."""
        return fault(signal.SIGTERM if self.asked is None else self.asked)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside, no step is under way: a signal raises at once, as does one that came earlier."""
        self._at_once = True
        try:
            if self.asked is not None:
                raise self.fault()
            yield
        finally:
            self._at_once = False

    def __enter__(self) -> "Deferred":
        self._exit = contextlib.ExitStack()
        self._exit.enter_context(handling(self.note))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._exit.close()
        if kind is None and self.asked is not None:
            raise self.fault()

    def note(self, number: int, _: FrameType | None) -> None:
        """Take a signal, as its handler."""
        again = self.asked is not None
        _received.append(number)
        self.asked = number if self.asked is None else self.asked
        if self._at_once or (again and number == signal.SIGINT):
            self._at_once = False  # the save that follows must be complete
            raise fault(number)


@contextlib.contextmanager
def stopping(sign: Path) -> Iterator[None]:
    """Inside, the first signal makes the file `sign`, which tells the jobs to end; raised once they have.

    Raised at once, it would make joblib kill its workers, with all that they have started, while they save. A
    second Ctrl-C does raise at once.
    """
    with Deferred() as stop:

        def handle(number: int, frame: FrameType | None) -> None:
            sign.touch()
            if stop.asked is None:
                say("the running jobs save and end; no other is started")
            stop.note(number, frame)

        with handling(handle):
            yield
