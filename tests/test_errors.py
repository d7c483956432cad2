import errno

from embedrun.errors import (
    ConfigError,
    DataError,
    EmbedrunError,
    RunFailed,
    Terminated,
    exit_code,
    explain,
)


class OutOfMemoryError(RuntimeError):
    """Named as torch names its own."""


class SafetensorError(Exception):
    """Named as safetensors names its own."""


FULL = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


def test_several_faults_stand_in_one_message_one_a_line():
    fault = ConfigError(["a: wrong", "b: missing"])
    assert str(fault) == "config has 2 problems:\n  a: wrong\n  b: missing"
    assert fault.problems == ["a: wrong", "b: missing"]


def test_exit_code():
    for fault, code in [
        (ConfigError("x"), 2),
        (DataError("x"), 3),
        (RunFailed("x"), 1),
        (RunFailed("x", exit_code=4), 4),
        (EmbedrunError("x", exit_code=8), 8),
        (OSError(errno.ENOSPC, "full"), 5),
        (OSError(errno.EDQUOT, "quota"), 5),
        (OSError(errno.EROFS, "read-only"), 5),
        (FULL, 5),
        (SafetensorError("header too small"), 1),
        (RuntimeError("(os error 28)"), 1),
        (PermissionError(errno.EACCES, "no"), 1),
        (MemoryError(), 6),
        (OutOfMemoryError("CUDA out of memory"), 6),
        (KeyError("x"), 1),
        (KeyboardInterrupt(), 130),
        (Terminated(), 143),
    ]:
        assert exit_code(fault) == code


def test_a_full_disk_and_a_full_memory_say_what_to_do():
    for fault in (FULL, OSError(errno.EROFS, "Read-only file system", "run/status.json")):
        assert explain(fault).startswith(f"no space left on the disk, or read-only: {fault}; make room")
    assert "training.micro_batch_size" in explain(OutOfMemoryError("x"))
