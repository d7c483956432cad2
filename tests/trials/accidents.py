"""Accidents of a training run, to be had at a certain step."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from embedrun.training.step import Stepper


@contextmanager
def at_step(step: int, act: Callable[[], object]) -> Iterator[None]:
    """Do something when this step is about to be taken; its batch is read, nothing else has begun."""
    take = Stepper.take

    def watched(self: Stepper, number: int, *rest: Any, **more: Any) -> Any:
        if number == step:
            act()
        return take(self, number, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "take", watched)
        yield


def signal_self(number: int) -> None:
    """Send a signal to this process."""
    os.kill(os.getpid(), number)
