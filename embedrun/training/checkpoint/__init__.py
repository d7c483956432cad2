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

from embedrun.training.checkpoint.folder import (
    SCHEMA,
    best_of,
    newest,
    path_of,
    prune,
    published,
    verify,
)
from embedrun.training.checkpoint.state import (
    differences,
    load_weights,
    restore,
    restore_random,
    save,
    seed_random,
    versions,
)

__all__ = [
    "SCHEMA",
    "best_of",
    "differences",
    "load_weights",
    "newest",
    "path_of",
    "prune",
    "published",
    "restore",
    "restore_random",
    "save",
    "seed_random",
    "verify",
    "versions",
]
