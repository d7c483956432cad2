"""Python child processes: they run this very package, and import nothing from the current folder."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # Linux: the signal that a process gets when its parent dies
_ROOT = str(Path(__file__).resolve().parents[1])


def command(module: str, *arguments: str) -> list[str]:
    """The command line of a child.

    Without -P, Python searches the current folder for modules first, and would import the user's `yaml.py`.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """This process's environment, for a child and for all that it starts, whatever their command lines are.

    PYTHONPATH has this package if only the current folder leads to it, and no empty part, which would be that
    folder.
    """
    path = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if _ROOT not in sys.path[1:]:
        path.append(_ROOT)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}


def end_with(parent: int, number: int) -> None:
    """Make this child get a signal when its parent dies; exit now if the parent has died already."""
    import ctypes

    if os.getppid() == parent:
        with contextlib.suppress(OSError, AttributeError):  # not Linux
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent:
        sys.exit(1)


@contextlib.contextmanager
def started_by_others() -> Iterator[None]:
    """Inside, the same holds for what torch, joblib and submitit start with command lines of their own."""
    safe = environment()
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYTHONSAFEPATH")}
    os.environ.update({name: safe[name] for name in before})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
