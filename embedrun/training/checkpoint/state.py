"""What a checkpoint holds, written and read: tensors, random states, versions."""

import json
import os
import platform
import random
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import embedrun
from embedrun import files
from embedrun.errors import DISK, NO_CHECKPOINT, RunFailed, exit_code
from embedrun.files import Plain, copy_mode
from embedrun.training.checkpoint import folder as folders
from embedrun.training.checkpoint.folder import (
    ASIDE,
    MODEL,
    OPTIMIZER,
    RANDOM,
    REPLACED,
    STATE,
    discard,
    path_of,
    sweep,
    unused,
    verify,
)


def trained(model: nn.Module) -> dict[str, Tensor]:
    """What training changes: trainable parameters and buffers; the model's own tensors.

    Frozen weights come from the model that a run starts from; under an adapter they are nearly all.
    """
    frozen = {
        name for name, weight in model.named_parameters(remove_duplicate=False) if not weight.requires_grad
    }
    plain = {name for name, _ in model.named_parameters(remove_duplicate=False)} - frozen
    plain |= {name for name, _ in model.named_buffers(remove_duplicate=False)}
    # Weights in 4 bits have more entries there, for their scales, and those are frozen too.
    return {name: weight for name, weight in model.state_dict().items() if name in plain}


def moments_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's own tensors as `exp_avg/<name of the weight>`.

    A weight that has had no gradient yet has none; tied weights have theirs once, under their first name.
    """
    names = {id(weight): name for name, weight in model.named_parameters()}
    return {
        f"{kind}/{names[id(weight)]}": value
        for weight, kinds in optimizer.state.items()
        for kind, value in kinds.items()
    }


def put_moments(found: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Make the optimizer's state, bit for bit, that of `found`: `exp_avg/<name of the weight>`, ...

    The optimizer has the same parameter groups as then.
    """
    weights = dict(model.named_parameters())
    counted_there = {id(weight) for weight in _counted_on_device(optimizer)}
    optimizer.state.clear()
    for key, value in found.items():
        kind, name = key.split("/", 1)
        weight = weights[name]
        if kind == "step":
            own = value.to(weight.device if id(weight) in counted_there else "cpu")  # ()
        else:
            # As its weight lies in memory: another order of the numbers may be rounded another way.
            own = torch.empty_like(weight, dtype=value.dtype, requires_grad=False).copy_(value)
        optimizer.state[weight][kind] = own


def _counted_on_device(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    """Weights whose count of steps is kept on their device, as the fused and the capturable AdamW do."""
    for group in optimizer.param_groups:
        if group.get("fused") or group.get("capturable"):
            yield from group["params"]


def own_copy(tensor: Tensor) -> Tensor:
    """A copy on the CPU; safetensors takes neither memory that tied weights share nor a stride."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def size(tensors: dict[str, Tensor]) -> int:
    """Bytes that the numbers take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def states() -> dict[str, Tensor]:
    """All random states, by name; no number is drawn."""
    version, internal, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    found = {
        "torch": torch.get_rng_state(),  # (bytes,)
        "python_keys": torch.tensor(internal),  # (625,): unsigned 32-bit numbers, int64 holds them
        "python_rest": torch.tensor([version, gauss is not None, gauss or 0.0], dtype=torch.float64),  # (3,)
        "numpy_keys": torch.from_numpy(np.asarray(keys).astype(np.int64)),  # (624,)
        "numpy_rest": torch.tensor([position, has_gauss, cached], dtype=torch.float64),  # (3,)
    }
    # A run on the CPU of a machine with CUDA devices must not start them for this.
    devices = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
    return found | {f"cuda{index}": torch.cuda.get_rng_state(index) for index in range(devices)}


def seed_random(seed: int) -> None:
    """Set every random state by one number, 0 or more and below 2³²."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def restore_random(checkpoint: Path) -> None:
    """Restore every random state of a checkpoint.

    A CUDA device that is not there now is skipped, and one that was not there then keeps its state;
    `differences` tells of both.
    """
    found = load_file(checkpoint / RANDOM)
    torch.set_rng_state(found["torch"])
    version, has_gauss, gauss = found["python_rest"].tolist()
    random.setstate((int(version), tuple(found["python_keys"].tolist()), gauss if has_gauss else None))
    position, has_gauss, cached = found["numpy_rest"].tolist()
    keys = found["numpy_keys"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(position), int(has_gauss), cached))
    for index in range(torch.cuda.device_count()):
        if f"cuda{index}" in found:
            torch.cuda.set_rng_state(found[f"cuda{index}"], index)


def versions() -> dict[str, str]:
    """Versions of libraries, and what else decides how numbers are rounded, by name."""
    # Asking for the devices of a run that uses none would start them.
    used = torch.cuda.is_initialized()
    devices = (
        [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())] if used else []
    )
    return {
        "embedrun": embedrun.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "numpy": version("numpy"),
        "cuda": (torch.version.cuda or "none") if used else "none",
        "devices": ", ".join(devices) or "none",
        "cpu": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "threads": str(torch.get_num_threads()),
    }


def differences(state: Plain) -> list[str]:
    """What differs from when a checkpoint was made, such as `torch 2.12.0 then, 2.13.0 now`.

    A run still resumes with any difference, but may round differently. `state` is what `restore` returned;
    call this after it, when the model is on its device.
    """
    then, now = state.get("versions", {}), versions()
    names = [*now, *(name for name in then if name not in now)]
    pairs = {name: (then.get(name, "unknown"), now.get(name, "unknown")) for name in names}
    return [f"{name} {old} then, {new} now" for name, (old, new) in pairs.items() if old != new]


def save(
    folder: Path, *, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, state: Plain
) -> Path:
    """Write and publish one checkpoint in `checkpoints/` of a run, and return its folder.

    One of the same step is replaced. If it is killed at any moment, every older checkpoint stays complete,
    and the next save or `newest` clears the remains. `state` is plain data that the loop needs to resume.

    Raises:
        RunFailed: if the disk is full, or will be: less than 1.2 x the size of the last checkpoint is free
            (exit 5). What had been written is removed.
    """
    plain = {**state, "step": step, "optimizer": type(optimizer).__name__, "versions": versions()}
    text = json.dumps(plain, indent=1) + "\n"
    weights, moments = trained(model), moments_of(model, optimizer)
    target = path_of(folder, step)
    if not folder.exists():
        folder.mkdir()
        files.fsync(folder.parent)
    sweep(folder)
    bytes_needed = folders.needed(folder, size(weights) + size(moments) + len(text))
    folders.require(target, bytes_needed)
    aside = unused(folder / f"{ASIDE}{target.name}")
    try:
        aside.mkdir()
        _write_tensors(weights, aside / MODEL)
        _write_tensors(moments, aside / OPTIMIZER)
        _write_tensors(states(), aside / RANDOM)
        (aside / STATE).write_text(text, encoding="utf-8")
        folders.write(aside, step)
        _publish(aside, target)
    except Exception as fault:
        if exit_code(fault) != DISK:
            raise
        shutil.rmtree(aside, ignore_errors=True)
        raise folders.full(target, bytes_needed) from fault
    return target


def _write_tensors(found: dict[str, Tensor], path: Path) -> None:
    save_file({name: own_copy(tensor) for name, tensor in found.items()}, path)


def _publish(aside: Path, target: Path) -> None:
    """Give the checkpoint its name, once all of it is on the disk."""
    copy_mode(aside / STATE, aside.iterdir())
    for path in sorted(aside.iterdir()):
        files.fsync(path)
    files.fsync(aside)
    replaced = target.with_name(f"{REPLACED}{target.name}")
    if os.path.lexists(target):
        target.rename(replaced)
    aside.rename(target)
    files.fsync(target.parent)
    if os.path.lexists(replaced):
        discard(replaced)


def restore(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Plain:
    """Restore model and optimizer, bit for bit; if that is refused, nothing changes.

    Frozen weights stay as they are. Random states are `restore_random`'s. The optimizer may be a wrapper that
    has the `state` and `param_groups` of what it wraps. Returns the plain data that was saved, with `step`,
    `optimizer` and `versions` added.

    Raises:
        RunFailed: if the checkpoint is damaged, or of another model or optimizer (exit 7).
    """
    _require_whole(checkpoint)
    state = files.read_json(checkpoint / STATE)
    weights, moments = load_file(checkpoint / MODEL), load_file(checkpoint / OPTIMIZER)
    own = trained(model)
    _require_same(checkpoint, weights, own)
    _require_optimizer(checkpoint, state["optimizer"], moments, model, optimizer)
    _copy(weights, own)
    put_moments(moments, model, optimizer)
    return state


def load_weights(checkpoint: Path, model: nn.Module) -> None:
    """Load a checkpoint's weights into the model; its frozen weights stay.

    Raises:
        RunFailed: if the checkpoint is damaged, or of another model (exit 7).
    """
    _require_whole(checkpoint)
    weights, own = load_file(checkpoint / MODEL), trained(model)
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
            f"'embedrun resume {checkpoint.parent.parent}' sets it aside and resumes",
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
