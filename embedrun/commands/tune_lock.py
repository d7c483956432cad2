"""Locks that end with the processes that hold them, so that none outlives a kill."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import IO

from embedrun.errors import EmbedrunError
from embedrun.files import open_lock


class Lock:
    """One file that one process, with the children it hands the file to, can hold.

    Args:
        path: of the file, which is made where it is missing; its folder must be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def acquire(self, *, wait: bool = True) -> bool:
        """Take the lock; false where another holds it and `wait` is false.

        Raises:
            ConfigError: if the file is a link.
            EmbedrunError: if the file system knows no locks.
        """
        file = open_lock(self._path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            file.close()
            return False
        except OSError as fault:
            file.close()
            raise EmbedrunError(
                f"{self._path}: this file system has no locks ({fault}), which processes on one study need; "
                "start the search in a folder of another"
            ) from None
        self._file = file
        return True

    def release(self) -> None:
        """Give the lock back; a child that was handed the file goes on holding it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def fileno(self) -> int:
        """The number of the open file, for a child to hold too."""
        assert self._file is not None, "the lock is not held"
        return self._file.fileno()

    def __enter__(self) -> "Lock":
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class JournalLock(Lock):
    """The lock of an optuna journal; whoever takes it removes the part of a line that a kill left.

    optuna's own locks are files that a killed process leaves behind, which costs the next one half a minute;
    and a line written behind a torn one makes the whole journal unreadable.

    Args:
        journal: the file.
    """

    def __init__(self, journal: Path) -> None:
        super().__init__(journal.with_name(f".{journal.name}.lock"))
        self._journal = journal

    def acquire(self, *, wait: bool = True) -> bool:
        """Take the lock and mend the journal."""
        held = super().acquire(wait=wait)
        if held and self._journal.is_file():
            with self._journal.open("rb+") as file:
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":
                        file.seek(0)
                        file.truncate(file.read().rfind(b"\n") + 1)
        return held
