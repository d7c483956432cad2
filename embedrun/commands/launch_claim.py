"""Two launches of the same job at once: the second leaves it to the first, and takes what has come of it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from embedrun.commands.job import Job
from embedrun.commands.launch_before import before, outcome_of
from embedrun.errors import IN_USE, ConfigError
from embedrun.experiment.data import Fingerprints
from embedrun.files import open_lock
from embedrun.runs.directory import Outcome, config_hash


@contextmanager
def claimed(job: Job) -> Iterator[Outcome | None]:
    """Inside, no other process that asks so runs this job.

    Args:
        job: about to start.

    Yields:
        None if it is to be run, else what there is of it: the result of another process that has finished it
        since it was planned, that another process is at it, or why it cannot be claimed.
    """
    path = Path("outputs", f".claim-{config_hash(job.config)[:16]}")
    path.parent.mkdir(exist_ok=True)
    try:
        lock = _locked(path)
    except ConfigError as fault:  # here, in a launcher, it would be no outcome of the job
        yield Outcome(error=str(fault), code=fault.exit_code)
        return
    if lock is None:
        yield Outcome(error="another process is at it; wait for its end", code=IN_USE)
        return
    with lock:
        try:
            yield _meanwhile(job)
        finally:
            path.unlink(missing_ok=True)


def _meanwhile(job: Job) -> Outcome | None:
    found = before(job.command, job.config, job.directory, Fingerprints())
    if found.fault is not None:
        return Outcome(error=found.fault, code=found.code)
    return None if found.finished is None else outcome_of(found.finished)


def _locked(path: Path) -> IO[bytes] | None:
    """The file, locked; None where another process has it."""
    while True:
        file = open_lock(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:
            return file  # a file system that knows no locks
        # Whoever had it before may have removed the file between the two steps.
        if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return file
        file.close()
