"""Whether the process of a run is still there: it holds the lock of its directory until it ends, however."""

import fcntl
import os
from pathlib import Path


def is_alive(run: Path) -> bool | None:
    """Whether a process writes into a run directory; None where that cannot be told.

    Nothing is written, and the lock is given back at once.

    Args:
        run: the directory.
    """
    try:
        descriptor = os.open(run / ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # a run of somebody else, or a copy without it
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None  # a file system that knows no locks
    finally:
        os.close(descriptor)
