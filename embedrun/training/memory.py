"""How many rows are encoded at a time, and what happens when memory runs out."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from embedrun.config import TrainingConfig
from embedrun.console import say
from embedrun.errors import OUT_OF_MEMORY, RunFailed

Found = TypeVar("Found")
# Of torch's allocator on a CPU, and of CUDA's libraries, NCCL among them, which ask for memory of their own.
_TEXTS = (
    "DefaultCPUAllocator",
    "can't allocate memory",
    "not enough memory",
    "CUDA error: out of memory",
    "Cuda failure 2 'out of memory'",
    "_STATUS_ALLOC_FAILED",
)


def tried(work: Callable[[], Found]) -> Found | None:
    """The result of the work, or None where it ran out of memory.

    Once this has returned, nothing that the work has made is still referenced: while an exception is handled,
    it keeps all of its frames, and every tensor in those.
    """
    try:
        return work()
    except (RuntimeError, MemoryError) as fault:
        if not ran_out(fault):
            raise
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # what is left over lies in pieces too small for another size
    return None


def ran_out(fault: BaseException) -> bool:
    """Whether a failure is due to lack of memory, of a device or of the machine."""
    if isinstance(fault, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(fault, RuntimeError) and any(text in str(fault) for text in _TEXTS)


def no_room(rows: int) -> RunFailed:
    """The failure where the smallest possible part, of so many rows, did not fit into memory (exit 6)."""
    what = "one row" if rows == 1 else f"{rows} rows"
    return RunFailed(
        f"out of memory with {what} encoded at a time. Set training.gradient_checkpointing=true, "
        "gpu.precision=bf16 where the device has it, or lower backbone.max_length; an adapter "
        "('backbone.adapter={}') needs no optimizer state for the frozen weights",
        exit_code=OUT_OF_MEMORY,
    )


def no_room_for_losses(rows: int) -> RunFailed:
    """The failure where the losses alone, which smaller parts do not help, need too much memory (exit 6)."""
    return RunFailed(
        f"out of memory in the losses, which compare {rows} rows with each other; lower "
        "training.batch_size: fewer rows at a time (training.micro_batch_size) would not help",
        exit_code=OUT_OF_MEMORY,
    )


_log = logging.getLogger("embedrun")


class Unrepeatable(Exception):  # noqa: N818 - no failure: the step is repeated
    """Random numbers that were drawn from torch's state since the step began cannot be drawn again."""


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

    def halve(self, rows: int) -> None:
        """Halve the size, which was too much for a batch of so many rows; one line says so.

        Raises:
            Unrepeatable: if dropout was torch's own until now. It follows seeds for the rest of the run.
            RunFailed: if no less than one row was encoded at a time (exit 6).
        """
        size = min(self.size or rows, rows)
        if size == 1:
            raise no_room(size)
        self.size = size // 2
        drawn = not self.seeded
        self.seeded = True
        self._tell(
            "out of memory",
            ". Each text has its own dropout seed from here on (training.seeded_dropout)" if drawn else "",
        )
        if drawn:
            raise Unrepeatable

    def lower(self, size: int) -> None:
        """Encode at most the rows that every process can at a time; one line says so where that is less."""
        if self.size is None or size < self.size:
            self.size = size
            self._tell("out of memory in another process")

    def _tell(self, what: str, more: str = "") -> None:
        warning = (
            f"{what}: from here on {self.size} rows are encoded at a time, twice each, for the same "
            f"gradient; with training.micro_batch_size={self.size} the next run does so from the start{more}"
        )
        _log.warning("%s", warning)
        say(f"warning: {warning}")


def seeded(training: TrainingConfig, *, processes: int) -> bool:
    """Whether dropout follows seeds: parts of a batch, wherever they are, must drop what the whole does."""
    if training.seeded_dropout is None:
        return training.micro_batch_size is not None or processes > 1
    return training.seeded_dropout
