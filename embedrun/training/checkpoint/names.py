"""The names of what lies in the folder of the checkpoints."""

import os
from itertools import count
from pathlib import Path

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
    """The path itself, or with `.2`, `.3`, ... behind it, where something has that name already."""
    if not os.path.lexists(path):
        return path
    numbered = (path.with_name(f"{path.name}.{number}") for number in count(2))
    return next(one for one in numbered if not os.path.lexists(one))
