"""Out of memory: how it shows, and what is left to do where there is nothing to halve."""

from collections.abc import Callable
from typing import TypeVar

import torch

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
    """What the work gives, or None where it ran out of memory.

    Once this has returned, nothing holds what the work had made so far: an exception, which is held while it
    is handled, would keep every frame of it, and every tensor in those.
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
    """Whether a failure is for want of memory, of a device or of the machine."""
    if isinstance(fault, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(fault, RuntimeError) and any(text in str(fault) for text in _TEXTS)


def no_room(rows: int) -> RunFailed:
    """The failure where as little as possible was encoded at a time (exit 6).

    Args:
        rows: encoded at a time.
    """
    what = "one row" if rows == 1 else f"{rows} rows"
    return RunFailed(
        f"out of memory with {what} encoded at a time. Set training.gradient_checkpointing=true, "
        "gpu.precision=bf16 where the device has it, or lower backbone.max_length; an adapter "
        "('backbone.adapter={}') needs no optimizer state for the frozen weights",
        exit_code=OUT_OF_MEMORY,
    )


def no_room_for_losses(rows: int) -> RunFailed:
    """The failure where the losses alone, which no smaller part of a batch helps, need too much (exit 6).

    Args:
        rows: that the losses compare.
    """
    return RunFailed(
        f"out of memory in the losses, which compare {rows} rows with each other; lower "
        "training.batch_size: fewer rows at a time (training.micro_batch_size) would not help",
        exit_code=OUT_OF_MEMORY,
    )
