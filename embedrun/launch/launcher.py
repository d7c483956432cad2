"""Jobs through one of Hydra's launchers, and the files by which the processes of a launch communicate.

The launcher pickles :class:`Work`, so it is a plain module-level class; each job is in a file.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedrun import signals
from embedrun.child import started_by_others
from embedrun.config.compose import started
from embedrun.config.request import Request, quoted
from embedrun.config.safety import launcher_of
from embedrun.console import say
from embedrun.errors import INTERRUPTED, RunFailed, Terminated, exit_code
from embedrun.files import Plain, is_alive, open_lock, take, write_atomically
from embedrun.launch.job import Beside, Job, claimed, clear_claims, outcome_in, run_in_child
from embedrun.runs.directory import Outcome
from embedrun.signals import deaf, stopping

if TYPE_CHECKING:
    from hydra.plugins.launcher import Launcher
    from hydra.types import TaskFunction

_OURS = re.compile(r"[+~]*hydra\.(run|sweep|mode|sweeper)\b")  # not about the launcher


@contextlib.contextmanager
def launcher(
    request: Request, folder: Path, task: "TaskFunction", configs: Sequence[Plain]
) -> Iterator["Launcher"]:
    """The launcher that the request's `hydra/launcher` and `hydra.launcher` overrides choose, set up.

    It calls `task` for each job. `folder` is for the folders that Hydra makes itself; the run directories are
    ours to make.
    """
    from hydra._internal.callbacks import Callbacks
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext, RunMode

    about = [one for one in request.overrides if re.match(r"[+~]*hydra[./]", one) and not _OURS.match(one)]
    place = quoted(str(folder / "hydra"))
    about += [f"hydra.sweep.dir={place}", f"hydra.run.dir={place}", "hydra.sweep.subdir=${hydra:job.num}"]
    with started(request.config_dir, "embedrun") as extra:
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        config = hydra.compose_config(
            config_name=request.root,
            overrides=[*about, *extra],
            run_mode=RunMode.MULTIRUN,
            from_shell=False,
            with_log_configuration=False,
        )
        context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(config))
        start = Plugins.instance().instantiate_launcher(
            hydra_context=context, task_function=task, config=config
        )
        name = launcher_of(request.overrides)
        with contextlib.ExitStack() as inside:
            if name == "joblib":
                _set_up_joblib(start, request, configs)
            if name.startswith("submitit"):
                inside.enter_context(patient())
            if name != "basic":
                inside.enter_context(started_by_others())
            yield start


@contextlib.contextmanager
def patient() -> Iterator[None]:
    """Inside, submitit waits for every job, where it would otherwise abandon all when the first one is lost.

    Raises:
        Exception: at the end, submitit's own for the first job lost.
    """
    from submitit import Job

    lost: list[Exception] = []
    results = Job.results

    def waited(job: Job[object]) -> list[object]:
        try:
            return results(job)
        except Exception as fault:  # of a cluster
            lost.append(fault)
            return [None]

    Job.results = waited  # type: ignore[method-assign]
    try:
        yield
    finally:
        Job.results = results
    if lost:
        raise lost[0]


def _set_up_joblib(start: Any, request: Request, configs: Sequence[Plain]) -> None:
    start.joblib["initializer"] = deaf
    chosen = any(override.lstrip("+").startswith("hydra.launcher.n_jobs=") for override in request.overrides)
    if not chosen and _on_cuda(configs):
        start.joblib["n_jobs"] = 1
        say("one job at a time, since they share the GPU; hydra.launcher.n_jobs=N for N of them")


def _on_cuda(configs: Sequence[Plain]) -> bool:
    devices = {config["gpu"].get("device") for config in configs if isinstance(config.get("gpu"), Mapping)}
    if "cuda" in devices or not devices - {"cpu"}:
        return "cuda" in devices
    import torch

    return torch.cuda.is_available()


OUTCOME, _JOB, _BEGUN = "{}.outcome.json", "{}.json", "{}.begun"
STOP = "stop"  # the file that tells jobs to end


@dataclass(frozen=True)
class Work:
    """Called by Hydra for each job; never exits, so that no job can end the others.

    Args:
        folder: with the jobs, one file each.
        total: number of jobs.
        logs: folder for the output of parallel jobs; None: they run one after the other.
        where: the user's working directory.
        numbers: of the jobs of this launch, in the launcher's order.
        alone: whether to skip a job that another process is running, or has finished meanwhile.
        parent: process whose workers run the jobs; they start none once it has died. None on a cluster, where
            jobs do not depend on it.
    """

    folder: str
    total: int
    logs: str | None
    where: str
    numbers: tuple[int, ...]
    alone: bool = False
    parent: int | None = None

    def __call__(self, _: object) -> None:
        """Do one job, or raise `RunFailed` with its exit code."""
        from hydra.core.hydra_config import HydraConfig

        outcome = self._run(self.numbers[int(HydraConfig.get().job.num)])
        if outcome.error:
            raise RunFailed(outcome.error, exit_code=outcome.code)

    def _run(self, number: int) -> Outcome:
        folder = Path(self.folder)
        file = folder / OUTCOME.format(number)
        if (folder / STOP).exists() or self._is_orphan():
            return Outcome(error="not started", code=1)
        job = Job(**json.loads(job_file(folder, number).read_text(encoding="utf-8")))
        write_atomically(folder / _BEGUN.format(number), f"{os.getpid()} {socket.gethostname()}")
        say(f"{number + 1} of {self.total}: {job.label}")
        beside = None
        if self.logs is not None:
            log = Path(self.logs) / f"{number}.log"
            # Not Path.exists, which raises the transient errors of a network file system.
            beside = Beside(log, lambda: os.path.exists(folder / STOP), self.where, apart=True)
        try:
            with claimed(job) if self.alone else nullcontext() as known:
                outcome = run_in_child(job, file, beside) if known is None else known
        except KeyboardInterrupt as stop:
            if beside is None:
                raise
            outcome = Outcome(error="interrupted", code=exit_code(stop))
        write_atomically(file, json.dumps(asdict(outcome)))
        return outcome

    def _is_orphan(self) -> bool:
        # Compared with getppid, since the parent's number may be another process's once it has died.
        return self.parent not in (None, os.getpid(), os.getppid())


def job_file(folder: Path, number: int) -> Path:
    """File that holds a job."""
    return folder / _JOB.format(number)


def begun(folder: Path, number: int) -> tuple[int, str] | None:
    """Process id and machine that have begun a job, or None."""
    try:
        process, host = (folder / _BEGUN.format(number)).read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return None
    return int(process), host


def alive(folder: Path) -> Iterator[int]:
    """Numbers of the jobs without an outcome whose process, another one on this machine, still lives."""
    for file in folder.glob(_BEGUN.format("*")):
        number = int(file.name.partition(".")[0])
        known = begun(folder, number)
        if (folder / OUTCOME.format(number)).exists() or known is None or known[1] != socket.gethostname():
            continue
        if known[0] != os.getpid() and Path(f"/proc/{known[0]}").exists():
            yield number


JOBS = ".jobs"


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A fresh `.jobs` in the folder, as a full path; a lock in it shows that the launch is alive.

    The folder is made if needed.
    """
    place, fresh = folder.resolve() / JOBS, folder.resolve() / f"{JOBS}.new"
    for old in (place, fresh):
        shutil.rmtree(old, ignore_errors=True)
    fresh.mkdir(parents=True)
    with open_lock(fresh / ".lock") as lock:
        take(lock)
        fresh.rename(place)  # never seen without its lock
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


def tidy(places: Iterable[Path]) -> None:
    """Remove each of these `.jobs` folders whose launch was killed, and then its parent if that is empty.

    Claims of killed processes go, too.
    """
    clear_claims()
    for place in places:
        # Jobs may outlive a killed launch, on a cluster on other machines, and still read this folder.
        if is_alive(place) is False and not any(alive(place)) and not (place / "hydra/.submitit").exists():
            shutil.rmtree(place, ignore_errors=True)
            with suppress(OSError):
                place.parent.rmdir()


_POLL = 0.5  # seconds between looks at jobs whose launcher has died


class Interrupted(KeyboardInterrupt):
    """A signal ended the jobs: their outcomes so far, in order, and the exception `stop` of the signal."""

    def __init__(self, outcomes: list[Outcome], stop: KeyboardInterrupt) -> None:
        super().__init__()
        self.outcomes, self.stop = outcomes, stop


def launch(request: Request, jobs: Sequence[Job], folder: Path, *, alone: bool = False) -> list[Outcome]:
    """Run jobs, and return how each has ended.

    Args:
        request: its `hydra...` overrides choose and set up the launcher; of the same command as all jobs.
        jobs: at least one.
        folder: for `.jobs`, which is removed at the end, and for the output of parallel jobs; it must be
            visible to every machine that runs one.
        alone: whether to skip a job that another process is running, or has finished meanwhile.

    Raises:
        Interrupted: on a signal, once the running jobs have saved and ended; no other is started.
    """
    name = launcher_of(request.overrides)
    logs = None if name == "basic" else (folder / "logs").resolve()
    fault: Exception | None = None
    stop: KeyboardInterrupt | None = None
    with scratch(folder) as place:
        for number, job in enumerate(jobs):
            typed = replace(job, argv=job.argv or sys.argv)
            write_atomically(job_file(place, number), json.dumps(asdict(typed)))
        if logs is not None:
            say(f"{len(jobs)} jobs by hydra/launcher={name}; what they print goes to {logs}")
        parent = None if name.startswith("submitit") else os.getpid()
        said = None if logs is None else str(logs)
        work = Work(str(place), len(jobs), said, os.getcwd(), (), alone, parent)
        try:
            # Jobs that run one by one get Ctrl-C from the terminal itself; parallel ones are told by a file.
            with signals.raised() if logs is None else stopping(place / STOP):
                fault = _launch(request, jobs, work, place)
        except KeyboardInterrupt as signal:
            stop = signal
        outcomes = _outcomes(place, len(jobs), fault, stop)
    if stop is not None:
        raise Interrupted(outcomes, stop)
    return outcomes


def _launch(request: Request, jobs: Sequence[Job], work: Work, scratch: Path) -> Exception | None:
    """Run them all; returns the exception that broke the launcher itself, if any."""
    fault: Exception | None = None
    waiting = list(range(len(jobs)))
    while waiting:
        batch = replace(work, numbers=tuple(waiting))
        try:
            with launcher(request, scratch, batch, [jobs[number].config for number in waiting]) as start:
                overrides = [jobs[number].launched for number in waiting]
                # Given all at once, Hydra's own would hold the configurations of each to the end of the last.
                together = 1 if launcher_of(request.overrides) == "basic" else len(overrides)
                for first in range(0, len(overrides), together):
                    start.launch(overrides[first : first + together], initial_job_idx=first)
            return None
        except Exception as broken:  # a plugin's own
            fault = broken
            _wait(scratch)
        left = [number for number in waiting if begun(scratch, number) is None]
        # A killed worker of joblib breaks the whole pool; jobs that had not begun get a new one.
        if launcher_of(request.overrides) != "joblib" or len(left) == len(waiting):
            return fault
        waiting = left
    return fault


def _wait(scratch: Path) -> None:
    """Wait for the jobs that outlive their launcher."""
    while any(alive(scratch)):
        time.sleep(_POLL)


def _outcomes(
    scratch: Path, count: int, fault: Exception | None, stop: KeyboardInterrupt | None
) -> list[Outcome]:
    outcomes = []
    for number in range(count):
        file = scratch / OUTCOME.format(number)
        if file.is_file():
            outcomes.append(outcome_in(file))
        elif stop is not None:
            said = "not started" if begun(scratch, number) is None else "interrupted"
            outcomes.append(Outcome(error=said, code=143 if isinstance(stop, Terminated) else INTERRUPTED))
        elif fault is not None:
            said = " ".join(str(fault).split()) or type(fault).__name__
            outcomes.append(Outcome(error=f"the launcher has lost it ({said})", code=1))
        else:
            outcomes.append(Outcome(error="the launcher did not start it", code=1))
    return outcomes
