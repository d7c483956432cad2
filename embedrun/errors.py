"""The ways in which a command fails or is stopped, and their exit codes.

Each carries the exit code of the process; the command line prints the message and nothing else. Any other
exception is an unexpected failure (exit 1), whose traceback goes to the log.
"""

import errno
import re
from collections.abc import Sequence

UNEXPECTED = 1
USAGE = 2
MISSING = 3
NON_FINITE = 4
DISK = 5
OUT_OF_MEMORY = 6
NO_CHECKPOINT = 7
IN_USE = 8
INTERRUPTED = 130
TERMINATED = 143

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class EmbedrunError(Exception):
    """A failure that one clear message explains: where, what, what to do; no traceback is shown with it."""

    exit_code = UNEXPECTED

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class ProblemsError(EmbedrunError):
    """Several faults, reported together."""

    subject = ""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        count = len(self.problems)
        head = f"{self.subject} has {count} problem{'s' if count > 1 else ''}:"
        super().__init__("\n".join([head, *(f"  {problem}" for problem in self.problems)]))


class ConfigError(ProblemsError):
    """The configuration or the command line is refused (exit 2)."""

    exit_code = USAGE
    subject = "config"


class DataError(ProblemsError):
    """Data or a model is missing, unreadable or wrong (exit 3)."""

    exit_code = MISSING
    subject = "input"


class RunFailed(EmbedrunError):  # noqa: N818 - the name of the contract
    """A run or a job failed after it had started (exit 1, 4, 5, 6 or 7)."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2 asks the process to end (exit 143); handled wherever Ctrl-C is."""


def exit_code(fault: BaseException) -> int:
    """The exit code of a failure: our own, interrupted, disk full, out of memory, else 1."""
    if isinstance(fault, EmbedrunError):
        return fault.exit_code
    if isinstance(fault, KeyboardInterrupt):
        return TERMINATED if isinstance(fault, Terminated) else INTERRUPTED
    if is_full(fault):
        return DISK
    if is_out_of_memory(fault):
        return OUT_OF_MEMORY
    return UNEXPECTED


def is_full(fault: BaseException) -> bool:
    """Whether a disk, or a user's share of it, is full, or has become read-only."""
    if isinstance(fault, OSError):
        return fault.errno in _NO_SPACE
    # safetensors reports a failed write under a type of its own, with the number in its text only.
    code = re.search(r"\(os error (\d+)\)", str(fault)) if type(fault).__name__ == "SafetensorError" else None
    return code is not None and int(code[1]) in _NO_SPACE


# Of torch's allocator on a CPU, and of CUDA's libraries, NCCL among them, which ask for memory of their own.
_NO_MEMORY = (
    "DefaultCPUAllocator",
    "can't allocate memory",
    "not enough memory",
    "CUDA error: out of memory",
    "Cuda failure 2 'out of memory'",
    "_STATUS_ALLOC_FAILED",
)


def is_out_of_memory(fault: BaseException) -> bool:
    """Whether a failure is due to lack of memory, of a device or of the machine."""
    if isinstance(fault, MemoryError) or type(fault).__name__ == "OutOfMemoryError":  # torch's
        return True
    return isinstance(fault, RuntimeError) and any(text in str(fault) for text in _NO_MEMORY)


def install_extra(extra: str) -> str:
    """What to type for a missing extra; embedrun is not on PyPI, so that pip gets a folder."""
    return f"pip install '.[{extra}]' in the folder of embedrun's sources"


def explain(fault: BaseException) -> str:
    """One message for a failure; an unexpected one names its type."""
    if isinstance(fault, EmbedrunError):
        return str(fault)
    code = exit_code(fault)
    if code == DISK:
        return f"no space left on the disk, or read-only: {fault}; make room, then run it again"
    if code == OUT_OF_MEMORY:
        return (
            "out of memory; set training.micro_batch_size, or lower it: the gradient stays the "
            "same. Else lower evaluation.batch_tokens, backbone.max_length or training.batch_size"
        )
    return f"unexpected failure: {type(fault).__name__}: {fault}"
