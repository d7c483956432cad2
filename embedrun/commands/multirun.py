"""Several runs from one command line: all checked first, then launched by Hydra, one process each."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from embedrun.commands import launch as launching
from embedrun.commands import sweep_summary
from embedrun.commands.job import Job
from embedrun.commands.launch_before import Before, before, latest, outcome_of
from embedrun.commands.launch_plugins import plugin
from embedrun.commands.sweep_place import SweepPlace, goes_on, scratch
from embedrun.commands.sweep_results import FAILED, STOPPED, WAITING, Results, result
from embedrun.config.compose import Composed, Request, composed, loosened, sweep, task_overrides
from embedrun.console import say
from embedrun.errors import IN_USE, USAGE, ConfigError
from embedrun.experiment.data import Fingerprints
from embedrun.runs.directory import Outcome
from embedrun.runs.search import settled_as_begun, settled_for

_OF_RUNS = ("train", "evaluate")  # commands whose jobs leave run directories


def launch(request: Request) -> int:
    """Run every job that has not finished before; one that fails leaves the others running.

    Returns:
        1 if any failed.

    Raises:
        ConfigError: if no job has a configuration that can run, or two would share a run directory.
        KeyboardInterrupt: on a signal, once the running jobs have saved and ended; no other is started.
    """
    if any(override.lstrip("+").startswith("hydra.run.dir=") for override in request.overrides):
        raise ConfigError("hydra.run.dir: names the directory of one run; with -m, give hydra.sweep.dir")
    plugin(request.overrides)
    jobs = [composed(request, overrides, job=number) for number, overrides in enumerate(sweep(request))]
    multirun = _Multirun(request, jobs)
    multirun.check_places()
    refused = _refused(request, jobs)
    for number, fault in refused.items():
        say(f"{multirun.label(number)} will not run: {fault}")
    if len(refused) == len(jobs):
        raise ConfigError(
            [problem for fault in refused.values() for problem in dict.fromkeys(fault.problems)]
        )
    return multirun.run({number: Outcome(error=str(fault), code=USAGE) for number, fault in refused.items()})


class _Multirun:
    """The jobs of one command line, and what is known of them.

    Args:
        request: the command line.
        jobs: composed.
    """

    def __init__(self, request: Request, jobs: Sequence[Composed]) -> None:
        self._request, self._jobs = request, jobs
        self._leaves_runs = request.command in _OF_RUNS
        self._place = SweepPlace(request, jobs, leaves_runs=self._leaves_runs)
        self._before: dict[int, Before] = {}
        self._configs: dict[int, dict[str, Any]] = {}  # settled, of the same
        self._shared = set.intersection(*(set(job.overrides) for job in jobs))

    def check_places(self) -> None:
        """Refuse run directories that are taken or shared.

        Raises:
            ConfigError: naming each.
        """
        self._place.check()

    def label(self, number: int) -> str:
        """What tells a job from the others."""
        own = [one for one in self._jobs[number].overrides if one not in self._shared]
        return f"job {number} ({' '.join(own)})" if own else f"job {number}"

    def run(self, ended: dict[int, Outcome]) -> int:
        """Run the jobs that are left, and say how all have ended.

        Args:
            ended: the jobs that cannot run, and why.

        Raises:
            EmbedrunError: exit 8, if another multirun writes into the folder.
        """
        if not self._leaves_runs:
            return self._run_left(ended, None)
        # What another multirun does in this folder would be taken for what an earlier one has left.
        with self._place.held() as folder:
            self._look_back(ended)
            sweep_summary.begin(folder, self._request.command, self._place.hashes)
            return self._run_left(ended, folder)

    def _run_left(self, ended: dict[int, Outcome], folder: Path | None) -> int:
        left = self._left(ended)
        try:
            ended |= self._launch(left, folder) if left else {}
        except launching.Interrupted as stop:
            ended |= dict(zip(left, stop.outcomes, strict=True))
            self._report(ended, folder)
            if folder is not None:
                say(f"{shlex.join(['embedrun', *sys.argv[1:]])} goes on with what is left")
            raise stop.stop from None
        return self._report(ended, folder)

    def _look_back(self, ended: dict[int, Outcome]) -> None:
        """Find out what earlier attempts have left of each job that can run."""
        fingerprints, taken = Fingerprints(), set()
        for number, job in enumerate(self._jobs):
            if number in ended or (self._request.again and job.directory is None):
                continue
            config = settled_for(job.config, None)
            found = before(self._request.command, config, job.directory, fingerprints)
            if found.unfinished is not None and found.unfinished in taken:
                continue  # of another job with this configuration
            if found.fault is not None and goes_on(job.config):
                continue  # the job itself decides
            taken.add(found.unfinished)
            self._before[number], self._configs[number] = found, config
            if found.fault is not None:
                ended[number] = Outcome(error=found.fault, code=found.code)
            elif found.finished is not None:
                say(f"{self.label(number)} has finished before: {found.finished}")
                ended[number] = outcome_of(found.finished)

    def _left(self, ended: Mapping[int, Outcome]) -> list[int]:
        return [number for number in range(len(self._jobs)) if number not in ended]

    def _launch(self, left: Sequence[int], folder: Path | None) -> dict[int, Outcome]:
        """Run some jobs."""
        own = [self._job(number) for number in left]
        with scratch() if folder is None else nullcontext(folder) as place:
            return dict(zip(left, launching.launch(self._request, own, place), strict=True))

    def _job(self, number: int) -> Job:
        job, found = self._jobs[number], self._before.get(number)
        resumed = None if found is None or found.unfinished is None else str(found.unfinished)
        if resumed is not None:
            say(f"{self.label(number)} goes on: {resumed}")
        return Job(
            command=self._request.command,
            # A run goes on with the models that it was found by, whatever finishes before its turn.
            config=job.config if resumed is None else self._configs[number],
            overrides=list(job.overrides),
            directory=None if resumed is not None else job.directory,
            resumed=resumed,
            # A key that only a refused job lacks must not stop Hydra from going through the others.
            launched=task_overrides(loosened(self._request, job.overrides)),
            label=self.label(number),
        )

    def _report(self, ended: Mapping[int, Outcome], folder: Path | None = None) -> int:
        """Print and write the summary."""
        found = []
        for number, job in enumerate(self._jobs):
            outcome = ended[number]
            known = self._before.get(number)
            begun = outcome.error and outcome.code not in (USAGE, IN_USE) and outcome.error != WAITING
            if folder is not None and begun and outcome.directory is None:
                place = latest(settled_as_begun(job.config, job.directory), job.directory)
                outcome = Outcome(place, outcome.main, outcome.error, outcome.code)
            was = known is not None and known.finished is not None
            found.append(result(number, job.overrides, job.config, outcome, before=was))
        results = Results(found)
        try:
            print(sweep_summary.text(results), flush=True)  # first: the disk may be full
        finally:  # nobody may read what is printed
            if folder is not None:
                sweep_summary.write(folder, self._request.command, self._place.hashes, results)
                say(f"summary: {folder / 'summary.md'}")
        bad = (FAILED, STOPPED, WAITING)
        return 1 if any(job.state in bad for job in results.jobs) else 0


def _refused(request: Request, jobs: Sequence[Composed]) -> dict[int, ConfigError]:
    """The jobs whose configuration is wrong, by number."""
    from embedrun.commands.generate_plan import plan_generate
    from embedrun.experiment.plan import plan_annotate, plan_evaluate, plan_train

    check = {
        "train": plan_train,
        "evaluate": plan_evaluate,
        "annotate": plan_annotate,
        "generate": plan_generate,
    }[request.root]
    refused = {}
    for number, job in enumerate(jobs):
        try:
            check(job.config)
        except ConfigError as fault:
            refused[number] = fault
    return refused
