"""How several jobs at a time are ended by one signal: each saves, and none is killed by its launcher."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from embedrun.commands.launch_work import STOP
from embedrun.console import say
from embedrun.training.interrupt import fault

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


@contextlib.contextmanager
def stopping(folder: Path) -> Iterator[None]:
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
        (folder / STOP).touch()
        if again and number == signal.SIGINT:
            raise fault(number)
        if not again:
            say("the running jobs save and end; no other is started")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, signal.SIG_DFL if former is None else former)
    if asked:
        raise fault(asked[0])


def deaf() -> None:
    """Hear no Ctrl-C, in a worker of joblib: one that waits for work would die, and all jobs with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
