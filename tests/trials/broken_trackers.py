"""Packages in the place of wandb and of torch's TensorBoard writer that fail at one moment in one way."""

from pathlib import Path

import pytest

# Moments and ways; a full disk is met where something is written.
FAULTS = [(when, how) for when in ("import", "init", "log", "finish") for how in ("raise", "hang")]
FAULTS.append(("log", "full"))

_PROGRAM = """
import os, time

open(os.environ["UP"] + "/up-" + __name__, "w").close()
WHEN, HOW = os.environ["WHEN"], os.environ["HOW"]

def fault(when):
    if when != WHEN:
        return
    if HOW == "hang":
        time.sleep(60)
    if HOW == "full":
        raise OSError(28, "No space left on device", "here")
    raise RuntimeError(f"broken\\n{WHEN}")

fault("import")
Settings = dict

class Run:
    def __init__(self, folder):
        fault("init")
        os.makedirs(folder, exist_ok=True)
        self.dir = folder
    def log(self, *_, **__):
        fault("log")
    def finish(self, **_):
        fault("finish")
    def flush(self):
        pass
    add_scalar, close = log, finish

def init(**options):
    return Run(options["dir"] + "/wandb/run/files")

def SummaryWriter(folder, **_):
    return Run(folder)
"""
_FILES = {
    "wandb/__init__.py": _PROGRAM,
    "wandb/errors.py": "class UsageError(Exception): pass",
    "torch/__init__.py": "",
    "torch/utils/__init__.py": "",
    "torch/utils/tensorboard.py": _PROGRAM,
}


def lay(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Write the packages below a folder, where processes that start from now on find them first."""
    for name, text in _FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    patch.setenv("PYTHONPATH", str(folder))


def choose(when: str, how: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """What trackers that start from now on do.

    Args:
        when: a moment of `FAULTS`; any other word: they are sound.
        how: the way.
        folder: where each leaves a file `up-NAME` once it runs.
        patch: takes the choice back.
    """
    for name, value in {"WHEN": when, "HOW": how, "UP": str(folder)}.items():
        patch.setenv(name, value)


def warnings(when: str, how: str, patience: float) -> list[str]:
    """How the warnings of both trackers begin, TensorBoard's first."""
    reason = f"RuntimeError: broken {when}"
    if how == "hang":
        reason = f"had not ended after {patience:g} s and was stopped; values may be missing there"
    if how == "full":
        reason = "No space left on device: here"
    return [f"warning: tracking.{kind}: {reason}" for kind in ("tensorboard", "wandb")]
