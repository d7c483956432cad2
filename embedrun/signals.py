"""Orderly shutdown on SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2, of one process and of several jobs."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from embedrun.console import ignore_broken_pipes, say
from embedrun.errors import Terminated

# A machine sends SIGTERM when it shuts down or kills a job, a batch system SIGUSR1 or SIGUSR2 before that (a
# job of submitit's SIGUSR2), and a closed terminal SIGHUP.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_asked: list[int] = []  # signals received since the last `raised` began; global, as signal handlers are
_Handler = Callable[[int, FrameType | None], None]


def heard() -> list[int]:
    """The signals that end work in this process: not SIGHUP where it is ignored, as under nohup."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [number for number in _SIGNALS if number != signal.SIGHUP or not ignored]


def fault(number: int) -> KeyboardInterrupt:
    """The exception for a signal: `KeyboardInterrupt` for SIGINT, `Terminated` for the others."""
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated()


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Inside, Ctrl-C raises `KeyboardInterrupt` at once, and every other signal of ours `Terminated`.

    Only the first does, since batch systems and process groups send several, and the next must not interrupt
    the clean-up. A second Ctrl-C does raise. A signal that a `Deferred` has noted counts as the first.

    One that comes where no exception gets out, in a destructor or a weak reference's callback as imports have
    them, is raised soon after.
    """
    _asked.clear()

    def handle(number: int, _: FrameType | None) -> None:
        again = bool(_asked)
        _asked.append(number)
        if number == signal.SIGINT or not again:
            raise fault(number)

    with handling(handle), _heard_again():
        yield


_SOON = 0.05  # seconds, in which a callback has ended


@contextlib.contextmanager
def _heard_again() -> Iterator[None]:
    """Inside, a signal whose exception Python has dropped comes again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former, timers = sys.unraisablehook, []

    def hook(lost: "sys.UnraisableHookArgs") -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt) or not _asked:
            former(lost)
            return
        timers.append(threading.Timer(_SOON, os.kill, (os.getpid(), _asked[-1])))
        _asked.clear()  # it has not been heard
        timers[-1].daemon = True
        timers[-1].start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = former
        for timer in timers:
            timer.cancel()


def insisted() -> bool:
    """Whether Ctrl-C has come twice since the last `raised` began."""
    return _asked.count(signal.SIGINT) > 1


def leave(code: int) -> NoReturn:
    """Exit; after a second Ctrl-C at once, without the threads that Python would wait for."""
    if insisted():
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


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
        self._exit.enter_context(handling(self._handle))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._exit.close()
        if kind is None and self.asked is not None:
            raise self.fault()

    def _handle(self, number: int, _: FrameType | None) -> None:
        again = self.asked is not None
        _asked.append(number)
        self.asked = number if self.asked is None else self.asked
        if self._at_once or (again and number == signal.SIGINT):
            self._at_once = False  # the save that follows must be complete
            raise fault(number)


@contextlib.contextmanager
def handling(handle: _Handler) -> Iterator[None]:
    """Inside, `handle` gets the signals of `heard`; outside the main thread this does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with put_back():
        for number in heard():
            signal.signal(number, handle)
        yield


@contextlib.contextmanager
def put_back(*more: int) -> Iterator[None]:
    """Restore the handlers of our signals, and of `more`, afterwards, whoever has replaced them."""
    before = {number: signal.getsignal(number) for number in (*_SIGNALS, *more)}
    try:
        yield
    finally:
        for number, former in before.items():
            # None: installed outside Python, and cannot be restored.
            signal.signal(number, signal.SIG_DFL if former is None else former)


@contextlib.contextmanager
def stopping(sign: Path) -> Iterator[None]:
    """Inside, the first signal makes the file `sign`, which tells the jobs to end; raised once they have.

    Raised at once, it would make joblib kill its workers, with all that they have started, while they save. A
    second Ctrl-C does raise at once.

    Raises:
        KeyboardInterrupt: for the signal that came.
    """
    asked: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        again = bool(asked)
        asked.append(number)
        _asked.append(number)
        sign.touch()
        if again and number == signal.SIGINT:
            raise fault(number)
        if not again:
            say("the running jobs save and end; no other is started")

    with handling(handle):
        yield
    if asked:
        raise fault(asked[0])


def ignore() -> None:
    """Ignore our signals from now on: a batch system sends them to all processes that a run has started."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def deaf() -> None:
    """Protect a worker of joblib from Ctrl-C and a closed terminal: all jobs would end with it.

    The jobs that it starts do get SIGHUP, unless it was ignored before, as under nohup.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    ignore_broken_pipes()
