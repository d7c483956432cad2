"""Loads CUDA's hooks and device guard of the simulated device, before torch is imported.

Torch looks for the hooks once, when its libraries start, so `load` must come before any `import torch`. The
library is compiled once for each torch version and each state of `guard.cpp`, into `build/pretend`.
"""

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

_SOURCE = Path(__file__).with_name("guard.cpp")
_BUILD = Path(__file__).parents[2] / "build" / "pretend"


def load() -> None:
    """Compile the guard where that has not been done, and load it with the torch libraries that it needs.

    Raises:
        RuntimeError: if torch has been imported already, or there is no `g++`.
    """
    if "torch" in sys.modules:
        raise RuntimeError("the simulated device must be loaded before torch is imported")
    package = importlib.util.find_spec("torch")
    assert package is not None
    assert package.origin is not None
    torch = Path(package.origin).parent
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    library = _BUILD / f"guard-{version('torch')}-{digest}.so"
    if not library.exists():
        _compile(library, torch)
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(torch / "lib" / name), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(library))


def _compile(library: Path, torch: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        raise RuntimeError("the simulated device needs g++")
    library.parent.mkdir(parents=True, exist_ok=True)
    partial = library.with_suffix(f".{os.getpid()}")  # renamed when whole: two processes may compile at once
    options = ["-shared", "-fPIC", "-O1", "-std=c++20"]
    places = [f"-I{torch / 'include'}", str(_SOURCE), f"-L{torch / 'lib'}", "-lc10", "-ltorch_cpu"]
    subprocess.run([compiler, *options, *places, "-o", str(partial)], check=True)
    partial.rename(library)
