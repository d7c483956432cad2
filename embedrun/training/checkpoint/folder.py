"""The folders of checkpoints: names, manifest, verification, retention."""

import errno
import hashlib
import json
import logging
import math
import os
import shutil
from itertools import count
from pathlib import Path

from embedrun.errors import DISK, NO_CHECKPOINT, RunFailed
from embedrun.files import fsync, read_json

ASIDE, REPLACED, TRASH, CORRUPT = ".tmp-", ".old-", ".trash-", "corrupt-"
_STEP = "step-"


def path_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is published, `step-00000125`."""
    return folder / f"{_STEP}{step:08d}"


def published(folder: Path) -> list[int]:
    """Steps of the complete checkpoints, in order; a folder with any other name is none of ours."""
    names = {path.name for path in folder.glob(f"{_STEP}*")}
    digits = [name.removeprefix(_STEP) for name in names]
    steps = {int(one) for one in digits if one.isdecimal()}
    return sorted(step for step in steps if path_of(folder, step).name in names)


def set_aside(folder: Path) -> list[Path]:
    """The damaged checkpoints that were renamed."""
    return sorted(folder.glob(f"{CORRUPT}{_STEP}*"))


def unused(path: Path) -> Path:
    """The path itself, or with `.2`, `.3`, ... appended where that name is taken."""
    if not os.path.lexists(path):
        return path
    numbered = (path.with_name(f"{path.name}.{number}") for number in count(2))
    return next(one for one in numbered if not os.path.lexists(one))


SCHEMA = 2
MODEL, OPTIMIZER, RANDOM = "model.safetensors", "optimizer.safetensors", "random.safetensors"
STATE, MANIFEST = "state.json", "manifest.json"
FILES = (MODEL, OPTIMIZER, RANDOM, STATE)  # what the manifest lists
# A file that is missing, is no file, or has a bad sector. Other errors say nothing about the checkpoint.
_DAMAGE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO)


def write(folder: Path, step: int) -> None:
    """Write the manifest of the files that are there."""
    files = {
        name: {"sha256": _sha256(folder / name), "bytes": (folder / name).stat().st_size} for name in FILES
    }
    manifest = {"schema": SCHEMA, "step": step, "files": files}
    # It ends with its closing brace, so that the loss of a single byte makes it unreadable.
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def verify(checkpoint: Path) -> list[str]:
    """What is wrong with a checkpoint: one line a fault, none if it is complete and undamaged.

    Raises:
        RunFailed: if a file cannot be read for a reason other than damage, such as its permissions (exit 7).
    """
    place = checkpoint / MANIFEST
    try:
        manifest = read_json(place)
        schema, own_name = manifest["schema"], path_of(checkpoint, manifest["step"]).name
        wanted = {name: (entry["bytes"], entry["sha256"]) for name, entry in manifest["files"].items()}
    except OSError as fault:
        return [_damage(place, fault)]
    except (ValueError, LookupError, TypeError, AttributeError) as fault:
        return [f"{place}: not a manifest ({type(fault).__name__}: {fault})"]
    if schema != SCHEMA:
        return [f"{place}: schema {schema!r}, this version reads {SCHEMA}"]
    faults = [] if checkpoint.name == own_name else [f"{place}: belongs to {own_name}"]
    if set(wanted) != set(FILES):
        faults.append(f"{place}: lists {', '.join(sorted(wanted))} in place of {', '.join(sorted(FILES))}")
        return faults
    for name, (size, digest) in wanted.items():
        faults += _compare(checkpoint / name, size, digest)
    return faults


def _compare(path: Path, size: int, digest: str) -> list[str]:
    try:
        same = path.stat().st_size == size and _sha256(path) == digest
    except FileNotFoundError:
        return [f"{path}: missing"]
    except OSError as fault:
        return [_damage(path, fault)]
    return [] if same else [f"{path}: differs from its manifest"]


def _damage(path: Path, fault: OSError) -> str:
    if fault.errno not in _DAMAGE:
        raise RunFailed(
            f"{path}: cannot be read ({fault.strerror}); the checkpoint was left as it is, make it readable "
            "and start again",
            exit_code=NO_CHECKPOINT,
        ) from fault
    return f"{path}: {fault.strerror}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_log = logging.getLogger("embedrun")


def prune(folder: Path, *, keep: int, best: int | None) -> None:
    """Remove all but the newest `keep` checkpoints, and the best of now and of when each of these was made.

    A run that falls back from a damaged one to the one before needs what was the best then, so `keep` is 2 or
    more. Damaged ones that were set aside stay and are not counted. A failure to remove one is logged, and
    tried again after the next save; it never fails the run. `best` is a step.
    """
    steps = published(folder)
    wanted = {best, *(_best_then(path_of(folder, step)) for step in steps[-keep:])}
    for step in steps[:-keep]:
        if step not in wanted:
            discard(path_of(folder, step))


def discard(path: Path) -> None:
    """Remove a folder; it is renamed first, so that a half-removed one is never taken for a checkpoint."""
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
        # Killed between two renames: the new checkpoint of this step never came, so the old one is put back.
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
        return read_json(checkpoint / STATE)["best"]["step"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _delete(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError as fault:
        _log.warning("%s could not be removed: %s", path, fault)


_WITHOUT_BEST = "the next dev score is the best again, and without another one the last weights are kept"


def newest(folder: Path, *, expected: int | None) -> tuple[Path | None, list[str]]:
    """The newest undamaged checkpoint; a damaged one on the way is set aside as `corrupt-step-*`.

    The path is None where none was ever made, and the run starts afresh; the list has a warning for each that
    was damaged or is missing.

    `expected` is the step of the last checkpoint that the run has recorded elsewhere; None: it has recorded
    none. The folder need not exist.

    Raises:
        RunFailed: if there is none although there have been checkpoints (exit 7): to start again over the
            remains of a run would be worse than to stop.
    """
    sweep(folder)
    warnings = []
    for step in reversed(published(folder)):
        path = path_of(folder, step)
        if not (faults := verify(path)):
            if expected is not None and expected > step and not warnings:
                warnings.append(f"{path_of(folder, expected)} is gone")
            return path, [f"{warning}; resuming from {path.name}" for warning in warnings]
        warnings.append(_quarantine(path, faults))
    lost = warnings or [f"{path} is damaged" for path in set_aside(folder)]
    if expected is not None and not lost:
        lost = [f"{path_of(folder, expected)} is gone"]
    if lost:
        raise RunFailed(
            f"{folder}: no checkpoint to resume from: {'; '.join(lost)}. Nothing was started; restore an "
            "intact copy under its name, or start a new run (training.resume=never)",
            exit_code=NO_CHECKPOINT,
        )
    return None, []


def best_of(folder: Path, step: int) -> list[str]:
    """Why the best checkpoint, of this step, is unusable: one line, or none; a damaged one is set aside.

    Its weights are lost then. The caller continues without a best score, so that the next one is the best.
    """
    path = path_of(folder, step)
    if not path.exists():
        return [f"{path}, the best so far, is gone; {_WITHOUT_BEST}"]
    if not (faults := verify(path)):
        return []
    return [f"{_quarantine(path, faults)}; it was the best so far, {_WITHOUT_BEST}"]


def _quarantine(path: Path, faults: list[str]) -> str:
    """Rename a damaged checkpoint so that it is not taken for one, and say so."""
    moved = path.rename(unused(path.with_name(f"{CORRUPT}{path.name}")))
    fsync(path.parent)
    return (
        f"{path} is damaged ({'; '.join(_short(fault, path) for fault in faults)}), set aside as {moved.name}"
    )


def _short(fault: str, path: Path) -> str:
    return fault.removeprefix(f"{path}/")


RESERVE = 1.2  # x the size of the last checkpoint must be free; metrics and logs are written beside


def needed(folder: Path, tensors: int) -> int:
    """Bytes that must be free for the next checkpoint.

    `tensors`, bytes of the tensors to be written, is all that is known before the first checkpoint, and more
    than the last one has where the optimizer did not have its moments yet.
    """
    last = path_of(folder, steps[-1]).glob("*") if (steps := published(folder)) else ()
    return math.ceil(RESERVE * max(tensors, sum(path.stat().st_size for path in last)))


def require(checkpoint: Path, bytes_needed: int) -> None:
    """Refuse to start a save for which the disk has too little free space: RunFailed (exit 5)."""
    usage = shutil.disk_usage(checkpoint.parent)
    # Some network file systems give no figures at all; the write itself will tell there.
    if usage.total and usage.free < bytes_needed:
        raise full(checkpoint, bytes_needed)


def full(checkpoint: Path, bytes_needed: int) -> RunFailed:
    """The failure that says where, how much is needed and how much is free."""
    free = shutil.disk_usage(checkpoint.parent).free
    return RunFailed(
        f"{checkpoint}: no space left on the disk, or no quota: a checkpoint needs {bytes_needed:,} bytes, "
        f"{free:,} are free. Older checkpoints are intact; free some space, then resume with "
        f"'embedrun resume {checkpoint.parent.parent}'",
        exit_code=DISK,
    )
