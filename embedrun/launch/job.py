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

from embedrun import signals
from embedrun.child import command, end_with, environment
from embedrun.console import ignore_broken_pipes, masked, say
from embedrun.errors import EmbedrunError, Terminated, exit_code, explain
from embedrun.files import Plain, only_writer, write_atomically
from embedrun.launch.before import before, outcome_of
from embedrun.runs.directory import Outcome, config_hash

_MODULE = "embedrun.launch.job"
# The function behind each command, as `module:function`, so that it is imported only when needed.
RUNS = {
    "train": "embedrun.experiment.training:run",
    "evaluate": "embedrun.experiment.evaluation:run",
    "annotate": "embedrun.curation.annotate:run",
    "generate": "embedrun.curation.generate:run",
    "collect": "embedrun.curation.collect:run",
}
RECORDING = ("train", "evaluate")  # commands that leave run directories
POLL = 0.2  # seconds between two checks of a job
MOMENT = 1.0  # seconds


@dataclass(frozen=True)
class Job:
    """What a process is to do.

    Args:
        command: a key of `RUNS`.
        config: resolved plain data.
        directory: the run directory, where the user named one.
        resumed: directory of the run to resume.
        argv: the command line that the user typed, which the run records.
        label: the job's name in messages.
        choices: the presets behind the configuration, which the run records.
    """

    command: str
    config: Plain
    overrides: list[str] = field(default_factory=list)
    directory: str | None = None
    resumed: str | None = None
    argv: list[str] = field(default_factory=list)
    label: str = ""
    choices: Plain | None = None


@dataclass(frozen=True)
class Beside:
    """How to run a job in the background.

    Args:
        log: its output is appended there.
        ends: called several times a second while it runs; true makes it save and end.
        folder: its working directory; None: that of this process.
        claim: descriptor of a lock file that the job shares: if this process dies, the job continues and its
            work stays claimed. None: it saves and ends then.
    """

    log: Path
    ends: Callable[[], bool]
    folder: str | None = None
    claim: int | None = None


def run_of(command: str) -> Callable[..., Outcome]:
    """The function that does the work of a command."""
    module, _, name = RUNS[command].partition(":")
    return getattr(import_module(module), name)


def run_in_child(job: Job, file: Path, beside: Beside | None = None) -> Outcome:
    """Run a job in a process of its own, and return its outcome, which it writes into the file.

    A job that died without writing one has failed. Without `beside` it prints as this process does. It hears
    no key of the terminal: signals are forwarded to it.

    Raises:
        KeyboardInterrupt: on a signal, once the job has saved and ended.
    """
    parent = os.getpid() if beside is None or beside.claim is None else None
    payload = {**asdict(job), "argv": job.argv or sys.argv, "outcome": str(file), "parent": parent}
    # A file, not a pipe: nothing is left over if the job dies, or is interrupted, before it reads.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as description, _output(beside) as options:
        json.dump(payload, description)
        description.seek(0)
        child = subprocess.Popen(
            command(_MODULE), stdin=description, env=environment(), start_new_session=True, **options
        )
    try:
        while beside is not None and child.poll() is None:
            if beside.ends():
                child.send_signal(signal.SIGTERM)
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(POLL)
        code = child.wait()
    except KeyboardInterrupt as stop:
        _end(child, signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
        raise
    if file.is_file():
        return outcome_in(file)
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return Outcome(error=f"the job's process ended without a result ({how})", code=code or 1)


def _end(child: subprocess.Popen, number: int) -> None:
    """Forward a signal and wait until the job has saved; after a second Ctrl-C it has a moment."""
    child.send_signal(number)
    with contextlib.suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
        # A second one may have come already: for a moment, Popen takes two for one.
        child.wait(MOMENT if signals.interrupted_twice() else None)
    try:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
        child.wait(MOMENT)
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
    with beside.log.open("ab") as log:
        shared = () if beside.claim is None else (beside.claim,)
        yield {"stdout": log, "stderr": log, "cwd": beside.folder, "pass_fds": shared}


def outcome_in(file: Path) -> Outcome:
    """Read the outcome that a job has written."""
    return Outcome(**json.loads(file.read_text(encoding="utf-8")))


@contextlib.contextmanager
def claimed(job: Job) -> Iterator[Outcome | None]:
    """Inside, no other process that claims this job runs it.

    Yields None if it is to be run, else its outcome: the result of another process that has finished it since
    it was planned, or why it cannot be claimed, as where another process is running it.
    """
    Path("outputs").mkdir(exist_ok=True)
    with contextlib.ExitStack() as claims:
        try:
            claims.enter_context(only_writer(Path("outputs", f"job-{config_hash(job.config)[:16]}")))
        except EmbedrunError as fault:  # raised inside a launcher, it would not become the job's outcome
            yield Outcome(error=str(fault), code=fault.exit_code)
            return
        yield _done_meanwhile(job)


def _done_meanwhile(job: Job) -> Outcome | None:
    from embedrun.experiment.data import Fingerprints  # numpy comes with it

    earlier = before(job.command, job.config, job.directory, Fingerprints())
    if earlier.fault is not None:
        return Outcome(error=earlier.fault, code=earlier.code)
    return None if earlier.finished is None else outcome_of(earlier.finished)


def main() -> int:
    """Entry point of the child: do the job that standard input describes."""
    payload = json.load(sys.stdin)
    if payload["parent"] is not None:
        # Without the parent nobody would read the outcome or start the next job: save and end, too.
        end_with(payload["parent"], signal.SIGTERM)
    sys.argv = payload["argv"]  # the run records the command that the user typed
    # The outcome is written inside, too: a process group gets several signals, and the parent forwards one.
    with signals.raised():
        outcome = _outcome(payload)
        write_atomically(Path(payload["outcome"]), json.dumps(asdict(outcome)))
    return outcome.code


def _outcome(payload: Plain) -> Outcome:
    """Do the job; whatever it raises becomes its outcome."""
    resumed, choices = payload["resumed"], payload["choices"]
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
