"""A multirun: its jobs are all checked first, what has finished is left out, and a summary ends it."""

import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from embedrun.config.compose import composed, sweep
from embedrun.config.request import Composed, Request, loosened, task_overrides
from embedrun.console import say
from embedrun.errors import IN_USE, USAGE, ConfigError, EmbedrunError
from embedrun.files import Plain, open_lock, take, unwritable
from embedrun.launch import launcher, summary
from embedrun.launch.before import Before, before, latest, outcome_of
from embedrun.launch.job import RECORDING, Job
from embedrun.launch.launcher import JOBS, Interrupted, tidy
from embedrun.launch.summary import FAILED, STOPPED, WAITING, Results, result
from embedrun.runs.directory import Outcome, config_hash
from embedrun.runs.search import settled_as_begun, settled_for
from embedrun.store import hub

_LOCK = ".multirun.lock"  # unlike a file of a run directory: what looks like one may be removed


class SweepPlace:
    """The directories of one multirun; `leaves_runs` is whether its jobs leave run directories.

    A later attempt recognizes the multirun by `hashes`, the config hashes of its jobs.
    """

    def __init__(self, request: Request, jobs: Sequence[Composed], *, leaves_runs: bool) -> None:
        self._request, self._jobs, self._leaves_runs = request, jobs, leaves_runs
        self.hashes = [config_hash(job.config) for job in jobs]
        self._parents = list(dict.fromkeys(job.parent for job in jobs if job.parent is not None))

    def check(self) -> None:
        """Raise a `ConfigError` that names every run directory that is taken, or shared by several jobs.

        Also where nothing can be written.
        """
        named = [job.directory for job in self._jobs if job.directory is not None]
        places = [str(Path(place).resolve()) for place in named]
        problems = [
            f"hydra.sweep.subdir: several jobs would share {place}; use ${{hydra:job.num}} in it"
            for place in {place for place in places if places.count(place) > 1}
        ]
        if not problems and not all(goes_on(job.config) for job in self._jobs):
            problems = [
                f"hydra.sweep.dir: {place} exists{self._why_not(place)}; name one that does not"
                for place in self._parents or named
                if Path(place).exists() and not self._is_own(Path(place))
            ]
        if why := unwritable(Path([*self._parents, "outputs"][0], _LOCK)):
            problems.append(f"hydra.sweep.dir: {why}; name a folder elsewhere with hydra.sweep.dir=DIR")
        if problems:
            raise ConfigError(problems)

    @contextmanager
    def held(self) -> Iterator[Path]:
        """The folder where the summary goes; inside, no other multirun writes into it.

        Raises:
                EmbedrunError: exit 8, if another multirun is writing into it; nothing in it is changed.
        """
        folder = self._folder()
        folder.mkdir(parents=True, exist_ok=True)
        with open_lock(folder / _LOCK) as lock:  # goes with the process, however that ends
            if not take(lock):
                raise EmbedrunError(
                    f"{folder}: in use by another multirun; wait for it to finish", exit_code=IN_USE
                )
            yield folder

    def _folder(self) -> Path:
        """The directory that the user named, else a new one below `outputs`."""
        if self._parents:
            return Path(self._parents[0])
        names = {str(job.config.get("name")) for job in self._jobs}
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        whole = sha256(" ".join(self.hashes).encode()).hexdigest()[:6]
        parent = Path("outputs", names.pop() if len(names) == 1 else "", "sweeps")
        tidy(parent.glob(f"*/{JOBS}"))
        return new_folder(parent, f"{stamp}-{whole}")

    def _is_own(self, place: Path) -> bool:
        """Whether what exists there was left by these very jobs, or by a multirun that had not begun."""
        if place.is_dir() and [one.name for one in place.iterdir()] == [_LOCK]:
            return True
        if self._request.again or not self._leaves_runs:
            return False
        if self._parents:
            return summary.is_of(place, self._request.command, self.hashes)
        return True  # checked later, with the job

    def _why_not(self, place: str) -> str:
        if self._request.again and self._leaves_runs:
            return ", and with --again every job starts from scratch"
        return " and is not of these jobs" if (Path(place) / "sweep.json").is_file() else ""


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder for the duration of the jobs, below `outputs`, where every machine sees it."""
    outputs = Path("outputs")
    outputs.mkdir(exist_ok=True)
    tidy(outputs.glob(f".jobs-*/{JOBS}"))
    with tempfile.TemporaryDirectory(prefix=".jobs-", dir=outputs) as folder:
        yield Path(folder)
    with suppress(OSError):  # it is not empty
        outputs.rmdir()


def new_folder(parent: Path, name: str) -> Path:
    """Make a new folder, with `.2`, `.3`, ... appended where the name is taken, and the parent if needed.

    Raises:
        ConfigError: if it cannot be made.
    """
    if why := unwritable(parent / name):
        raise ConfigError(f"{why}; go to another folder")
    parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, 10_000):
        path = parent / (name if attempt == 1 else f"{name}.{attempt}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise ConfigError(f"no free folder below {parent}")


def goes_on(config: Plain) -> bool:
    """Whether the job itself resumes a run that it finds in its directory."""
    training = config.get("training")
    return isinstance(training, dict) and training.get("resume") == "auto"


Check = Callable[[Plain], object]


def launch(request: Request, check: Check) -> int:
    """Run every job that has not finished before; a failure stops no other. Returns 1 if any failed, else 0.

    `check` raises `ConfigError` for a configuration that cannot run.

    Raises:
        ConfigError: if no job has a configuration that can run, or two would share a run directory.
        KeyboardInterrupt: on a signal, once the running jobs have saved and ended; no other is started.
    """
    if any(override.lstrip("+").startswith("hydra.run.dir=") for override in request.overrides):
        raise ConfigError("hydra.run.dir: names the directory of one run; with -m, give hydra.sweep.dir")
    jobs = [composed(request, overrides, job=number) for number, overrides in enumerate(sweep(request))]
    multirun = _Multirun(request, jobs)
    multirun.check_places()
    refused = _refused(jobs, check)
    for number, fault in refused.items():
        say(f"{multirun.label(number)} will not run: {fault}")
    if len(refused) == len(jobs):
        raise ConfigError(
            [problem for fault in refused.values() for problem in dict.fromkeys(fault.problems)]
        )
    return multirun.run({number: Outcome(error=str(fault), code=USAGE) for number, fault in refused.items()})


class _Multirun:
    """The jobs of one command line, and what earlier attempts left of them."""

    def __init__(self, request: Request, jobs: Sequence[Composed]) -> None:
        self._request, self._jobs = request, jobs
        self._leaves_runs = request.command in RECORDING
        self._place = SweepPlace(request, jobs, leaves_runs=self._leaves_runs)
        self._before: dict[int, Before] = {}
        self._configs: dict[int, Plain] = {}  # of the same jobs, settled
        self._shared = set.intersection(*(set(job.overrides) for job in jobs))

    def check_places(self) -> None:
        """As `SweepPlace.check`."""
        self._place.check()

    def label(self, number: int) -> str:
        """A job's number and the overrides that not all jobs share."""
        own = [one for one in self._jobs[number].overrides if one not in self._shared]
        return f"job {number} ({' '.join(own)})" if own else f"job {number}"

    def run(self, ended: dict[int, Outcome]) -> int:
        """Run all but the jobs that have `ended` before they began, report all, and return the exit code.

        Raises:
            EmbedrunError: exit 8, if another multirun is writing into the folder.
        """
        if not self._leaves_runs:
            return self._run_left(ended, None)
        # What a concurrent multirun does in this folder would be mistaken for the remains of an earlier one.
        with self._place.held() as folder:
            self._look_back(ended)
            summary.begin(folder, self._request.command, self._place.hashes)
            return self._run_left(ended, folder)

    def _run_left(self, ended: dict[int, Outcome], folder: Path | None) -> int:
        left = self._left(ended)
        try:
            ended |= self._launch(left, folder) if left else {}
        except Interrupted as stop:
            ended |= dict(zip(left, stop.outcomes, strict=True))
            self._report(ended, folder)
            if folder is not None:
                say(f"{shlex.join(['embedrun', *sys.argv[1:]])} runs what is left")
            raise stop.stop from None
        return self._report(ended, folder)

    def _look_back(self, ended: dict[int, Outcome]) -> None:
        """Find out what earlier attempts left of each job that can run."""
        from embedrun.experiment.data import Fingerprints  # numpy comes with it

        fingerprints, taken = Fingerprints(), set()
        for number, job in enumerate(self._jobs):
            if number in ended or (self._request.again and job.directory is None):
                continue
            config = settled_for(job.config, None, hub.pinned)
            found = before(self._request.command, config, job.directory, fingerprints)
            if found.unfinished is not None and found.unfinished in taken:
                continue  # another job with this configuration resumes it
            if found.fault is not None and goes_on(job.config):
                continue  # the job itself decides
            taken.add(found.unfinished)
            self._before[number], self._configs[number] = found, config
            if found.changed is not None:
                say(f"{self.label(number)} is run again: {found.changed}")
            if found.fault is not None:
                ended[number] = Outcome(error=found.fault, code=found.code)
            elif found.finished is not None:
                say(f"{self.label(number)} has finished before: {found.finished}")
                ended[number] = outcome_of(found.finished)

    def _left(self, ended: Mapping[int, Outcome]) -> list[int]:
        return [number for number in range(len(self._jobs)) if number not in ended]

    def _launch(self, left: Sequence[int], folder: Path | None) -> dict[int, Outcome]:
        """Run the jobs that are left, and return their outcomes by number."""
        own = [self._job(number) for number in left]
        with scratch() if folder is None else nullcontext(folder) as place:
            return dict(zip(left, launcher.launch(self._request, own, place), strict=True))

    def _job(self, number: int) -> Job:
        job, found = self._jobs[number], self._before.get(number)
        resumed = None if found is None or found.unfinished is None else str(found.unfinished)
        if resumed is not None:
            say(f"{self.label(number)} resumes: {resumed}")
        return Job(
            command=self._request.command,
            # A run resumes with the models that it was found by, whatever finishes before its turn.
            config=job.config if resumed is None else self._configs[number],
            overrides=list(job.overrides),
            directory=None if resumed is not None else job.directory,
            resumed=resumed,
            # A key that only a refused job lacks must not keep Hydra from starting the others.
            launched=task_overrides(loosened(self._request, job.overrides)),
            label=self.label(number),
            choices=job.choices if self._leaves_runs else None,
        )

    def _report(self, ended: Mapping[int, Outcome], folder: Path | None = None) -> int:
        """Print and write the summary; returns the exit code."""
        found = []
        for number, job in enumerate(self._jobs):
            outcome = ended[number]
            known = self._before.get(number)
            begun = outcome.error and outcome.code not in (USAGE, IN_USE) and outcome.error != WAITING
            if folder is not None and begun and outcome.directory is None:
                settled = settled_as_begun(job.config, job.directory, hub.pinned)
                place = latest(settled, job.directory)
                outcome = Outcome(place, outcome.main, outcome.error, outcome.code)
            was = known is not None and known.finished is not None
            found.append(result(number, job.overrides, job.config, outcome, before=was))
        results = Results(found)
        try:
            print(summary.text(results), flush=True)  # before it is written: the disk may be full
        finally:  # written even if the reader of the output is gone
            if folder is not None:
                summary.write(folder, self._request.command, self._place.hashes, results)
                say(f"summary: {folder / 'summary.md'}")
        if folder is not None and (lines := summary.way_on(results)):
            print("\n".join(lines), flush=True)
        bad = (FAILED, STOPPED, WAITING)
        return 1 if any(job.state in bad for job in results.jobs) else 0


def _refused(jobs: Sequence[Composed], check: Check) -> dict[int, ConfigError]:
    """By number, the jobs whose configuration cannot run."""
    refused = {}
    for number, job in enumerate(jobs):
        try:
            check(job.config)
        except ConfigError as fault:
            refused[number] = fault
    return refused
