"""Run the cells of a table through a launcher, stage by stage, and record how each ended."""

import sys
from collections.abc import Sequence
from pathlib import Path

from embedrun.config.request import Request
from embedrun.console import fitted, room, say
from embedrun.errors import IN_USE, INTERRUPTED, TERMINATED, USAGE
from embedrun.launch import launcher
from embedrun.launch.before import latest, outcome_of, standing
from embedrun.launch.job import Job
from embedrun.runs.directory import Outcome
from embedrun.runs.search import changes, configuration
from embedrun.study.reproduce.tasks import Arguments, Known, Plans, RowsOfNow, Task
from embedrun.table.cells import referred
from embedrun.table.preset import RUN


class Reproduction:
    """What has been run, and how it ended; `folder` is for the output of cells that run in parallel."""

    def __init__(self, arguments: Arguments, folder: Path, plans: Plans, rows: RowsOfNow) -> None:
        self._arguments, self._folder, self._plans, self._rows = arguments, folder, plans, rows
        self._ended: dict[Known, Outcome] = {}
        self._states: dict[Known, str] = {}
        self._tasks: list[Task] = []

    @property
    def failed(self) -> bool:
        """Whether any cell ended without a result."""
        return any(outcome.error for outcome in self._ended.values())

    def run(self, stage: Sequence[Task]) -> None:
        """Run the unfinished tasks of one stage.

        Raises:
            launcher.Interrupted: on a signal, once the running ones have saved and ended.
        """
        self._tasks += stage
        jobs: dict[str, list[tuple[Task, Job]]] = {}
        for task in stage:
            if (job := self._job(task)) is not None:
                jobs.setdefault(task.command, []).append((task, job))
        for command, own in jobs.items():
            request = Request(command, self._arguments.hydra)
            try:
                outcomes = launcher.launch(
                    request, [job for _, job in own], self._folder, alone=not self._arguments.again
                )
            except launcher.Interrupted as stop:
                self._note(own, stop.outcomes)
                raise
            self._note(own, outcomes)

    def is_left(self, task: Task) -> bool:
        """Whether a task has no result."""
        return task.known not in self._ended or self._ended[task.known].error is not None

    def listing(self) -> str:
        """A line for each cell, with its state, score and run directory; then the problems."""
        rows = [["row", "seed", "state", "score", "run directory"]]
        problems = []
        for task in self._tasks:
            outcome = self._ended.get(task.known, Outcome(error="not started", code=1))
            state = self._state(task, outcome)
            rows.append(
                [", ".join(task.labels), str(task.seed), state, _score(outcome), outcome.directory or "-"]
            )
            if outcome.error and outcome.error != state:
                problems.append(f"{task.label}: {' '.join(outcome.error.split())}")
        shown = fitted(rows, room(sys.stderr), right=(1,))
        return "\n".join([shown, *(["", *problems] if problems else [])])

    def _job(self, task: Task) -> Job | None:
        """What to run; None where it has finished or cannot be run, which is recorded."""
        done = None if task.again else task.slot.run
        if done is not None:
            self._ended[task.known] = outcome_of(done.path)
            self._states[task.known] = "finished before"
            return None
        if task.known in self._plans.refused:
            self._ended[task.known] = Outcome(error=self._plans.refused[task.known], code=USAGE)
            return None
        if task.slot.unfinished is not None and not task.again:
            return self._resumed(task, task.slot.unfinished.path)
        return self._new(task)

    def _resumed(self, task: Task, path: Path) -> Job | None:
        """The job that resumes an unfinished run, with the configuration that it began with."""
        found = standing(path)
        if found.fault is not None:
            self._ended[task.known] = Outcome(str(path), error=found.fault, code=found.code)
            return None
        overrides, label = list(task.overrides), f"{task.label}, resumes: {path}"
        return Job(
            task.command,
            configuration(path),
            overrides,
            resumed=str(path),
            label=label,
        )

    def _new(self, task: Task) -> Job | None:
        places = {}
        for name, known in task.needs.items():
            first = self._ended.get(known)
            if first is None or first.directory is None or first.error:
                problem = f"{RUN}{name} with seed {task.seed}, which it starts from, has not finished"
                self._ended[task.known] = Outcome(error=problem, code=1)
                return None
            places[f"{RUN}{name}"] = str(Path(first.directory).resolve())
        self._tell_why(task)
        config = referred(self._plans.configs[task.known], places.get)
        overrides = list(task.overrides)
        choices = self._plans.choices[task.known]
        return Job(task.command, config, overrides, label=task.label, choices=choices)

    def _tell_why(self, task: Task) -> None:
        """Report a run that no longer counts, and why."""
        old = task.slot.passed_over
        if old is None or task.again:
            return
        why = old.other_code or changes(self._rows.changed(old)) or "what it starts from has changed"
        say(f"{task.label} is run again: {why} since {old.path}")

    def _note(self, own: Sequence[tuple[Task, Job]], outcomes: Sequence[Outcome]) -> None:
        for (task, job), outcome in zip(own, outcomes, strict=True):
            place = outcome.directory
            if outcome.error and place is None and outcome.error != "not started":
                place = job.resumed or latest(job.config, None)
            self._ended[task.known] = Outcome(place, outcome.main, outcome.error, outcome.code)

    def _state(self, task: Task, outcome: Outcome) -> str:
        if not outcome.error:
            return self._states.get(task.known, "finished")
        if outcome.error == "not started":
            return outcome.error
        if outcome.code == IN_USE:
            return "in use"
        return "interrupted" if outcome.code in (INTERRUPTED, TERMINATED) else "failed"


def _score(outcome: Outcome) -> str:
    main = outcome.main or {}
    value = main.get("value")
    return f"{main.get('name')} {value:.2f}" if isinstance(value, int | float) else "-"
