"""torch.compile of the backbone while it is trained."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from embedrun.config import AdapterConfig, TrainingConfig
from embedrun.errors import ConfigError
from embedrun.training.parts import seeded


def compiled(model: Any) -> Callable[..., Any]:
    """The forward pass of a model, compiled at its first call, for texts of any number and length.

    The gradient is that of the model itself but for rounding. Dropout is drawn from torch's random state as
    ever, and repeats itself with it, but it drops other elements than without compiling.

    Args:
        model: of transformers; it is not changed, and its weights keep their names.
    """
    return torch.compile(model.forward, dynamic=True)


@contextlib.contextmanager
def using(model: Any, forward: Callable[..., Any]) -> Iterator[None]:
    """Within it, the model computes by this forward pass in place of its own.

    Raises:
        ConfigError: if it cannot be compiled.
    """
    from torch._dynamo.exc import TorchDynamoException  # takes seconds, and only a compiled run needs it

    model.forward = forward  # of this model alone, before that of its class
    try:
        yield
    except TorchDynamoException as fault:
        first = str(fault).strip().partition("\n")[0]
        raise ConfigError(
            f"gpu.compile: this model cannot be compiled here ({first}); leave it false"
        ) from fault
    finally:
        del model.forward


def problems(training: TrainingConfig, adapter: AdapterConfig | None, *, processes: int) -> list[str]:
    """Why the backbone cannot be compiled, with these options.

    Args:
        training: the training options.
        adapter: of the backbone.
        processes: that train together.
    """
    found = []
    if seeded(training, processes=processes):
        found.append(
            "gpu.compile: dropout by a seed of each text, which training.micro_batch_size, "
            "training.seeded_dropout and several processes ask for, cannot be compiled; leave it false"
        )
    if training.gradient_checkpointing:
        found.append("gpu.compile: does not go with training.gradient_checkpointing; leave it false")
    if adapter is not None and adapter.quantize is not None:
        found.append("gpu.compile: weights in 4 bits cannot be compiled; leave it false")
    return found
