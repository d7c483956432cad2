"""Checkpoints: written aside, verified by a manifest, published by one rename.

A folder such as `step-00000125` that exists is complete. It holds safetensors and JSON only:

    model.safetensors      weights of everything that is trained; frozen ones are not there
    optimizer.safetensors  AdamW's two moments of every weight, and its step count
    random.safetensors     random state of Python, numpy, torch and every CUDA device
    state.json             step, the loop's plain data, kind of optimizer, library versions
    manifest.json          schema, and SHA-256 and size of every other file

Beside it may lie `.tmp-*`, `.old-*` and `.trash-*`, which a killed save or removal left behind and the next
one clears, and `corrupt-step-*`, a damaged checkpoint set aside: a person may want it, nothing here reads it.
One process at a time may work in the folder; the lock of the run directory sees to that.
"""

import json
import logging
import math
import platform
import random
import shutil
from collections.abc import Collection
from importlib.metadata import version
from itertools import count
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import embedrun
from embedrun.errors import DISK, NO_CHECKPOINT, RunFailed, exit_code
from embedrun.files import Plain, copy_mode, fsync, read_json, sha256
from embedrun.runs.directory import processor
from embedrun.training.shards import fill, whole

SCHEMA = 2
MODEL, OPTIMIZER, RANDOM = "model.safetensors", "optimizer.safetensors", "random.safetensors"
STATE, MANIFEST = "state.json", "manifest.json"
FILES = (MODEL, OPTIMIZER, RANDOM, STATE)  # what the manifest lists
RESERVE = 1.2  # x the size of the last checkpoint must be free; metrics and logs are written beside
_ASIDE, _REPLACED, _TRASH, _CORRUPT = ".tmp-", ".old-", ".trash-", "corrupt-"
_STEP = "step-"
_WITHOUT_BEST = "the next dev score is the best again, and without another one the last weights are kept"
_log = logging.getLogger("embedrun")


def path_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is published, `step-00000125`."""
    return folder / f"{_STEP}{step:08d}"


def published(folder: Path) -> list[int]:
    """Steps of the complete checkpoints, in order; a folder with any other name is none of ours."""
    digits = [path.name.removeprefix(_STEP) for path in folder.glob(f"{_STEP}*")]
    steps = {int(step) for step in digits if step.isdecimal()}
    return sorted(step for step in steps if path_of(folder, step).exists())


def save(
    folder: Path, *, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, state: Plain
) -> Path:
    """Write and publish one checkpoint in `checkpoints/` of a run, and return its folder.

    One of the same step is replaced. If it is killed at any moment, every older checkpoint stays complete,
    and the next save or `newest` clears the remains. Refused (exit 5) where less than 1.2 x the size of this
    or the last checkpoint is free.
    """
    plain = {**state, "step": step, "optimizer": type(optimizer).__name__, "versions": versions()}
    text = json.dumps(plain, indent=1) + "\n"
    tensors = {MODEL: trained(model), OPTIMIZER: moments_of(model, optimizer), RANDOM: random_states()}
    target = path_of(folder, step)
    if not folder.exists():
        folder.mkdir()
        fsync(folder.parent)
    sweep(folder)
    size = sum(tensor.nbytes for part in tensors.values() for tensor in part.values()) + len(text)
    last = path_of(folder, steps[-1]).glob("*") if (steps := published(folder)) else ()
    bytes_needed = math.ceil(RESERVE * max(size, sum(path.stat().st_size for path in last)))
    usage = shutil.disk_usage(folder)
    if usage.total and usage.free < bytes_needed:  # some network file systems give no figures
        raise _full(target, bytes_needed)
    aside = folder / f"{_ASIDE}{target.name}"
    try:
        aside.mkdir()
        for name, part in tensors.items():
            _write_tensors(part, aside / name)
        (aside / STATE).write_text(text, encoding="utf-8")
        _write_manifest(aside, step)
        _publish(aside, target)
    except Exception as fault:
        if exit_code(fault) != DISK:
            raise
        shutil.rmtree(aside, ignore_errors=True)
        raise _full(target, bytes_needed) from fault
    return target


def give(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Give the own parts of weights and moments to the first process, which saves them; collective."""
    for part in (trained(model), moments_of(model, optimizer)):
        for tensor in part.values():
            whole(tensor.detach())


def _write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    # Copies: safetensors takes neither memory that tied weights share nor a stride.
    save_file(
        {
            name: whole(tensor.detach()).cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in tensors.items()
        },
        path,
    )


def _write_manifest(folder: Path, step: int) -> None:
    files = {
        name: {"sha256": sha256(folder / name), "bytes": (folder / name).stat().st_size} for name in FILES
    }
    manifest = {"schema": SCHEMA, "step": step, "files": files}
    # It ends with its closing brace, so that the loss of a single byte makes it unreadable.
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _publish(aside: Path, target: Path) -> None:
    copy_mode(aside / STATE, aside.iterdir())
    for path in sorted(aside.iterdir()):
        fsync(path)
    fsync(aside)
    replaced = target.with_name(f"{_REPLACED}{target.name}")
    if target.exists():
        target.rename(replaced)
    aside.rename(target)
    fsync(target.parent)
    if replaced.exists():
        discard(replaced)


def _full(checkpoint: Path, bytes_needed: int) -> RunFailed:
    free = shutil.disk_usage(checkpoint.parent).free
    return RunFailed(
        f"{checkpoint}: no space left on the disk, or no quota: a checkpoint needs {bytes_needed:,} bytes, "
        f"{free:,} are free. Older checkpoints are intact; free some space, then resume with "
        f"'embedrun resume {checkpoint.parent.parent}'",
        exit_code=DISK,
    )


def prune(folder: Path, *, keep: int, best: int | None) -> None:
    """Remove all but the newest `keep` checkpoints, and the best of now and of when each of these was made.

    A run that falls back from a damaged one to the one before needs what was the best then, so `keep` is 2 or
    more. Damaged ones that were set aside stay and are not counted. A failure to remove one is logged, and
    tried again after the next save; it never fails the run. `best` is a step.
    """
    steps = published(folder)
    wanted = {best, *(_best_then(path_of(folder, step)) for step in steps[-keep:])}
    for step in steps[:-keep]:
        if step not in wanted:
            discard(path_of(folder, step))


def _best_then(checkpoint: Path) -> int | None:
    try:
        return read_json(checkpoint / STATE)["best"]["step"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def discard(path: Path) -> None:
    """Remove a folder; it is renamed first, so that a half-removed one is never taken for a checkpoint."""
    try:
        trash = path.rename(_unused(path.with_name(f"{_TRASH}{path.name.lstrip('.')}")))
        fsync(trash.parent)
        shutil.rmtree(trash)
    except OSError as fault:
        _log.warning("%s could not be removed: %s", path, fault)


def sweep(folder: Path) -> None:
    """Clear what a killed save or removal left behind."""
    for path in sorted(folder.glob(f"{_REPLACED}*")):
        # Killed between two renames: the new checkpoint of this step never came, so the old one is put back.
        home = folder / path.name.removeprefix(_REPLACED)
        if home.exists():
            discard(path)
        else:
            path.rename(home)
    for path in (*folder.glob(f"{_ASIDE}*"), *folder.glob(f"{_TRASH}*")):
        shutil.rmtree(path, ignore_errors=True)


def _unused(path: Path) -> Path:
    """The path itself, or with `.2`, `.3`, ... appended where that name is taken."""
    paths = (path if number == 1 else path.with_name(f"{path.name}.{number}") for number in count(1))
    return next(path for path in paths if not path.exists())


def newest(folder: Path, *, expected: int | None) -> tuple[Path | None, list[str]]:
    """The newest undamaged checkpoint; a damaged one on the way is set aside as `corrupt-step-*`.

    The path is None where none was ever made, and the run starts afresh; the list has a warning for each that
    was damaged or is missing. Where there is none although there have been checkpoints, it is refused (exit
    7): to start again over the remains of a run would be worse than to stop.

    `expected` is the step of the last checkpoint that the run has recorded elsewhere, if it has recorded one.
    """
    sweep(folder)
    warnings: list[str] = []
    for step in reversed(published(folder)):
        path = path_of(folder, step)
        if not (faults := verify(path)):
            if expected is not None and expected > step and not warnings:
                warnings.append(f"{path_of(folder, expected)} is gone")
            return path, [f"{warning}; resuming from {path.name}" for warning in warnings]
        warnings.append(_quarantine(path, faults))
    lost = warnings or [f"{path} is damaged" for path in sorted(folder.glob(f"{_CORRUPT}{_STEP}*"))]
    if expected is not None and not lost:
        lost = [f"{path_of(folder, expected)} is gone"]
    if lost:
        raise RunFailed(
            f"{folder}: no checkpoint to resume from: {'; '.join(lost)}. Nothing was started; restore an "
            "intact copy under its name, or start a new run (training.resume=never)",
            exit_code=NO_CHECKPOINT,
        )
    return None, []


def best_of(folder: Path, step: int) -> list[str]:
    """Why the best checkpoint, of this step, is unusable: one line, or none; a damaged one is set aside.

    The caller then continues without a best score.
    """
    path = path_of(folder, step)
    if not path.exists():
        return [f"{path}, the best so far, is gone; {_WITHOUT_BEST}"]
    if not (faults := verify(path)):
        return []
    return [f"{_quarantine(path, faults)}; it was the best so far, {_WITHOUT_BEST}"]


def _quarantine(path: Path, faults: list[str]) -> str:
    moved = path.rename(_unused(path.with_name(f"{_CORRUPT}{path.name}")))
    fsync(path.parent)
    reasons = "; ".join(fault.removeprefix(f"{path}/") for fault in faults)
    return f"{path} is damaged ({reasons}), set aside as {moved.name}"


def verify(checkpoint: Path) -> list[str]:
    """What is wrong with a checkpoint, a line a fault; a file that may not be read is no damage (exit 7)."""
    place = checkpoint / MANIFEST
    try:
        manifest = read_json(place)
        if manifest["schema"] != SCHEMA:
            return [f"{place}: schema {manifest['schema']!r}, this version reads {SCHEMA}"]
        if (name := path_of(checkpoint, manifest["step"]).name) != checkpoint.name:
            return [f"{place}: belongs to {name}"]
        sums = {checkpoint / name: manifest["files"][name]["sha256"] for name in FILES}
        faults = []
        for place, digest in sums.items():
            if sha256(place) != digest:
                faults.append(f"{place}: differs from its manifest")
        return faults
    except PermissionError as fault:
        raise RunFailed(
            f"{fault.filename}: cannot be read ({fault.strerror}); the checkpoint was left as it is, make it "
            "readable and start again",
            exit_code=NO_CHECKPOINT,
        ) from fault
    except (OSError, ValueError, LookupError, TypeError) as fault:
        return [f"{place}: cannot be read ({fault})"]


def restore(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Plain:
    """Restore model and optimizer, bit for bit; if that is refused, nothing changes.

    Frozen weights stay as they are. Random states are `restore_random`'s. The optimizer may be a wrapper that
    has the `state` and `param_groups` of what it wraps. Returns the plain data that was saved, with `step`,
    `optimizer` and `versions` added.
    """
    weights, current = _weights(checkpoint, model)
    state, moments = read_json(checkpoint / STATE), load_file(checkpoint / OPTIMIZER)
    if state["optimizer"] != type(optimizer).__name__:
        raise RunFailed(
            f"{checkpoint}: of another optimizer, {state['optimizer']}; this run has "
            f"{type(optimizer).__name__}",
            exit_code=NO_CHECKPOINT,
        )
    held = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    names = {name for name, weight in model.named_parameters() if id(weight) in held}
    if others := {name for key in moments if (name := key.split("/", 1)[1]) not in names}:
        raise _other(checkpoint, "optimizer", others)
    _copy(weights, current)
    put_moments(moments, model, optimizer)
    return state


def load_weights(checkpoint: Path, model: nn.Module, *, kind: str | None = None) -> None:
    """Load a checkpoint's weights into the model; its frozen weights stay.

    With `kind`, what the optimizer keeps of a weight under that name stands in its place.
    """
    weights, current = _weights(checkpoint, model)
    kept = {} if kind is None else load_file(checkpoint / OPTIMIZER)
    _copy(weights, current)
    for name in current:
        if (value := kept.get(f"{kind}/{name}")) is not None:
            _copy({name: value}, {name: current[name]})


def _weights(checkpoint: Path, model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    if faults := verify(checkpoint):
        raise RunFailed(
            f"checkpoint is damaged: {'; '.join(faults)}; "
            f"'embedrun resume {checkpoint.parent.parent}' sets it aside and resumes",
            exit_code=NO_CHECKPOINT,
        )
    weights, current = load_file(checkpoint / MODEL), trained(model)
    stored, wanted = (
        {(name, weight.shape, weight.dtype) for name, weight in part.items()} for part in (weights, current)
    )
    if differing := {name for name, *_ in stored ^ wanted}:
        raise _other(checkpoint, "model", differing)
    return weights, current


def _copy(weights: dict[str, Tensor], current: dict[str, Tensor]) -> None:
    for name, weight in current.items():
        fill(weight, weights[name])


def _other(checkpoint: Path, what: str, names: Collection[str]) -> RunFailed:
    some = ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
    return RunFailed(
        f"{checkpoint}: of another {what}: {len(names)} weights that differ from this run's ({some})",
        exit_code=NO_CHECKPOINT,
    )


def trained(model: nn.Module) -> dict[str, Tensor]:
    """What training changes: trainable parameters and buffers; the model's own tensors.

    Frozen weights come from the model that a run starts from; under an adapter they are nearly all.
    """
    weights = dict(model.named_parameters(remove_duplicate=False))
    names = {name for name, weight in weights.items() if weight.requires_grad}
    names |= {name for name, _ in model.named_buffers(remove_duplicate=False)}
    # Weights in 4 bits have more entries there, for their scales, and those are frozen too.
    return {name: weight for name, weight in model.state_dict().items() if name in names}


def moments_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's own tensors as `exp_avg/<name of the weight>`; tied weights' once."""
    names = {id(weight): name for name, weight in model.named_parameters()}
    return {
        f"{kind}/{names[id(weight)]}": value
        for weight, kinds in optimizer.state.items()
        for kind, value in kinds.items()
    }


def put_moments(moments: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Make the optimizer's state, bit for bit, that of `moments`: `exp_avg/<name of the weight>`, ...

    The optimizer has the same parameter groups as then.
    """
    weights = dict(model.named_parameters())
    # The fused and the capturable AdamW count the steps of a weight on its device.
    on_device = {
        id(weight)
        for group in optimizer.param_groups
        if group.get("fused") or group.get("capturable")
        for weight in group["params"]
    }
    optimizer.state.clear()
    for key, value in moments.items():
        kind, name = key.split("/", 1)
        weight = weights[name]
        if kind == "step":
            restored = value.to(weight.device if id(weight) in on_device else "cpu")  # ()
        else:
            # As its weight lies in memory: another order of the numbers may be rounded another way.
            restored = torch.empty_like(weight, dtype=value.dtype, requires_grad=False)
            fill(restored, value)
        optimizer.state[weight][kind] = restored


def random_states() -> dict[str, Tensor]:
    """All random states, by name; no number is drawn."""
    version, internal, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    states = {
        "torch": torch.get_rng_state(),  # (bytes,)
        "python_keys": torch.tensor(internal),  # (625,): unsigned 32-bit numbers, int64 holds them
        "python_rest": torch.tensor([version, gauss is not None, gauss or 0.0], dtype=torch.float64),  # (3,)
        "numpy_keys": torch.from_numpy(np.asarray(keys).astype(np.int64)),  # (624,)
        "numpy_rest": torch.tensor([position, has_gauss, cached], dtype=torch.float64),  # (3,)
    }
    # A run on the CPU of a machine with CUDA devices must not start them for this.
    devices = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
    return states | {f"cuda{index}": torch.cuda.get_rng_state(index) for index in range(devices)}


def seed_random(seed: int) -> None:
    """Set every random state by one number, 0 or more and below 2³²."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def restore_random(checkpoint: Path) -> None:
    """Restore every random state of a checkpoint, of the CUDA devices that are there now and were then."""
    states = load_file(checkpoint / RANDOM)
    torch.set_rng_state(states["torch"])
    version, has_gauss, gauss = states["python_rest"].tolist()
    random.setstate((int(version), tuple(states["python_keys"].tolist()), gauss if has_gauss else None))
    position, has_gauss, cached = states["numpy_rest"].tolist()
    keys = states["numpy_keys"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(position), int(has_gauss), cached))
    for index in range(torch.cuda.device_count()):
        if f"cuda{index}" in states:
            torch.cuda.set_rng_state(states[f"cuda{index}"], index)


def versions() -> dict[str, str]:
    """Versions of libraries, and what else decides how numbers are rounded, by name."""
    # Asking for the devices of a run that uses none would start them.
    used = torch.cuda.is_initialized()
    devices = map(torch.cuda.get_device_name, range(torch.cuda.device_count() if used else 0))
    return {
        "embedrun": embedrun.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "numpy": version("numpy"),
        "cuda": (torch.version.cuda or "none") if used else "none",
        "devices": ", ".join(devices) or "none",
        "cpu": f"{processor()}, {torch.backends.cpu.get_cpu_capability()}",
        "threads": str(torch.get_num_threads()),
    }


def differences(state: Plain) -> list[str]:
    """What differs from when a checkpoint was made, such as `torch 2.12.0 then, 2.13.0 now`.

    `state` is what `restore` returned; call this after it, when the model is on its device.
    """
    then, now = state["versions"], versions()
    pairs = {name: (then.get(name, "unknown"), now.get(name, "unknown")) for name in {**now, **then}}
    return [f"{name} {old} then, {new} now" for name, (old, new) in pairs.items() if old != new]
