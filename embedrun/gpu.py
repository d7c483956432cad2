"""Device and precision: one place decides where and how precisely a run computes."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from embedrun.config import GpuConfig


@dataclass(frozen=True)
class Compute:
    """Where a run computes.

    Args:
        device: of weights and activations.
        precision: of the backbone's forward pass while training: `fp32`, `bf16` or `fp16`.
            Weights, losses and evaluation are float32 in every case.
    """

    device: torch.device
    precision: str

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        """The training precision; float32 needs no context."""
        if self.precision == "fp32":
            yield
            return
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[self.precision]
        with torch.autocast(self.device.type, dtype=dtype):
            yield

    def scaler(self) -> torch.amp.GradScaler:
        """Keeps small float16 gradients above zero; does nothing in the other precisions."""
        return torch.amp.GradScaler(self.device.type, enabled=self.precision == "fp16")

    def memory(self) -> int | None:
        """Largest memory held so far on the device, in bytes; None on a CPU."""
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None


def problems(config: GpuConfig) -> list[str]:
    """What this machine cannot do of the configuration."""
    found = []
    cuda = torch.cuda.is_available()
    if config.device == "cuda" and not cuda:
        found.append("gpu.device: cuda asked for, and this machine has no usable CUDA device; choose gpu=cpu")
    if config.precision == "fp16" and (config.device == "cpu" or not cuda):
        found.append(
            "gpu.precision: fp16 needs a CUDA device; choose fp32, or bf16 where the processor has it"
        )
    if (
        config.precision == "bf16"
        and cuda
        and config.device != "cpu"
        and not torch.cuda.is_bf16_supported(False)
    ):
        found.append("gpu.precision: this CUDA device has no bf16; choose fp16")
    return found


def start(config: GpuConfig) -> Compute:
    """Set threads and determinism for the process, and say where it computes."""
    device = torch.device("cuda" if config.device != "cpu" and torch.cuda.is_available() else "cpu")
    if config.threads is not None or "OMP_NUM_THREADS" not in os.environ:
        # Not os.cpu_count(), which counts the cores of the machine, not those of a container or a batch job.
        torch.set_num_threads(config.threads or len(os.sched_getaffinity(0)))
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
    precision = config.precision
    if precision == "auto":
        precision = (
            "fp32" if device.type == "cpu" else "bf16" if torch.cuda.is_bf16_supported(False) else "fp16"
        )
    return Compute(device, precision)
