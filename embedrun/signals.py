"""SIGINT, SIGTERM, SIGHUP and SIGUSR1 as orderly ends, of one process and of several jobs."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from embedrun.console import outlast_readers, say
from embedrun.errors import Terminated

# SIGTERM is what a machine sends that shuts down or kills a job; SIGUSR1 what a batch system sends before;
# SIGHUP what a terminal sends that is closed.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_asked: list[int] = []  # the signals that have come since the last `raised` began; handlers are global, too
_Handler = Callable[[int, FrameType | None], None]


def heard() -> list[int]:
    """The signals that end work in this process: not SIGHUP where it is ignored, as nohup has it."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [number for number in _SIGNALS if number != signal.SIGHUP or not ignored]


def fault(number: int) -> KeyboardInterrupt:
    """What a signal raises: `KeyboardInterrupt` for SIGINT, `Terminated` for the others."""
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated()


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Inside, SIGTERM, SIGHUP and SIGUSR1 raise `Terminated` where the process stands, as Ctrl-C does.

    Only the first does: what tidies up then is not to be cut short by a second one, since batch systems and
    process groups send several. A second Ctrl-C is obeyed. One that a step has deferred counts as the first.
    """
    _asked.clear()

    def handle(number: int, _: FrameType | None) -> None:
        again = bool(_asked)
        _asked.append(number)
        if number == signal.SIGINT or not again:
            raise fault(number)

    with handling(handle):
        yield


class Deferred:
    """Inside, a signal is noted, and the step ends first; a second Ctrl-C ends the process where it stands.

    One that nobody has looked at until the end of the block is raised there.

    Attributes:
        asked: the first signal that came, or None.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self._at_once = False

    def fault(self) -> KeyboardInterrupt:
        """What is to be raised once all is saved; in another process than that which was asked, too."""
        return fault(signal.SIGTERM if self.asked is None else self.asked)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside, no step is under way: a signal raises where the process stands, as does an earlier one."""
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
            self._at_once = False  # what is saved now is saved whole
            raise fault(number)


@contextlib.contextmanager
def handling(handle: _Handler) -> Iterator[None]:
    """Inside, `handle` gets the signals of `heard`; outside the main thread nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with put_back():
        for number in heard():
            signal.signal(number, handle)
        yield


@contextlib.contextmanager
def put_back(*more: int) -> Iterator[None]:
    """Afterwards our signals, and more, have the handlers from before, whoever has replaced them."""
    before = {number: signal.getsignal(number) for number in (*_SIGNALS, *more)}
    try:
        yield
    finally:
        for number, former in before.items():
            # None: installed by something that is not Python, and cannot be put back.
            signal.signal(number, signal.SIG_DFL if former is None else former)


@contextlib.contextmanager
def stopping(sign: Path) -> Iterator[None]:
    """Inside, the first signal asks the jobs to end and is raised once they have; a second Ctrl-C is obeyed.

    Raised where the process stands, it would make joblib kill its workers with all that they have started,
    while they save.

    Args:
        folder: where the jobs look for the sign.

    Raises:
        KeyboardInterrupt: for the signal that came.
    """
    asked: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        again = bool(asked)
        asked.append(number)
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
    """From now on this process hears none: a batch system sends them to all that a run has started."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def deaf() -> None:
    """Neither Ctrl-C nor a closed terminal ends a worker of joblib: all jobs would end with it.

    The jobs that it starts hear SIGHUP, unless it was ignored before, as under nohup.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    outlast_readers()
