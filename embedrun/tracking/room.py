"""Whether a disk takes more data: a tracker that writes in the background does not say when it does not."""

import os
from pathlib import Path

_ROOM = 2**16  # bytes; more than wandb writes between two looks


def check_room(folder: Path) -> None:
    """Write a small file, and remove it.

    Free space alone would not do: it tells nothing of a quota.

    Args:
        folder: on the disk in question.

    Raises:
        OSError: as the disk words it, with the folder, if it takes no more.
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
