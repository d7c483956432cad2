"""How several jobs at a time are ended by one signal: each saves, and none is killed by its launcher."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from embedrun.console import outlast_readers, say
from embedrun.training.interrupt import fault, handling


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


def deaf() -> None:
    """Neither Ctrl-C nor a closed terminal ends a worker of joblib: all jobs would end with it.

    The jobs that it starts hear SIGHUP, unless it was ignored before, as under nohup.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    outlast_readers()
