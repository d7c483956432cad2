"""How many rows are encoded at a time, and what happens when memory runs out."""

import logging
from dataclasses import dataclass

import torch

from embedrun.config import TrainingConfig
from embedrun.console import say
from embedrun.errors import OUT_OF_MEMORY, RunFailed

# Of torch's allocator on a CPU, and of CUDA's libraries, NCCL among them, which ask for memory of their own.
_TEXTS = (
    "DefaultCPUAllocator",
    "can't allocate memory",
    "not enough memory",
    "CUDA error: out of memory",
    "Cuda failure 2 'out of memory'",
    "_STATUS_ALLOC_FAILED",
)
_log = logging.getLogger("embedrun")


def ran_out(fault: BaseException) -> bool:
    """Whether a failure is due to lack of memory, of a device or of the machine."""
    if isinstance(fault, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(fault, RuntimeError) and any(text in str(fault) for text in _TEXTS)


@dataclass
class Parts:
    """The parts of the batches of a run, whose size is halved where memory runs out.

    Args:
        size: rows encoded at a time, >= 1; None: all that this process has of a batch.
        seeded: whether dropout follows the seed of each text, so that a part drops what the batch would.
    """

    size: int | None
    seeded: bool

    def of(self, rows: int) -> list[slice]:
        """The parts of a batch of so many rows."""
        size = self.size or rows
        return [slice(begin, min(begin + size, rows)) for begin in range(0, rows, size)]

    def halve(self, rows: int, *, processes: int) -> None:
        """Halve the size, which was too much for a batch of so many rows; one line says so.

        Dropout follows seeds for the rest of the run, since that of torch cannot be drawn again.

        Raises:
            RunFailed: if no less than one row was encoded at a time, or others of several processes already
                wait for this one (exit 6).
        """
        size = min(self.size or rows, rows)
        if size == 1:
            raise RunFailed(
                "out of memory with one row encoded at a time. Set training.gradient_checkpointing=true, "
                "gpu.precision=bf16 where the device has it, or lower backbone.max_length; an adapter "
                "('backbone.adapter={}') needs no optimizer state for the frozen weights. Losses compare all "
                "rows of a batch: lower training.batch_size where they need the room",
                exit_code=OUT_OF_MEMORY,
            )
        if processes > 1:
            raise RunFailed(
                f"out of memory with {size} rows encoded at a time; set "
                f"training.micro_batch_size={size // 2} in a new run, for the same gradient",
                exit_code=OUT_OF_MEMORY,
            )
        self.size = size // 2
        warning = (
            f"out of memory: from here on {self.size} rows are encoded at a time, twice each, for the same "
            f"gradient; with training.micro_batch_size={self.size} the next run does so from the start"
        )
        if not self.seeded:
            warning += ". Each text has its own dropout seed from here on (training.seeded_dropout)"
        self.seeded = True
        _log.warning("%s", warning)
        say(f"warning: {warning}")


def seeded(training: TrainingConfig, *, processes: int) -> bool:
    """Whether dropout follows seeds: parts of a batch, wherever they are, must drop what the whole does."""
    if training.seeded_dropout is None:
        return training.micro_batch_size is not None or processes > 1
    return training.seeded_dropout
