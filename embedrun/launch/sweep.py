"""A multirun: its jobs are all checked first, what has finished is left out, and a summary ends it."""

import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from embedrun.launch.summary import FAILED, STOPPED, WAITING, Result, Results, result
from embedrun.runs.directory import Outcome, config_hash, new_folder
from embedrun.runs.search import settled_as_begun, settled_for
from embedrun.store import hub


def launch(request: Request) -> int:
    """Run every job that has not finished before; a failure stops no other. Returns 1 if any failed, else 0.

    On a signal, the running jobs save and end, and no other is started.
    """
    if any(override.lstrip("+").startswith("hydra.run.dir=") for override in request.overrides):
        raise ConfigError("hydra.run.dir: names the directory of one run; with -m, give hydra.sweep.dir")
    jobs = [composed(request, overrides, job=number) for number, overrides in enumerate(sweep(request))]
    multirun = _Multirun(request, jobs)
    multirun.check_places()
    multirun.check_jobs()
    return multirun.run()


class _Multirun:
    """The jobs of one command line, and what earlier attempts left of them.

    A later attempt recognizes the folder of the multirun by the config hashes of its jobs.
    """

    def __init__(self, request: Request, jobs: Sequence[Composed]) -> None:
        self._request, self._jobs = request, jobs
        self._hashes = [config_hash(job.config) for job in jobs]
        self._parent = next((Path(job.parent) for job in jobs if job.parent is not None), None)
        self._outcomes: dict[int, Outcome] = {}  # of the jobs that are done with, by number
        self._before: dict[int, Before] = defaultdict(Before)
        self._configs: dict[int, Plain] = {}  # of the same jobs, settled
        self._shared = set.intersection(*(set(job.overrides) for job in jobs))

    def check_places(self) -> None:
        places = [str(Path(job.directory).resolve()) for job in self._jobs if job.directory is not None]
        shared = (place for place, count in Counter(places).items() if count > 1)
        problems = [
            f"hydra.sweep.subdir: several jobs would share {place}; use ${{hydra:job.num}} in it"
            for place in shared
        ] or [
            f"hydra.sweep.dir: {place} exists and is not of these jobs; name one that does not"
            for place in self._taken()
        ]
        if why := unwritable(Path(self._parent or "outputs", "summary.md")):
            problems.append(f"hydra.sweep.dir: {why}; name a folder elsewhere with hydra.sweep.dir=DIR")
        if problems:
            raise ConfigError(problems)

    def _taken(self) -> Iterator[Path]:
        if all(resumes(job.config) for job in self._jobs):
            return
        named = [Path(job.directory) for job in self._jobs if job.directory is not None]
        for place in named if self._parent is None else [self._parent]:
            if place.exists() and not self._is_usable(place):
                yield place

    def check_jobs(self) -> None:
        """Leave out each job with a configuration that cannot run; a `ConfigError` if that is all of them."""
        from embedrun.experiment import plan

        check = {"train": plan.plan_train, "evaluate": plan.plan_evaluate}[self._request.command]
        problems = []
        for number, job in enumerate(self._jobs):
            try:
                check(job.config)
            except ConfigError as fault:
                self._outcomes[number] = Outcome(error=str(fault), code=USAGE)
                problems += fault.problems
                say(f"{self.label(number)} will not run: {fault}")
        if len(self._outcomes) == len(self._jobs):
            raise ConfigError(list(dict.fromkeys(problems)))

    def _is_usable(self, place: Path) -> bool:
        if place.is_dir() and not any(place.iterdir()):
            return True
        if self._request.again:
            return False
        # Without a folder of the sweep, each job's own is checked later.
        return self._parent is None or summary.is_of(place, self._request.command, self._hashes)

    def label(self, number: int) -> str:
        varied = [override for override in self._jobs[number].overrides if override not in self._shared]
        return f"job {number} ({' '.join(varied)})" if varied else f"job {number}"

    def run(self) -> int:
        folder = self._parent or self._new_folder()
        # What a concurrent multirun does in this folder would be mistaken for the remains of an earlier one.
        folder.parent.mkdir(parents=True, exist_ok=True)
        with only_writer(folder):
            self._look_back()
            summary.begin(folder, self._request.command, self._hashes)
            return self._run_left(folder)

    def _new_folder(self) -> Path:
        names = {str(job.config.get("name")) for job in self._jobs}
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        whole = sha256(" ".join(self._hashes).encode()).hexdigest()[:6]
        parent = Path("outputs", names.pop() if len(names) == 1 else "", "sweeps")
        return new_folder(parent, f"{stamp}-{whole}")

    def _look_back(self) -> None:
        from embedrun.experiment.data import Fingerprints  # numpy comes with it

        fingerprints, resumed = Fingerprints(), set()
        for number, job in enumerate(self._jobs):
            if number in self._outcomes or (self._request.again and job.directory is None):
                continue
            config = settled_for(job.config, None, hub.pinned)
            earlier = before(self._request.command, config, job.directory, fingerprints)
            # Another job with this configuration resumes it; or the job itself decides.
            if earlier.unfinished in resumed or (earlier.fault is not None and resumes(job.config)):
                continue
            resumed |= {earlier.unfinished} - {None}
            self._before[number], self._configs[number] = earlier, config
            for what, why in (("is run again", earlier.changed), ("has finished before", earlier.finished)):
                if why is not None:
                    say(f"{self.label(number)} {what}: {why}")
            if (outcome := earlier.outcome) is not None:
                self._outcomes[number] = outcome

    def _run_left(self, folder: Path) -> int:
        left = [number for number in range(len(self._jobs)) if number not in self._outcomes]
        try:
            jobs = [self._job(number) for number in left]
            outcomes = launcher.launch(self._request, jobs, folder) if jobs else []
        except launcher.Interrupted as stop:
            self._outcomes |= zip(left, stop.outcomes, strict=True)
            self._report(folder)
            say(f"{shlex.join(['embedrun', *sys.argv[1:]])} runs what is left")
            raise stop.stop from None
        self._outcomes |= zip(left, outcomes, strict=True)
        return self._report(folder)

    def _job(self, number: int) -> Job:
        job, resumed = self._jobs[number], self._before[number].unfinished
        new = Job(
            command=self._request.command,
            config=job.config,
            overrides=list(job.overrides),
            directory=job.directory,
            label=self.label(number),
            choices=job.choices,
        )
        if resumed is None:
            return new
        say(f"{new.label} resumes: {resumed}")
        # A run resumes with the models that it was found by, whatever finishes before its turn.
        return replace(new, config=self._configs[number], directory=None, resumed=str(resumed))

    def _result(self, number: int, job: Composed) -> Result:
        outcome, finished = self._outcomes[number], self._before[number].finished
        has_begun = outcome.error and outcome.code not in (USAGE, IN_USE) and outcome.error != WAITING
        if has_begun and outcome.directory is None:
            config = settled_as_begun(job.config, job.directory, hub.pinned)
            outcome = replace(outcome, directory=latest(config, job.directory))
        return result(number, job.overrides, job.config, outcome, before=finished is not None)

    def _report(self, folder: Path) -> int:
        """Print and write the summary; returns the exit code."""
        results = Results([self._result(number, job) for number, job in enumerate(self._jobs)])
        print(summary.text(results), flush=True)  # before it is written: the disk may be full
        summary.write(folder, self._request.command, self._hashes, results)
        say(f"summary: {folder / 'summary.md'}")
        if lines := summary.next_steps(results):
            print("\n".join(lines), flush=True)
        return 1 if any(job.state in (FAILED, STOPPED, WAITING) for job in results.jobs) else 0
