"""`run:NAME`: the newest finished run of a name, as a model."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedrun import presets
from embedrun.config import nearest
from embedrun.errors import DataError

_MARK = "run:"
_OUTPUTS = Path("outputs")  # relative to the caller, as a new run's directory is
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_KEYS = ("name", "model")  # of the options that a model's name can be given to


def settle(name: str) -> str:
    """The directory of the run that ``run:NAME`` stands for at this moment; any other name as it is.

    Args:
        name: of a model. Of the runs below `outputs/NAME/` the one that has finished last is meant, among
            those with a model: an evaluation has none.

    Returns:
        The name, or a directory as a full path, which means the same from everywhere.

    Raises:
        DataError: if there is no such run.
    """
    if not name.startswith(_MARK):
        return name
    wanted = name.removeprefix(_MARK)
    folder = _OUTPUTS / wanted
    if not _RUN_NAME.fullmatch(wanted):
        raise DataError(
            f"model {name!r}: expected {_MARK}NAME with the name of runs, a folder below {_OUTPUTS}"
        )
    ended = [(when, path.name, path) for path in _runs(folder) if (when := _finished(path))]
    if not ended:
        raise DataError(f"model {name!r}: no finished run named {wanted} below {_OUTPUTS}; {_way_on(wanted)}")
    return str(max(ended)[-1].resolve())


def settled(plain: Any, began: Any = None) -> Any:
    """Configuration data in which directories stand for the ``run:NAME`` that there are.

    A configuration is settled before it is written down: a run that goes on then finds the model that it
    began with, whatever has finished since. What cannot be settled stays, for `locate` to report with
    everything else that is missing.

    Args:
        plain: plain data, of any form.
        began: the same as a run began with it, whose directories are taken; None: there is no such run.
    """
    if isinstance(plain, Mapping):
        return {
            key: (_place if key in _KEYS else settled)(one, _part(began, key)) for key, one in plain.items()
        }
    if isinstance(plain, list):
        return [settled(one, _part(began, place)) for place, one in enumerate(plain)]
    return plain


def _part(data: Any, key: Any) -> Any:
    try:
        return data[key]
    except (LookupError, TypeError):
        return None


def _place(name: Any, began: Any) -> Any:
    if not isinstance(name, str):
        return settled(name, began)
    if name.startswith(_MARK) and isinstance(began, str):
        return began
    try:
        return settle(name)
    except DataError:
        return name


def _runs(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []


def _finished(run: Path) -> str | None:
    """When the run finished, if it has, and has a model."""
    try:
        status = json.loads((run / "status.json").read_text(encoding="utf-8"))
        finished, ended = status["state"] == "finished", str(status["ended"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return ended if finished and (run / "model").is_dir() else None


def _way_on(wanted: str) -> str:
    hint = nearest(wanted, [path.name for path in _runs(_OUTPUTS) if path.name != wanted]).lstrip("; ")
    first = f"{hint} If not, " if hint else ""
    if wanted in presets.groups().get("experiment", []):
        first += f"run `embedrun train +experiment={wanted}` first, or "
    return f"{first}name one: backbone.name=RUN_DIR (evaluate: model=RUN_DIR)"
