"""A checkpoint back into a model and its optimizer."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from embedrun.errors import NO_CHECKPOINT, RunFailed
from embedrun.training.checkpoint import tensors
from embedrun.training.checkpoint.manifest import MODEL, OPTIMIZER, STATE, verify


def restore(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Make model and optimizer what they were, bit for bit; nothing changes where that is refused.

    Frozen weights stay as they are. Random states are `restore_random`'s.

    Args:
        checkpoint: its folder.
        model: on its device.
        optimizer: over the model's weights; a wrapper that has the `state` and `param_groups` of what it
            wraps will do.

    Returns:
        The plain data that was saved, with `step`, `optimizer` and `versions` added.

    Raises:
        RunFailed: if the checkpoint is not whole, or of another model or optimizer (exit 7).
    """
    _require_whole(checkpoint)
    state = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    weights, moments = load_file(checkpoint / MODEL), load_file(checkpoint / OPTIMIZER)
    own = tensors.trained(model)
    _require_same(checkpoint, weights, own)
    _require_optimizer(checkpoint, state["optimizer"], moments, model, optimizer)
    _copy(weights, own)
    tensors.put_moments(moments, model, optimizer)
    return state


def load_weights(checkpoint: Path, model: nn.Module) -> None:
    """Put a checkpoint's weights into the model; its frozen weights stay.

    Raises:
        RunFailed: if the checkpoint is not whole, or of another model (exit 7).
    """
    _require_whole(checkpoint)
    weights, own = load_file(checkpoint / MODEL), tensors.trained(model)
    _require_same(checkpoint, weights, own)
    _copy(weights, own)


def _copy(found: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(found[name])


def _require_whole(checkpoint: Path) -> None:
    if faults := verify(checkpoint):
        raise RunFailed(
            f"checkpoint is damaged: {'; '.join(faults)}; "
            f"'embedrun resume {checkpoint.parent.parent}' sets it aside and goes on",
            exit_code=NO_CHECKPOINT,
        )


def _require_same(checkpoint: Path, found: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    """The names, shapes and types of the weights must be those of the model."""
    odd = sorted(found.keys() ^ own.keys())
    odd += [name for name in sorted(found.keys() & own.keys()) if _kind(found[name]) != _kind(own[name])]
    if odd:
        raise RunFailed(f"{checkpoint}: of another model: {_odd(odd, 'weight')}", exit_code=NO_CHECKPOINT)


def _require_optimizer(
    checkpoint: Path,
    name: str,
    found: dict[str, Tensor],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    """The optimizer must be of the same class, and hold every weight that has moments."""
    own = type(optimizer).__name__
    if name != own:
        raise RunFailed(
            f"{checkpoint}: of another optimizer, {name}; this run has {own}", exit_code=NO_CHECKPOINT
        )
    held = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    names = {key for key, weight in model.named_parameters() if id(weight) in held}
    odd = sorted(key for key in found if key.split("/", 1)[1] not in names)
    if odd:
        raise RunFailed(
            f"{checkpoint}: of an optimizer over other weights: {_odd(odd, 'moment')}",
            exit_code=NO_CHECKPOINT,
        )


def _kind(tensor: Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype


def _odd(names: list[str], what: str) -> str:
    some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    if len(names) == 1:
        return f"1 {what} ({some}) differs from this run's"
    return f"{len(names)} {what}s ({some}) differ from this run's"
