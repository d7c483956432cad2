"""Whether the process of a run is still there: it holds the lock of its directory until it ends, however."""

import fcntl
from pathlib import Path

from embedrun.errors import ConfigError
from embedrun.files import open_lock


def is_alive(run: Path) -> bool | None:
    """Whether a process writes into a run directory; None where that cannot be told.

    Nothing is written, and the lock is given back at once.

    Args:
        run: the directory.
    """
    try:
        lock = open_lock(run / ".lock", make=False)
    except (OSError, ConfigError):
        return None  # a run of somebody else, a copy without it, or a link
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return None  # a file system that knows no locks
    return False
