"""A multirun: its jobs are all checked first, what has finished is left out, and a summary ends it."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from embedrun.config.compose import composed, sweep
from embedrun.config.request import Composed, Request
from embedrun.console import say
from embedrun.errors import IN_USE, USAGE, ConfigError
from embedrun.experiment.outcome import resumes
from embedrun.files import Plain, only_writer, unwritable
from embedrun.launch import launcher, summary
from embedrun.launch.job import Before, Job, before, latest
from embedrun.launch.summary import FAILED, STOPPED, WAITING, Results, result
from embedrun.runs.directory import Outcome, config_hash
from embedrun.runs.search import settled_as_begun, settled_for
from embedrun.store import hub

Check = Callable[[Plain], object]


def launch(request: Request, check: Check) -> int:
    """Run every job that has not finished before; a failure stops no other. Returns 1 if any failed, else 0.

    `check` raises `ConfigError` for a configuration that cannot run.

    Raises:
        ConfigError: if no job has a configuration that can run, or a place for the runs is taken.
        EmbedrunError: exit 8, if another multirun is writing into the same folder.
        KeyboardInterrupt: on a signal, once the running jobs have saved and ended; no other is started.
    """
    if any(override.lstrip("+").startswith("hydra.run.dir=") for override in request.overrides):
        raise ConfigError("hydra.run.dir: names the directory of one run; with -m, give hydra.sweep.dir")
    jobs = [composed(request, overrides, job=number) for number, overrides in enumerate(sweep(request))]
    multirun = _Multirun(request, jobs)
    multirun.check_places()
    refused: dict[int, ConfigError] = {}
    for number, job in enumerate(jobs):
        try:
            check(job.config)
        except ConfigError as fault:
            refused[number] = fault
            say(f"{multirun.label(number)} will not run: {fault}")
    if len(refused) == len(jobs):
        problems = [problem for fault in refused.values() for problem in fault.problems]
        raise ConfigError(list(dict.fromkeys(problems)))
    return multirun.run({number: Outcome(error=str(fault), code=USAGE) for number, fault in refused.items()})


class _Multirun:
    """The jobs of one command line, and what earlier attempts left of them.

    A later attempt recognizes the folder of the multirun by the config hashes of its jobs.
    """

    def __init__(self, request: Request, jobs: Sequence[Composed]) -> None:
        self._request, self._jobs = request, jobs
        self._hashes = [config_hash(job.config) for job in jobs]
        self._parent = next((Path(job.parent) for job in jobs if job.parent is not None), None)
        self._before: dict[int, Before] = {}
        self._configs: dict[int, Plain] = {}  # of the same jobs, settled
        self._shared = set.intersection(*(set(job.overrides) for job in jobs))

    def check_places(self) -> None:
        """Raise a `ConfigError` that names every run directory that is taken, or shared by several jobs."""
        named = [job.directory for job in self._jobs if job.directory is not None]
        places = [str(Path(place).resolve()) for place in named]
        problems = [
            f"hydra.sweep.subdir: several jobs would share {place}; use ${{hydra:job.num}} in it"
            for place in {place for place in places if places.count(place) > 1}
        ]
        if not problems and not all(resumes(job.config) for job in self._jobs):
            taken = [self._parent] if self._parent is not None else [Path(place) for place in named]
            problems = [
                f"hydra.sweep.dir: {place} exists and is not of these jobs; name one that does not"
                for place in taken
                if place.exists() and not self._is_own(place)
            ]
        if why := unwritable(Path(self._parent or "outputs", "summary.md")):
            problems.append(f"hydra.sweep.dir: {why}; name a folder elsewhere with hydra.sweep.dir=DIR")
        if problems:
            raise ConfigError(problems)

    def _is_own(self, place: Path) -> bool:
        """Whether what exists there was left by these very jobs, or is empty."""
        if place.is_dir() and not any(place.iterdir()):
            return True
        if self._request.again:
            return False
        # Without a folder of the sweep, each job's own is checked later.
        return self._parent is None or summary.is_of(place, self._request.command, self._hashes)

    def label(self, number: int) -> str:
        """A job's number and the overrides that not all jobs share."""
        varied = [override for override in self._jobs[number].overrides if override not in self._shared]
        return f"job {number} ({' '.join(varied)})" if varied else f"job {number}"

    def run(self, ended: dict[int, Outcome]) -> int:
        """Run all but the jobs that have `ended` before they began, report all, and return the exit code."""
        folder = self._parent or self._new_folder()
        # What a concurrent multirun does in this folder would be mistaken for the remains of an earlier one.
        folder.parent.mkdir(parents=True, exist_ok=True)
        with only_writer(folder):
            self._look_back(ended)
            summary.begin(folder, self._request.command, self._hashes)
            return self._run_left(ended, folder)

    def _new_folder(self) -> Path:
        names = {str(job.config.get("name")) for job in self._jobs}
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        whole = sha256(" ".join(self._hashes).encode()).hexdigest()[:6]
        parent = Path("outputs", names.pop() if len(names) == 1 else "", "sweeps")
        return new_folder(parent, f"{stamp}-{whole}")

    def _look_back(self, ended: dict[int, Outcome]) -> None:
        """Find out what earlier attempts left of each job that can run."""
        from embedrun.experiment.data import Fingerprints  # numpy comes with it

        fingerprints, taken = Fingerprints(), set()
        for number, job in enumerate(self._jobs):
            if number in ended or (self._request.again and job.directory is None):
                continue
            config = settled_for(job.config, None, hub.pinned)
            earlier = before(self._request.command, config, job.directory, fingerprints)
            if earlier.unfinished is not None and earlier.unfinished in taken:
                continue  # another job with this configuration resumes it
            if earlier.fault is not None and resumes(job.config):
                continue  # the job itself decides
            taken.add(earlier.unfinished)
            self._before[number], self._configs[number] = earlier, config
            if earlier.changed is not None:
                say(f"{self.label(number)} is run again: {earlier.changed}")
            if earlier.finished is not None:
                say(f"{self.label(number)} has finished before: {earlier.finished}")
            if (outcome := earlier.outcome) is not None:
                ended[number] = outcome

    def _run_left(self, ended: dict[int, Outcome], folder: Path) -> int:
        left = [number for number in range(len(self._jobs)) if number not in ended]
        try:
            jobs = [self._job(number) for number in left]
            outcomes = launcher.launch(self._request, jobs, folder) if jobs else []
        except launcher.Interrupted as stop:
            self._report({**ended, **dict(zip(left, stop.outcomes, strict=True))}, folder)
            say(f"{shlex.join(['embedrun', *sys.argv[1:]])} runs what is left")
            raise stop.stop from None
        return self._report({**ended, **dict(zip(left, outcomes, strict=True))}, folder)

    def _job(self, number: int) -> Job:
        job, earlier = self._jobs[number], self._before.get(number)
        resumed = None if earlier is None or earlier.unfinished is None else str(earlier.unfinished)
        if resumed is not None:
            say(f"{self.label(number)} resumes: {resumed}")
        return Job(
            command=self._request.command,
            # A run resumes with the models that it was found by, whatever finishes before its turn.
            config=job.config if resumed is None else self._configs[number],
            overrides=list(job.overrides),
            directory=None if resumed is not None else job.directory,
            resumed=resumed,
            label=self.label(number),
            choices=job.choices,
        )

    def _report(self, ended: Mapping[int, Outcome], folder: Path) -> int:
        """Print and write the summary; returns the exit code."""
        jobs = []
        for number, job in enumerate(self._jobs):
            outcome, earlier = ended[number], self._before.get(number)
            begun = outcome.error and outcome.code not in (USAGE, IN_USE) and outcome.error != WAITING
            if begun and outcome.directory is None:
                place = latest(settled_as_begun(job.config, job.directory, hub.pinned), job.directory)
                outcome = Outcome(place, outcome.main, outcome.error, outcome.code)
            finished_before = earlier is not None and earlier.finished is not None
            jobs.append(result(number, job.overrides, job.config, outcome, before=finished_before))
        results = Results(jobs)
        print(summary.text(results), flush=True)  # before it is written: the disk may be full
        summary.write(folder, self._request.command, self._hashes, results)
        say(f"summary: {folder / 'summary.md'}")
        if lines := summary.next_steps(results):
            print("\n".join(lines), flush=True)
        return 1 if any(job.state in (FAILED, STOPPED, WAITING) for job in jobs) else 0


def new_folder(parent: Path, name: str) -> Path:
    """Make a new folder, with `.2`, `.3`, ... appended where the name is taken, and the parent if needed.

    Raises:
        ConfigError: if it cannot be made.
    """
    if why := unwritable(parent / name):
        raise ConfigError(f"{why}; go to another folder")
    for attempt in range(1, 10_000):
        path = parent / (name if attempt == 1 else f"{name}.{attempt}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise ConfigError(f"no free folder below {parent}")
