"""What a run was made with: versions, machine, code, data."""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from embedrun.console import clean

_PACKAGES = ("embedrun", "torch", "transformers", "tokenizers", "datasets", "peft", "hydra-core", "omegaconf",
             "numpy", "scipy", "scikit-learn", "numba", "mteb", "safetensors", "pyarrow",
             "wandb")  # fmt: skip
# Only these variables are recorded: anything else may hold a secret.
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG",
              "HF_HUB_OFFLINE", "SLURM_JOB_ID")  # fmt: skip


def describe(data: Mapping[str, str]) -> dict[str, Any]:
    """The content of `environment.json`.

    Args:
        data: fingerprint of the rows of each split that is read, by its name.
    """
    import torch

    gpu = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "command": clean(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": {"count": os.cpu_count(), "threads": torch.get_num_threads(), "type": platform.machine()},
        "gpu": gpu,
        "cuda": torch.version.cuda,
        "versions": {name: _version(name) for name in _PACKAGES},
        "code": _code(),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "data": dict(data),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _code() -> dict[str, Any] | None:
    """Commit and dirtiness of the checkout that this package runs from, if it is one."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git(root, "status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
