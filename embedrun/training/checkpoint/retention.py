"""Which checkpoints stay, and the removal of the others and of debris."""

import json
import logging
import os
import shutil
from pathlib import Path

from embedrun.files import fsync
from embedrun.training.checkpoint.manifest import STATE
from embedrun.training.checkpoint.names import ASIDE, REPLACED, TRASH, path_of, published, unused

_log = logging.getLogger("embedrun")


def prune(folder: Path, *, keep: int, best: int | None) -> None:
    """Remove all but the newest `keep` checkpoints, and the best of now and of when each of these was made.

    A run that falls back from a damaged one to the one before needs what was the best then. Damaged ones that
    were set aside stay and are not counted. One that cannot be removed costs a line in the log and is tried
    again after the next save; a run never fails by it.

    Args:
        folder: of the checkpoints.
        keep: 2 or more, so that there is another if the newest is damaged.
        best: its step, None where there is none.
    """
    steps = published(folder)
    wanted = {best, *(_best_then(path_of(folder, step)) for step in steps[-keep:])}
    for step in steps[:-keep]:
        if step not in wanted:
            discard(path_of(folder, step))


def discard(path: Path) -> None:
    """Remove a folder; it loses its name first, so that half of it passes for no checkpoint."""
    try:
        trash = path.rename(unused(path.with_name(f"{TRASH}{path.name.lstrip('.')}")))
        fsync(trash.parent)
    except OSError as fault:
        _log.warning("%s could not be removed: %s", path, fault)
    else:
        _delete(trash)


def sweep(folder: Path) -> None:
    """Clear what a killed save or removal left behind."""
    for path in sorted(folder.glob(f"{REPLACED}*")):
        # Killed between two renames: the new checkpoint of this step had not come, so the old one goes back.
        home = folder / path.name.removeprefix(REPLACED)
        if os.path.lexists(home):
            discard(path)
        else:
            path.rename(home)
    for pattern in (f"{ASIDE}*", f"{TRASH}*"):
        for path in sorted(folder.glob(pattern)):
            _delete(path)


def _best_then(checkpoint: Path) -> int | None:
    """The best step when a checkpoint was made, as the loop has noted it there; None where it has not."""
    try:
        return json.loads((checkpoint / STATE).read_text(encoding="utf-8"))["best"]["step"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _delete(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError as fault:
        _log.warning("%s could not be removed: %s", path, fault)
