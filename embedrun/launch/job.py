"""One job in a process of its own, so that no job can bring down another.

The parent passes the resolved configuration as JSON on standard input, so that nothing is composed twice, and
reads the outcome from a file that it names.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO

from embedrun import signals
from embedrun.child import command, end_with, environment
from embedrun.console import ignore_broken_pipes, masked, say
from embedrun.errors import IN_USE, ConfigError, Terminated, exit_code, explain
from embedrun.files import Plain, open_lock, take, write_atomically
from embedrun.launch.before import before, outcome_of
from embedrun.runs.directory import Outcome, config_hash

_MODULE = "embedrun.launch.job"
# The function behind each command, as `module:function`, so that it is imported only when needed.
RUNS = {
    "train": "embedrun.experiment.training:run",
    "evaluate": "embedrun.experiment.evaluation:run",
    "annotate": "embedrun.curation.annotation.annotate:run",
    "generate": "embedrun.curation.generation.generate:run",
    "collect": "embedrun.curation.collection.collect:run",
}
RECORDING = ("train", "evaluate")  # commands that leave run directories
_POLL = 0.5  # seconds between two checks of a job
_MOMENT = 1.0  # seconds


@dataclass(frozen=True)
class Job:
    """What a process is to do.

    Args:
        command: a key of `RUNS`.
        config: resolved plain data.
        directory: the run directory, where the user named one.
        resumed: directory of the run to resume.
        argv: the command line that the user typed, which the run records.
        launched: the overrides as the launcher gets them.
        label: the job's name in messages.
        choices: the presets behind the configuration, which the run records.
    """

    command: str
    config: Plain
    overrides: list[str] = field(default_factory=list)
    directory: str | None = None
    resumed: str | None = None
    argv: list[str] = field(default_factory=list)
    launched: list[str] = field(default_factory=list)
    label: str = ""
    choices: Plain | None = None


@dataclass(frozen=True)
class Beside:
    """How to run a job in the background.

    Args:
        log: its output is appended there.
        ends: called every half second while it runs; true makes it save and end.
        folder: its working directory; None: that of this process.
        apart: whether to shield it from Ctrl-C in the terminal, since this process tells it when to end.
        claim: descriptor of a lock file that the job shares: if this process dies, the job continues and its
            work stays claimed. None: it saves and ends then.
    """

    log: Path
    ends: Callable[[], bool]
    folder: str | None = None
    apart: bool = False
    claim: int | None = None


def run_of(command: str) -> Callable[..., Outcome]:
    """The function that does the work of a command."""
    module, _, name = RUNS[command].partition(":")
    return getattr(import_module(module), name)


def run_in_child(job: Job, outcome: Path, beside: Beside | None = None) -> Outcome:
    """`in_child`, but returns the outcome; a job that died without writing one has failed."""
    code = in_child(job, outcome, beside)
    if outcome.is_file():
        return outcome_in(outcome)
    return Outcome(error=f"the job's process {without_result(code)}", code=code or 1)


def in_child(job: Job, outcome: Path, beside: Beside | None = None) -> int:
    """Start a job and wait for it; returns its exit code, negative if a signal killed it.

    The job writes the file `outcome` if it can. Without `beside`, it runs in the foreground.

    Raises:
        KeyboardInterrupt: on a signal, once the job has saved and ended. A terminal sends Ctrl-C to the job,
            too; any other signal is forwarded to it.
    """
    payload = {
        "command": job.command,
        "config": job.config,
        "overrides": job.overrides,
        "directory": job.directory,
        "resumed": job.resumed,
        "choices": job.choices,
        "outcome": str(outcome),
        "argv": job.argv or sys.argv,
        "parent": os.getpid() if beside is None or beside.claim is None else None,
    }
    # A file, not a pipe: nothing is left over if the job dies, or is interrupted, before it reads.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as given, _output(beside) as options:
        json.dump(payload, given)
        given.seek(0)
        child = subprocess.Popen(command(_MODULE), stdin=given, env=environment(), **options)
    try:
        while beside is not None and child.poll() is None:
            if beside.ends():
                child.send_signal(signal.SIGTERM)
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_POLL)
        return child.wait()
    except KeyboardInterrupt as stop:
        if isinstance(stop, Terminated) or not in_foreground():
            # Not SIGINT: one sent to the process group has reached the job already, and a second one would
            # end it at once.
            child.send_signal(signal.SIGTERM)
        with contextlib.suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
            # A second one may have come already: for a moment, Popen takes two for one.
            child.wait(_MOMENT if signals.insisted() else None)
        _end(child)
        raise


def _end(child: subprocess.Popen) -> None:
    """Give a job that goes on after a second Ctrl-C a moment, since a terminal sends it that too; no more."""
    try:
        child.wait(_MOMENT)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextlib.contextmanager
def _output(beside: Beside | None) -> Iterator[Plain]:
    """Working directory and output of the child, as arguments of `Popen`."""
    if beside is None:
        yield {}
        return
    beside.log.parent.mkdir(parents=True, exist_ok=True)
    with open(beside.log, "ab") as log:
        yield {
            "stdout": log,
            "stderr": log,
            "cwd": beside.folder,
            "start_new_session": beside.apart,
            "pass_fds": () if beside.claim is None else (beside.claim,),
        }


def outcome_in(file: Path) -> Outcome:
    """Read the outcome that a job has written."""
    return Outcome(**json.loads(file.read_text(encoding="utf-8")))


def without_result(code: int) -> str:
    """Message for a process that wrote no outcome; a negative code is a signal."""
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return f"ended without a result ({how})"


def in_foreground() -> bool:
    """Whether the terminal sends Ctrl-C to this process and, with it, to the jobs that it starts."""
    try:
        with open(os.ctermid(), encoding="utf-8") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:  # there is none
        return False


@contextlib.contextmanager
def claimed(job: Job) -> Iterator[Outcome | None]:
    """Inside, no other process that claims this job runs it.

    Yields None if it is to be run, else its outcome: the result of another process that has finished it since
    it was planned, that another process is running it, or why it cannot be claimed.
    """
    path = Path("outputs", f".claim-{config_hash(job.config)[:16]}")
    path.parent.mkdir(exist_ok=True)
    try:
        lock = _locked(path)
    except ConfigError as fault:  # raised inside a launcher, it would not become the job's outcome
        yield Outcome(error=str(fault), code=fault.exit_code)
        return
    if lock is None:
        yield Outcome(error="in use by another process; wait for it to finish", code=IN_USE)
        return
    with lock:
        try:
            yield _meanwhile(job)
        finally:
            path.unlink(missing_ok=True)


def clear_claims() -> None:
    """Remove the claims of killed processes; those at work have locked theirs."""
    for path in Path("outputs").glob(".claim-*"):
        with contextlib.suppress(OSError, ConfigError), open_lock(path, make=False) as file:
            if take(file):
                path.unlink()


def _meanwhile(job: Job) -> Outcome | None:
    from embedrun.experiment.data import Fingerprints  # numpy comes with it

    found = before(job.command, job.config, job.directory, Fingerprints())
    if found.fault is not None:
        return Outcome(error=found.fault, code=found.code)
    return None if found.finished is None else outcome_of(found.finished)


def _locked(path: Path) -> IO[bytes] | None:
    """The file, locked; None if another process holds the lock."""
    while True:
        file = open_lock(path)
        if not take(file):
            file.close()
            return None
        # The previous holder may have removed the file between opening and locking.
        if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return file
        file.close()


def main() -> int:
    """Entry point of the child: do the job that standard input describes."""
    payload = json.load(sys.stdin)
    if (parent := payload.get("parent")) is not None:
        # Without the parent nobody would read the outcome or start the next job: save and end, too.
        end_with(parent, signal.SIGTERM)
    sys.argv = payload["argv"]  # the run records the command that the user typed
    # The outcome is written inside, too: a process group gets several signals, and the parent forwards one.
    with signals.raised():
        outcome = _outcome(payload)
        write_atomically(Path(payload["outcome"]), json.dumps(asdict(outcome)))
    return outcome.code


def _outcome(payload: Plain) -> Outcome:
    """Do the job; whatever it raises becomes its outcome."""
    resumed, choices = payload.get("resumed"), payload.get("choices")
    more = {} if resumed is None else {"resumed": Path(resumed)}
    more |= {} if choices is None else {"choices": choices}
    try:
        return run_of(payload["command"])(
            payload["config"], payload["overrides"], payload["directory"], **more
        )
    except KeyboardInterrupt as stop:
        return Outcome(error="interrupted", code=exit_code(stop))
    except Exception as fault:
        say(explain(fault))
        return Outcome(error=masked(explain(fault)), code=exit_code(fault))


if __name__ == "__main__":
    ignore_broken_pipes()
    signals.leave(main())
