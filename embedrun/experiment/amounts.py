"""What a training has used: rows, tokens, floating-point operations, minutes, energy."""

import importlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from embedrun.backbone.shape import Shape, Size, shape_of, size_of
from embedrun.config import TrainConfig
from embedrun.training.loop import StepsDone

_POWERCAP = Path("/sys/class/powercap")
_JOULES = 3.6e6  # in a kilowatt hour


def processes_of(config: TrainConfig) -> int:
    """How many processes share a batch."""
    return config.gpu.processes * config.gpu.nodes


def rows_per_process(config: TrainConfig, batch: int) -> int:
    """Rows of a batch that a process encodes, at most."""
    return -(-batch // processes_of(config))


def at_a_time(config: TrainConfig, batch: int) -> int:
    """Rows of a batch that a process encodes at a time, at most."""
    rows = rows_per_process(config, batch)
    return min(config.training.micro_batch_size or rows, rows)


def computed_weights(size: Size) -> int:
    """Those of the linear layers, by which every token is multiplied."""
    return size.weights - size.others - size.pooler


def flops(config: TrainConfig, size: Size, shape: Shape, tokens: float, *, batch: int) -> float:
    """Floating-point operations of the training steps, about.

    Two for each weight of a linear layer and token in the forward pass, as many for the gradient at the
    activations, and as many for that at the weights, which an adapter leaves out. Encoding in parts
    and gradient checkpointing each add a forward pass; SAM does all of it twice. Attention between tokens,
    losses, teachers and scoring are not included. `tokens` are those of the whole run.
    """
    training = config.training
    parts = at_a_time(config, batch) < rows_per_process(config, batch)
    per_weight = (4 if shape.adapter else 6) + 2 * parts + 2 * training.gradient_checkpointing
    return (2 if training.optimizer == "sam" else 1) * per_weight * computed_weights(size) * tokens


class Energy:
    """Energy that the machine's counters show since this was made, in kilowatt hours.

    Processors count by RAPL (``/sys/class/powercap``, which root alone may read on most machines), NVIDIA's
    devices by NVML, with the package `nvidia-ml-py`. They count what the whole machine does, other
    programs too. `read` must be called more often than RAPL's counters start anew, about once an hour.
    """

    def __init__(self, *, cuda: bool = False, folder: Path = _POWERCAP) -> None:
        self._meters = [*_packages(folder), *(_devices() if cuda else ())]
        self._last = [meter() for meter, _ in self._meters]
        self._joules = 0.0

    def read(self) -> float | None:
        """None where no counter can be read."""
        for place, (meter, largest) in enumerate(self._meters):
            now = meter()
            self._joules += now - self._last[place] + (largest if now < self._last[place] else 0)
            self._last[place] = now
        return self._joules / _JOULES if self._meters else None


_Meter = tuple[Callable[[], float], float]  # joules so far, and after how many it starts anew


def _packages(folder: Path) -> list[_Meter]:
    """The processors, each a folder such as ``intel-rapl:0``; its parts, ``intel-rapl:0:0``, are in it."""
    meters = []
    for package in sorted(folder.glob("intel-rapl:?")):
        file = package / "energy_uj"
        with suppress(OSError, ValueError):
            largest = int((package / "max_energy_range_uj").read_text()) / 1e6
            int(file.read_text())
            meters.append((lambda file=file: int(file.read_text()) / 1e6, largest))
    return meters


def _devices() -> list[_Meter]:
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(place) for place in range(nvml.nvmlDeviceGetCount())]
        for handle in handles:
            nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except Exception:  # no package, no driver, a device too old: each has its own class
        return []
    read = nvml.nvmlDeviceGetTotalEnergyConsumption
    return [(lambda handle=handle: read(handle) / 1e3, 0.0) for handle in handles]


def used(
    config: TrainConfig, done: StepsDone, *, seconds: float, energy: float | None
) -> dict[str, float | None]:
    """The amounts by name; null for the operations of a model without layers, and for unknown energy."""
    shape = shape_of(config.backbone)
    size = None if shape is None else size_of(shape.config)
    work = None
    if shape is not None and size is not None:
        batch = done.rows // max(1, done.step * config.training.accumulate)
        work = flops(config, size, shape, done.tokens, batch=batch)
    return {
        "rows": done.rows,
        "tokens": done.tokens,
        "flops": work,
        "minutes": round(seconds / 60, 4),
        "energy_kwh": None if energy is None else round(energy, 6),
    }
