"""The random states of Python, numpy, torch and every CUDA device, as tensors."""

import random
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from embedrun.training.checkpoint.manifest import RANDOM


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
    """Set every random state by one number, so that two runs of it have the same ones throughout.

    Args:
        seed: 0 or more, below 2³².
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def restore_random(checkpoint: Path) -> None:
    """Set every random state to what it was when the checkpoint was made.

    A CUDA device that is not there now is passed over, and one that was not there then keeps its state;
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
