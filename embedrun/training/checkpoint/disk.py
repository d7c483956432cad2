"""The disk: whether it holds another checkpoint, and waiting until it has what was written."""

import math
import shutil
from pathlib import Path

from embedrun.errors import DISK, RunFailed
from embedrun.training.checkpoint.names import path_of, published

RESERVE = 1.2  # x the size of the last checkpoint must be free; metrics and logs are written beside


def needed(folder: Path, tensors: int) -> int:
    """Bytes that must be free for the next checkpoint.

    Args:
        folder: of the checkpoints.
        tensors: bytes of the tensors to be written: all that is known before the first, and more than the
            last one has where the optimizer did not have its moments yet.
    """
    last = path_of(folder, steps[-1]).glob("*") if (steps := published(folder)) else ()
    return math.ceil(RESERVE * max(tensors, sum(path.stat().st_size for path in last)))


def require(checkpoint: Path, bytes_needed: int) -> None:
    """Refuse to begin what cannot be ended.

    Raises:
        RunFailed: if less is free where the checkpoint goes (exit 5).
    """
    usage = shutil.disk_usage(checkpoint.parent)
    # Some network file systems give no figures at all; the write itself will tell there.
    if usage.total and usage.free < bytes_needed:
        raise full(checkpoint, bytes_needed)


def full(checkpoint: Path, bytes_needed: int) -> RunFailed:
    """The failure that says where, how much is needed and how much there is."""
    free = shutil.disk_usage(checkpoint.parent).free
    return RunFailed(
        f"{checkpoint}: no space left on the disk, or no quota: a checkpoint needs {bytes_needed:,} bytes, "
        f"{free:,} are free. Older checkpoints are whole; free some space, then go on with "
        f"'embedrun resume {checkpoint.parent.parent}'",
        exit_code=DISK,
    )
