"""Checkpoints: written aside, verified by a manifest, published by one rename.

A folder such as `step-00000125` that exists is complete. It holds safetensors and JSON only:

    model.safetensors      weights of everything that is trained; frozen ones are not there
    optimizer.safetensors  AdamW's two moments of every weight, and its step count
    random.safetensors     random state of torch, CUDA and numpy
    state.json             step, best score, gradient scaler, Python's random state, library versions
    manifest.json          schema, and SHA-256 and size of every other file
"""

import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from embedrun.errors import RunFailed

SCHEMA = 1
_TEMPORARY, _TRASH = ".tmp-", ".trash-"


def save(
    folder: Path, *, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> Path:
    """Write and publish one checkpoint.

    Args:
        folder: `checkpoints/` of the run directory.
        step: optimizer steps done.
        model: everything that is trained.
        optimizer: its moments are saved.
        state: plain data that the loop needs to go on.

    Returns:
        The published folder.
    """
    folder.mkdir(exist_ok=True)
    _sweep(folder)
    target = folder / _name(step)
    aside = folder / f"{_TEMPORARY}{target.name}"
    aside.mkdir()
    save_file(
        {name: _own_copy(weight) for name, weight in _trained(model).items()}, aside / "model.safetensors"
    )
    save_file(_optimizer_tensors(model, optimizer), aside / "optimizer.safetensors")
    save_file(_random_tensors(), aside / "random.safetensors")
    version, internal, gauss = random.getstate()
    python_random = {"version": version, "internal": list(internal), "gauss": gauss}
    plain = {**state, "step": step, "python_random": python_random, "versions": _versions()}
    (aside / "state.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    files = {
        path.name: {"sha256": _sha256(path), "bytes": path.stat().st_size} for path in sorted(aside.iterdir())
    }
    manifest = {"schema": SCHEMA, "step": step, "files": files}
    # It ends with its closing brace, so that the loss of a single byte makes it unreadable.
    (aside / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    for path in aside.iterdir():
        _fsync(path)
    _fsync(aside)
    aside.rename(target)
    _fsync(folder)
    return target


def verify(checkpoint: Path) -> list[str]:
    """What is wrong with a checkpoint: one line a fault, none where it is whole."""
    place = checkpoint / "manifest.json"
    try:
        manifest = json.loads(place.read_text(encoding="utf-8"))
        schema, own_name = manifest["schema"], _name(manifest["step"])
        wanted = {name: (entry["bytes"], entry["sha256"]) for name, entry in manifest["files"].items()}
    except OSError as fault:
        return [f"{place}: {fault.strerror}"]
    except (ValueError, LookupError, TypeError, AttributeError) as fault:
        return [f"{place}: not a manifest ({type(fault).__name__}: {fault})"]
    if schema != SCHEMA:
        return [f"{place}: schema {schema!r}, this version reads {SCHEMA}"]
    faults = [] if checkpoint.name == own_name else [f"{place}: belongs to {own_name}"]
    for name, (size, digest) in wanted.items():
        path = checkpoint / name
        if not path.is_file():
            faults.append(f"{path}: missing")
        elif path.stat().st_size != size or _sha256(path) != digest:
            faults.append(f"{path}: differs from its manifest")
    return faults


def load_weights(checkpoint: Path, model: nn.Module) -> None:
    """Put a checkpoint's weights into the model; its frozen weights stay.

    Raises:
        RunFailed: if the checkpoint is not whole, or of another model (exit 7).
    """
    if faults := verify(checkpoint):
        raise RunFailed("checkpoint is damaged: " + "; ".join(faults), exit_code=7)
    found, own = load_file(checkpoint / "model.safetensors"), _trained(model)
    odd = sorted(name for name in found.keys() ^ own.keys())
    odd += [name for name in found.keys() & own.keys() if found[name].shape != own[name].shape]
    if odd:
        raise RunFailed(
            f"{checkpoint}: of another model: {len(odd)} weights differ ({', '.join(odd[:3])}, ...)",
            exit_code=7,
        )
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(found[name])


def prune(folder: Path, *, keep: int, best: int | None) -> None:
    """Remove all but the newest `keep` checkpoints and the best; each leaves by a rename first."""
    for step in published(folder)[:-keep]:
        if step != best:
            gone = folder / f"{_TRASH}{_name(step)}"
            (folder / _name(step)).rename(gone)
            shutil.rmtree(gone)


def published(folder: Path) -> list[int]:
    """Steps of the complete checkpoints, in order; a folder with any other name is none of ours."""
    steps = [path.name.removeprefix("step-") for path in folder.glob("step-*")]
    return sorted(int(step) for step in steps if len(step) >= 8 and step.isdecimal())


def _trained(model: nn.Module) -> dict[str, Tensor]:
    """What training changes: weights that are not frozen, and buffers.

    Frozen weights come from the model that a run starts from; under an adapter they are nearly all.
    """
    frozen = {
        name for name, weight in model.named_parameters(remove_duplicate=False) if not weight.requires_grad
    }
    plain = {name for name, _ in model.named_parameters(remove_duplicate=False)} - frozen
    plain |= {name for name, _ in model.named_buffers(remove_duplicate=False)}
    # Weights in 4 bits have more entries there, for their scales, and those are frozen too.
    return {name: weight for name, weight in model.state_dict().items() if name in plain}


def _name(step: int) -> str:
    return f"step-{step:08d}"


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    names = {id(weight): name for name, weight in model.named_parameters()}
    return {
        f"{key}/{names[id(weight)]}": _own_copy(value)
        for weight, moments in optimizer.state.items()
        for key, value in moments.items()
    }


def _own_copy(tensor: Tensor) -> Tensor:
    """A copy on the CPU; safetensors takes neither memory that tied weights share nor a stride."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _random_tensors() -> dict[str, Tensor]:
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    tensors = {
        "torch": torch.get_rng_state(),
        "numpy_keys": torch.from_numpy(np.asarray(keys).astype(np.int64)),
        "numpy_rest": torch.tensor([position, has_gauss, cached], dtype=torch.float64),
    }
    for index in range(torch.cuda.device_count()):
        tensors[f"cuda{index}"] = torch.cuda.get_rng_state(index)
    return tensors


def _versions() -> dict[str, str]:
    return {"torch": torch.__version__, "numpy": np.__version__, "threads": str(torch.get_num_threads())}


def _sweep(folder: Path) -> None:
    """Remove what a killed save or removal left behind."""
    for pattern in (f"{_TEMPORARY}*", f"{_TRASH}*"):
        for path in folder.glob(pattern):
            shutil.rmtree(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
