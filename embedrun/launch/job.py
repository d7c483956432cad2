"""One job in a process of its own, so that none can bring down another, and what earlier attempts left of it.

The parent passes the resolved configuration as JSON on standard input, so that nothing is composed twice, and
reads the outcome from a file that it names.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun import signals
from embedrun.child import command, end_with, environment
from embedrun.console import ignore_broken_pipes, masked, say
from embedrun.errors import IN_USE, EmbedrunError, Terminated, exit_code, explain
from embedrun.files import Plain, only_writer, write_atomically
from embedrun.runs import search
from embedrun.runs.directory import Outcome, Run, config_hash, is_empty
from embedrun.runs.reading import RunFiles
from embedrun.runs.search import changed, changes

if TYPE_CHECKING:
    from embedrun.experiment.data import Fingerprints

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
    """What a process is to do."""

    command: str  # a key of `RUNS`
    config: Plain  # resolved plain data
    overrides: list[str] = field(default_factory=list)
    directory: str | None = None  # of the run, where the user named one
    resumed: str | None = None  # directory of the run to resume
    argv: list[str] = field(default_factory=list)  # what the user typed, which the run records
    label: str = ""  # in messages
    choices: Plain | None = None  # the presets behind the configuration, which the run records


@dataclass(frozen=True)
class Beside:
    """How to run a job in the background.

    With a `claim`, the descriptor of a lock file that the job shares, the job continues if this process dies,
    and its work stays claimed. Without, it saves and ends then.
    """

    log: Path  # its output is appended there
    ends: Callable[[], bool]  # called several times a second while it runs; true makes it save and end
    folder: str | None = None  # its working directory; None: that of this process
    claim: int | None = None


def run_of(command: str) -> Callable[..., Outcome]:
    """The function that does the work of a command."""
    module, _, name = RUNS[command].partition(":")
    return getattr(import_module(module), name)


def run_in_child(job: Job, file: Path, beside: Beside | None = None) -> Outcome:
    """Run a job in a process of its own, and return its outcome, which it writes into the file.

    A job that died without writing one has failed. Without `beside` it prints as this process does. It hears
    no key of the terminal: signals are forwarded to it, and raised here once it has saved and ended.
    """
    child = _start(job, file, beside)
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


def _start(job: Job, file: Path, beside: Beside | None) -> subprocess.Popen:
    claim = None if beside is None else beside.claim
    parent = os.getpid() if claim is None else None
    payload = {**asdict(job), "argv": job.argv or sys.argv, "outcome": str(file), "parent": parent}
    # A file, not a pipe: nothing is left over if the job dies, or is interrupted, before it reads.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as description, contextlib.ExitStack() as log:
        json.dump(payload, description)
        description.seek(0)
        options: Plain = {"stdin": description, "env": environment(), "start_new_session": True}
        if beside is not None:
            beside.log.parent.mkdir(parents=True, exist_ok=True)
            output = log.enter_context(beside.log.open("ab"))
            options |= {"stdout": output, "stderr": output, "cwd": beside.folder}
        return subprocess.Popen(command(_MODULE), pass_fds=() if claim is None else (claim,), **options)


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


def outcome_in(file: Path) -> Outcome:
    """Read the outcome that a job has written."""
    return Outcome(**json.loads(file.read_text(encoding="utf-8")))


@contextlib.contextmanager
def claimed(job: Job) -> Iterator[Outcome | None]:
    """Inside, no other process that claims this job runs it.

    Yields None if it is to be run, else its outcome: the result of another process that has finished it since
    it was planned, or why it cannot be claimed, as where another process is running it.
    """
    from embedrun.experiment.data import Fingerprints  # numpy comes with it

    Path("outputs").mkdir(exist_ok=True)
    with contextlib.ExitStack() as claims:
        try:
            claims.enter_context(only_writer(Path("outputs", f"job-{config_hash(job.config)[:16]}")))
        except EmbedrunError as fault:  # raised inside a launcher, it would not become the job's outcome
            yield Outcome(error=str(fault), code=fault.exit_code)
            return
        yield before(job.command, job.config, job.directory, Fingerprints()).outcome


@dataclass(frozen=True)
class Before:
    """The earlier run of a job, if any: of the same configuration and code, on the same rows and models."""

    finished: Path | None = None
    unfinished: Path | None = None  # it can be resumed
    fault: str | None = None  # why the job cannot run where it should
    code: int = IN_USE  # exit code of the fault
    changed: str | None = None  # since the newest run of the configuration, where none counts

    @property
    def outcome(self) -> Outcome | None:
        """How the job ends without being run; None if it is to be run."""
        if self.fault is not None:
            return Outcome(error=self.fault, code=self.code)
        return None if self.finished is None else outcome_of(self.finished)


def before(command: str, config: Plain, directory: str | None, fingerprints: "Fingerprints") -> Before:
    """Look for earlier runs of a `train` or `evaluate` job; its `config` is resolved, its models are settled.

    Where the user named a `directory`, only that is looked at, else `outputs`. `fingerprints` are of the
    current rows and models. A single run asks `embedrun.experiment.outcome.settled`.
    """
    wanted = config_hash(config)
    if directory is None:
        runs = search.of(str(config.get("name")), wanted)
        return _earlier(command, config, [run for run in runs if run.config_sha256 == wanted], fingerprints)
    run = RunFiles.read(Path(directory), strict=False)
    if not run.path.exists():
        return Before()
    if not run.has_begun and (run.path / ".lock").is_file() and is_empty(run.path):
        return _removed(run.path)
    if run.config_sha256 != wanted:
        return Before(fault=f"{run.path} exists and is no run of this configuration; name another directory")
    earlier = _earlier(command, config, [run], fingerprints)
    if earlier.changed is None:
        return earlier
    return Before(fault=f"{earlier.changed} began; name another directory")


def _earlier(command: str, config: Plain, runs: Sequence[RunFiles], fingerprints: "Fingerprints") -> Before:
    """Of the runs of a configuration, the newest first: the one that stands for the job."""
    changes_since = {run.path: changed(fingerprints.of(command, config), run.data) for run in runs}
    equal = [run for run in runs if not changes_since[run.path]]
    if finished := next((run.path for run in equal if run.is_finished), None):
        return Before(finished=finished)
    if unfinished := next((run.path for run in equal if run.has_begun), None):
        return standing(unfinished)
    since = (f"{changes(names)} since {path}" for path, names in changes_since.items() if names)
    return Before(changed=next(since, None))


def _removed(folder: Path) -> Before:
    """Remove a directory whose run was killed before it had begun; nothing of value is in it."""
    try:
        Run(folder).release()
    except EmbedrunError as fault:
        return _fault(fault)
    shutil.rmtree(folder)
    return Before()


def standing(path: Path) -> Before:
    """An unfinished run as one to resume, or the fault if another process is using it."""
    try:
        Run.claim(path).release()
    except EmbedrunError as fault:
        return _fault(fault)
    return Before(unfinished=path)


def _fault(fault: EmbedrunError) -> Before:
    return Before(fault=" ".join(str(fault).split()), code=fault.exit_code)


def outcome_of(path: Path) -> Outcome:
    """The outcome of a finished run."""
    return Outcome(str(path), RunFiles.read(path, strict=False).main or None)


def latest(config: Plain, directory: str | None) -> str | None:
    """The newest unfinished run of a configuration, for a job that died without naming its own."""
    if directory is not None:
        return directory if Path(directory).is_dir() else None
    runs = search.of(str(config.get("name")), config_hash(config))
    return next((str(run.path) for run in runs if not run.is_finished), None)


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
    resumed, choices = payload["resumed"], payload["choices"]
    more = {} if resumed is None else {"resumed": Path(resumed)}
    more |= {} if choices is None else {"choices": choices}
    try:
        run = run_of(payload["command"])
        return run(payload["config"], payload["overrides"], payload["directory"], **more)
    except KeyboardInterrupt as stop:
        return Outcome(error="interrupted", code=exit_code(stop))
    except Exception as fault:
        say(explain(fault))
        return Outcome(error=masked(explain(fault)), code=exit_code(fault))


if __name__ == "__main__":
    ignore_broken_pipes()
    signals.leave(main())
