"""Jobs through one of Hydra's launchers, and the files by which the processes of a launch communicate.

Hydra sweeps over the numbers of the jobs and calls :class:`Work` for each, which a launcher pickles; what a
job is to do is in a file.
"""

import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from embedrun import signals
from embedrun.child import end_with, started_by_others
from embedrun.config.compose import started
from embedrun.config.request import Request, is_hydra, quoted
from embedrun.config.safety import launcher_of
from embedrun.console import duration, ignore_broken_pipes, say
from embedrun.errors import exit_code
from embedrun.files import Plain, write_atomically
from embedrun.launch.job import Beside, Job, claimed, outcome_in, run_in_child
from embedrun.runs.directory import Outcome

_OURS = re.compile(r"[+~]*hydra\.(run|sweep|mode|sweeper)\b")  # not about the launcher
_JOB, _BEGUN, OUTCOME = "{}.json", "{}.begun", "{}.outcome.json"
STOP = "stop"  # the file that tells jobs to end


class Interrupted(KeyboardInterrupt):
    """A signal ended the jobs: their outcomes so far, in order, and the exception `stop` of the signal."""

    def __init__(self, outcomes: list[Outcome], stop: KeyboardInterrupt) -> None:
        super().__init__()
        self.outcomes, self.stop = outcomes, stop


def launch(request: Request, jobs: Sequence[Job], folder: Path, *, alone: bool = False) -> list[Outcome]:
    """Run jobs, at least one, and return how each has ended; a signal, once they have, is `Interrupted`.

    The `hydra...` overrides of the request choose and set up the launcher. The `folder` is for files of the
    launch, which are removed at the end, and for the output of parallel jobs; every machine that runs one
    must see it. With `alone`, a job that another process is running, or has finished meanwhile, is skipped.
    """
    name = launcher_of(request.overrides)
    folder.mkdir(parents=True, exist_ok=True)
    logs = None
    if name != "basic":
        logs = str((folder / "logs").resolve())
        say(f"{len(jobs)} jobs by hydra/launcher={name}; what they print goes to {logs}")
    parent = None if name.startswith(("submitit", "ray")) else os.getpid()
    with tempfile.TemporaryDirectory(prefix=".jobs-", dir=folder.resolve()) as scratch:
        place = Path(scratch)
        for number, job in enumerate(jobs):
            typed = replace(job, argv=job.argv or sys.argv)
            write_atomically(place / _JOB.format(number), json.dumps(asdict(typed)))
        work = Work(scratch, len(jobs), logs, os.getcwd(), alone, parent)
        try:
            # Jobs that run one by one get signals from this process; parallel ones are told by a file.
            with signals.raised() if logs is None else signals.stopping(place / STOP):
                fault = _sweep(request, name, [job.config for job in jobs], work)
        except KeyboardInterrupt as stop:
            outcomes = [_interrupted(place, number, stop) for number in range(len(jobs))]
            raise Interrupted(outcomes, stop) from None
        lost = Outcome(error=f"the launcher has lost it ({fault})", code=1)
        return [_outcome(place, number) or lost for number in range(len(jobs))]


def _sweep(request: Request, name: str, configs: Sequence[Plain], work: "Work") -> str:
    """Call `work` for each job, by the launcher of Hydra of this name; returns why some were not started."""
    try:
        if name == "basic":  # one after the other, in this process
            for number in range(len(configs)):
                work({"job": number})
        else:
            from hydra.core.global_hydra import GlobalHydra

            overrides = _overrides(request, name, configs, work.folder)
            with started(None), started_by_others():
                hydra = GlobalHydra.instance().hydra
                assert hydra is not None
                hydra.multirun(None, work, overrides, with_log_configuration=False)
    except Exception as fault:  # a plugin's own
        return " ".join(str(fault).split()) or type(fault).__name__
    return "not started"


def _overrides(request: Request, name: str, configs: Sequence[Plain], folder: str) -> list[str]:
    about = [override for override in request.overrides if is_hydra(override) and not _OURS.match(override)]
    chosen = any(override.lstrip("+").startswith("hydra.launcher.n_jobs=") for override in about)
    if name == "joblib" and not chosen and _on_cuda(configs):
        say("one job at a time, since they share the GPU; hydra.launcher.n_jobs=N for N of them")
        about.append("hydra.launcher.n_jobs=1")
    if name == "ray":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if _on_cuda(configs) and not any("ray.remote.num_gpus=" in override for override in about):
            about.append("+hydra.launcher.ray.remote.num_gpus=1")  # Ray hides the devices from other jobs
    # For what Hydra makes itself; the run directories are ours to make.
    place = quoted(str(Path(folder, "hydra")))
    return [
        *about,
        "hydra/job_logging=none",
        "hydra/hydra_logging=none",
        "hydra.output_subdir=null",
        f"hydra.run.dir={place}",
        f"hydra.sweep.dir={place}",
        "hydra.sweep.subdir=${hydra:job.num}",
        f"+job={','.join(map(str, range(len(configs))))}",
    ]


def _on_cuda(configs: Sequence[Plain]) -> bool:
    if all((config.get("gpu") or {}).get("device", "cpu") == "cpu" for config in configs):
        return False
    import torch

    return torch.cuda.is_available()


@dataclass(frozen=True)
class Work:
    """Called by Hydra for each job, with its number as `job`; never exits and raises only what stops all."""

    folder: str  # with the jobs, one file each
    total: int  # jobs
    logs: str | None  # folder for the output of parallel jobs; None: they run one after the other
    where: str  # the user's working directory
    alone: bool = False  # whether to skip a job that another process runs, or has finished meanwhile
    parent: int | None = None  # its workers, which run the jobs, end with it; None where others start them

    def __call__(self, config: Plain) -> None:
        """Do one job, and write its outcome."""
        folder, number = Path(self.folder), int(config["job"])
        if self.parent not in (None, os.getpid()):
            _end_with(self.parent)
        if (folder / STOP).exists():
            return
        job = Job(**json.loads((folder / _JOB.format(number)).read_text(encoding="utf-8")))
        file = folder / OUTCOME.format(number)
        (folder / _BEGUN.format(number)).touch()
        say(f"{number + 1} of {self.total}: {job.label}{self._left(folder)}")
        # Not Path.exists, which raises the transient errors of a network file system.
        ends = partial(os.path.exists, folder / STOP)
        beside = None if self.logs is None else Beside(Path(self.logs, f"{number}.log"), ends, self.where)
        try:
            with claimed(job) if self.alone else nullcontext() as known:
                outcome = known or run_in_child(job, file, beside)
        except KeyboardInterrupt as stop:
            if beside is None:
                raise
            outcome = Outcome(error="interrupted", code=exit_code(stop))
        write_atomically(file, json.dumps(asdict(outcome)))

    def _left(self, folder: Path) -> str:
        """What the other jobs take if they end as fast as those that have; one that runs counts half."""
        done = len(list(folder.glob(OUTCOME.format("*"))))
        if done == 0:
            return ""
        begun = [path.stat().st_mtime for path in folder.glob(_BEGUN.format("*"))]
        began, done = min(begun), done + (len(begun) - 1 - done) / 2  # this one has just begun
        return f"; about {duration((time.time() - began) * (self.total - done) / done)} left"


def _end_with(parent: int) -> None:
    # Ctrl-C and a closed terminal reach the workers, too, and all jobs would end with one.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ignore_broken_pipes()
    end_with(parent, signal.SIGTERM)


def _outcome(folder: Path, number: int) -> Outcome | None:
    file = folder / OUTCOME.format(number)
    return outcome_in(file) if file.is_file() else None


def _interrupted(folder: Path, number: int, stop: KeyboardInterrupt) -> Outcome:
    error = "interrupted" if (folder / _BEGUN.format(number)).exists() else "not started"
    return _outcome(folder, number) or Outcome(error=error, code=exit_code(stop))
