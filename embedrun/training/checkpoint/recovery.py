"""Which checkpoint a run goes on from, whatever happened to the newest."""

from dataclasses import dataclass, field
from pathlib import Path

from embedrun.errors import NO_CHECKPOINT, RunFailed
from embedrun.files import fsync
from embedrun.training.checkpoint.manifest import verify
from embedrun.training.checkpoint.names import CORRUPT, path_of, published, set_aside, unused
from embedrun.training.checkpoint.retention import sweep

_WITHOUT_BEST = "the next dev score is the best again, and without another one the last weights are kept"


@dataclass
class Found:
    """The checkpoint to go on from.

    Args:
        path: its folder; None: none was ever made, and the run begins.
        warnings: a line for each that was damaged or is gone.
    """

    path: Path | None
    warnings: list[str] = field(default_factory=list)


def newest(folder: Path, *, expected: int | None) -> Found:
    """The newest checkpoint that is whole; a damaged one on the way is set aside as `corrupt-step-*`.

    Args:
        folder: of the checkpoints; need not exist.
        expected: step of the last checkpoint that the run has recorded elsewhere; None: it has recorded none.

    Raises:
        RunFailed: if there is none although there have been checkpoints (exit 7): to begin again over the
            remains of a run would be worse than to stop.
    """
    sweep(folder)
    warnings = []
    for step in reversed(published(folder)):
        path = path_of(folder, step)
        if not (faults := verify(path)):
            if expected is not None and expected > step and not warnings:
                warnings.append(f"{path_of(folder, expected)} is gone")
            return Found(path, [f"{warning}; going on from {path.name}" for warning in warnings])
        warnings.append(_quarantine(path, faults))
    lost = warnings or [f"{path} is damaged" for path in set_aside(folder)]
    if expected is not None and not lost:
        lost = [f"{path_of(folder, expected)} is gone"]
    if lost:
        raise RunFailed(
            f"{folder}: no checkpoint to go on from: {'; '.join(lost)}. Nothing was started; put a whole "
            "copy back under its name, or begin a new run (training.resume=never)",
            exit_code=NO_CHECKPOINT,
        )
    return Found(None)


def best_of(folder: Path, step: int) -> list[str]:
    """Why the best checkpoint cannot serve: one line, or none where it is whole; a damaged one is set aside.

    Its weights are lost then. The caller goes on without a best score, so that the next one is the best.

    Args:
        folder: of the checkpoints.
        step: of the best.
    """
    path = path_of(folder, step)
    if not path.exists():
        return [f"{path}, the best so far, is gone; {_WITHOUT_BEST}"]
    if not (faults := verify(path)):
        return []
    return [f"{_quarantine(path, faults)}; it was the best so far, {_WITHOUT_BEST}"]


def _quarantine(path: Path, faults: list[str]) -> str:
    """Give a damaged checkpoint a name that passes for none, and say so."""
    moved = path.rename(unused(path.with_name(f"{CORRUPT}{path.name}")))
    fsync(path.parent)
    return (
        f"{path} is damaged ({'; '.join(_short(fault, path) for fault in faults)}), set aside as {moved.name}"
    )


def _short(fault: str, path: Path) -> str:
    return fault.removeprefix(f"{path}/")
