"""Device and precision: one place decides where and how precisely a run computes."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from embedrun.config import GpuConfig

_WORKSPACES = (":4096:8", ":16:8")  # of cuBLAS, with which it always takes the same way
_TF32_SINCE = (8, 0)  # compute capability
# What torch.compile builds with: Inductor's C++ for a processor, Triton's launchers for CUDA.
_COMPILERS = {"a CPU": ("C++", "CXX", "g++", "clang++"), "CUDA": ("C", "CC", "gcc", "clang")}


@dataclass(frozen=True)
class Compute:
    """Where and how precisely a run computes.

    `precision`, `fp32`, `tf32`, `bf16` or `fp16`, and `compile` are for the backbone while training; weights,
    losses and evaluation are float32 in every case. `most_skipped` steps in a row may be skipped in `fp16`
    because a gradient overflowed.
    """

    device: torch.device
    precision: str
    compile: bool = False
    most_skipped: int = 20

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        """The training precision of a forward pass through the backbone; float32 needs no context."""
        if self.precision in ("fp32", "tf32"):
            with self.products():
                yield
            return
        with torch.autocast(self.device.type, dtype=self.half):
            yield

    @property
    def half(self) -> torch.dtype | None:
        """The type of 16 bits that the backbone computes in; None in other precisions."""
        return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision)

    @contextlib.contextmanager
    def products(self) -> Iterator[None]:
        """The precision of float32 matrix products, for a backward pass through the backbone.

        TensorFloat-32 is a setting of the process, which must not reach losses and evaluation.
        """
        if self.precision != "tf32":
            yield
            return
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    def scaler(self) -> torch.amp.GradScaler:
        """The loss scaler, which keeps small float16 gradients above zero; disabled in other precisions."""
        return torch.amp.GradScaler(self.device.type, enabled=self.precision == "fp16")

    def memory(self) -> int | None:
        """Peak memory of the device so far, in bytes; None on a CPU."""
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None


def problems(config: GpuConfig) -> list[str]:
    """What of the configuration this machine cannot do."""
    available = torch.cuda.is_available()
    cuda = available and config.device != "cpu"
    wrong = []
    if config.device == "cuda" and not available:
        wrong.append("gpu.device: cuda asked for, and this machine has no usable CUDA device; choose gpu=cpu")
    wrong += _precision_problems(config, cuda=cuda)
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    if config.deterministic and workspace not in (None, *_WORKSPACES):
        wrong.append(
            f"gpu.deterministic: needs CUBLAS_WORKSPACE_CONFIG as {' or '.join(_WORKSPACES)}, not {workspace}"
        )
    if config.compile:
        where = "CUDA" if cuda else "a CPU"
        kind, variable, *names = _COMPILERS[where]
        if not any(shutil.which(name) for name in (os.environ.get(variable), *names) if name):
            wrong.append(f"gpu.compile: on {where} it needs a {kind} compiler; install {names[0]}")
    if cuda and config.processes > max(1, torch.cuda.device_count()):
        wrong.append(
            f"gpu.processes: {config.processes} asked for, one a device, and this machine has "
            f"{torch.cuda.device_count()} CUDA devices; lower it, or choose gpu=cpu"
        )
    return wrong


def _precision_problems(config: GpuConfig, *, cuda: bool) -> list[str]:
    """What the device that will be used cannot do; the processor has bf16, if only emulated."""
    kind = config.precision
    if kind in ("fp16", "tf32") and not cuda:
        return [f"gpu.precision: {kind} needs a CUDA device; choose fp32 or bf16"]
    lacks_tf32 = kind == "tf32" and torch.cuda.get_device_capability() < _TF32_SINCE
    lacks_bf16 = kind == "bf16" and cuda and not torch.cuda.is_bf16_supported(False)
    if lacks_tf32 or lacks_bf16:
        return [f"gpu.precision: this CUDA device has no {kind}; choose fp32 or fp16"]
    return []


def start(config: GpuConfig, *, place: int = 0) -> Compute:
    """Set threads, determinism and the device for the process, and say where it computes.

    `place` numbers the processes of the machine from 0; each has the CUDA device of its number.
    """
    cuda = config.device != "cpu" and torch.cuda.is_available()
    _set_threads(config)
    # In float32 a run should be float32; convolutions are in TensorFloat-32 unless that is switched off.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if config.deterministic:
        _set_deterministic()
    if config.compile:
        # The compiler asks other processes what the processor has; without this, those look for every module
        # in the current folder first, and run what they find.
        os.environ.setdefault("PYTHONSAFEPATH", "1")
    if cuda:
        # On Hopper it is tried first for padded passes, and plans for each new shape for about a second.
        torch.backends.cuda.enable_cudnn_sdp(False)
    if cuda and config.processes > 1:
        torch.cuda.set_device(place)
    # With one process `cuda` is the device that is current, as CUDA_VISIBLE_DEVICES has it.
    name = f"cuda:{place}" if config.processes > 1 else "cuda"
    device = torch.device(name if cuda else "cpu")
    return Compute(device, precision(config), config.compile, config.most_skipped)


def precision(config: GpuConfig) -> str:
    """That of the backbone while it trains here, or on a CUDA device that is asked for and not here."""
    is_here = torch.cuda.is_available()
    if config.precision != "auto":
        return config.precision
    if config.device == "cpu" or (config.device == "auto" and not is_here):
        return "fp32"
    return "bf16" if not is_here or torch.cuda.is_bf16_supported(False) else "fp16"


def _set_threads(config: GpuConfig) -> None:
    if config.threads is not None or "OMP_NUM_THREADS" not in os.environ:
        # Not os.cpu_count(), which counts the cores of the machine, not those of a container or a batch job.
        cores = len(os.sched_getaffinity(0))
        torch.set_num_threads(config.threads or max(1, cores // config.processes))


def _set_deterministic() -> None:
    """Allow only kernels that give the same bytes each time; must precede the first product on CUDA."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", _WORKSPACES[0])
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
