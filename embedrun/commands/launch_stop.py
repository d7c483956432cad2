"""How several jobs at a time are ended by one signal: each saves, and none is killed by its launcher."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from embedrun.commands.launch_work import STOP
from embedrun.console import say
from embedrun.training.interrupt import fault, handling


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

    with handling(handle):
        yield
    if asked:
        raise fault(asked[0])


def deaf() -> None:
    """Hear no Ctrl-C, in a worker of joblib: one that waits for work would die, and all jobs with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
