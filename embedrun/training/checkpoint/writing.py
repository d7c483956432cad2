"""Saving: all files aside, each on the disk, then one rename."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from embedrun import files
from embedrun.errors import DISK, exit_code
from embedrun.files import copy_mode
from embedrun.training.checkpoint import disk, manifest, randomness, tensors
from embedrun.training.checkpoint.names import ASIDE, REPLACED, path_of, unused
from embedrun.training.checkpoint.retention import discard, sweep
from embedrun.training.checkpoint.versions import versions


def save(
    folder: Path, *, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> Path:
    """Write and publish one checkpoint; one of the same step is replaced.

    Killed at any moment, it leaves every older checkpoint whole, and what it leaves behind the next save or
    `newest` clears.

    Args:
        folder: `checkpoints/` of the run directory.
        step: optimizer steps done.
        model: everything that is trained.
        optimizer: its moments are saved.
        state: plain data that the loop needs to go on.

    Returns:
        The published folder.

    Raises:
        RunFailed: if the disk is full, or will be: less than 1.2 x the size of the last checkpoint is free
            (exit 5). What had been written is removed.
    """
    plain = {**state, "step": step, "optimizer": type(optimizer).__name__, "versions": versions()}
    text = json.dumps(plain, indent=1) + "\n"
    weights, moments = tensors.trained(model), tensors.moments(model, optimizer)
    target = path_of(folder, step)
    if not folder.exists():
        folder.mkdir()
        files.fsync(folder.parent)
    sweep(folder)
    bytes_needed = disk.needed(folder, tensors.size(weights) + tensors.size(moments) + len(text))
    disk.require(target, bytes_needed)
    aside = unused(folder / f"{ASIDE}{target.name}")
    try:
        aside.mkdir()
        _write_tensors(weights, aside / manifest.MODEL)
        _write_tensors(moments, aside / manifest.OPTIMIZER)
        _write_tensors(randomness.states(), aside / manifest.RANDOM)
        (aside / manifest.STATE).write_text(text, encoding="utf-8")
        manifest.write(aside, step)
        _publish(aside, target)
    except Exception as fault:
        if exit_code(fault) != DISK:
            raise
        shutil.rmtree(aside, ignore_errors=True)
        raise disk.full(target, bytes_needed) from fault
    return target


def _write_tensors(found: dict[str, Tensor], path: Path) -> None:
    save_file({name: tensors.own_copy(tensor) for name, tensor in found.items()}, path)


def _publish(aside: Path, target: Path) -> None:
    """Give the checkpoint its name, once all of it is on the disk."""
    copy_mode(aside / manifest.STATE, aside.iterdir())
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
