"""Modules in the place of wandb and of torch's TensorBoard writer that fail at one moment in one way."""

import sys
import threading
from types import ModuleType
from typing import Any

import pytest

FAULTS = [(when, how) for when in ("init", "log", "finish") for how in ("raise", "hang")]


def lay(patch: pytest.MonkeyPatch, when: str, how: str) -> None:
    """Put both modules in place; `when` and `how` are as in `FAULTS`."""

    def fault(moment: str) -> None:
        if moment == when and how == "hang":
            threading.Event().wait(60)
        if moment == when:
            raise RuntimeError(f"broken\n{when}")

    class Run:
        def __init__(self, *_: Any, **__: Any) -> None:
            fault("init")

        def log(self, *_: Any, **__: Any) -> None:
            fault("log")

        def finish(self, **_: Any) -> None:
            fault("finish")

        add_scalar, close = log, finish

    wandb, tensorboard = map(ModuleType, ("wandb", "torch.utils.tensorboard"))
    vars(wandb).update(Settings=dict, setup=dict, init=Run)
    vars(tensorboard).update(SummaryWriter=Run)
    for module in (wandb, tensorboard):
        patch.setitem(sys.modules, module.__name__, module)


def warnings(when: str, how: str, patience: float) -> list[str]:
    """How the warnings of both trackers begin, TensorBoard's first."""
    reason = f"RuntimeError: broken {when}"
    if how == "hang":
        reason = f"had not ended after {patience:g} s; values may be missing there"
    return [f"warning: tracking.{kind}: {reason}" for kind in ("tensorboard", "wandb")]
