"""The cells of a table through a launcher, stage by stage, with what became of each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedrun.commands import launch
from embedrun.commands.arguments import Request
from embedrun.commands.compositions import Compositions
from embedrun.commands.job import Job
from embedrun.commands.launch_before import data_of, latest, outcome_of, standing
from embedrun.commands.launch_data import Fingerprints
from embedrun.commands.outcome import Outcome
from embedrun.commands.plan import plan_evaluate, plan_train
from embedrun.commands.reproduce_arguments import Arguments
from embedrun.commands.reproduce_tasks import Known, Task, place_of, refer
from embedrun.commands.unfinished import configuration
from embedrun.console import aligned, say
from embedrun.errors import INTERRUPTED, TERMINATED, USAGE, ConfigError
from embedrun.table.scale import KEY


class Reproduction:
    """What has been run, and how it ended.

    Args:
        arguments: of the command line.
        folder: for what cells print that run at the same time.
    """

    def __init__(self, arguments: Arguments, folder: Path) -> None:
        self._arguments, self._folder = arguments, folder
        self._fingerprints, self._compositions = Fingerprints(), Compositions()
        self._ended: dict[Known, Outcome] = {}
        self._states: dict[Known, str] = {}
        self._tasks: list[Task] = []

    @property
    def failed(self) -> bool:
        """Whether any cell has no result."""
        return any(outcome.error for outcome in self._ended.values())

    def run(self, stage: Sequence[Task]) -> None:
        """Run the tasks of one stage that are not finished.

        Raises:
            launch.Interrupted: on a signal, once the running ones have saved and ended.
        """
        self._tasks += stage
        jobs: dict[str, list[tuple[Task, Job]]] = {}
        for task in stage:
            if (job := self._job(task)) is not None:
                jobs.setdefault(task.command, []).append((task, job))
        for command, own in jobs.items():
            request = Request(command, self._arguments.hydra)
            try:
                outcomes = launch.launch(request, [job for _, job in own], self._folder)
            except launch.Interrupted as stop:
                self._note(own, stop.outcomes)
                raise
            self._note(own, outcomes)

    def listing(self) -> str:
        """A line for each cell: what became of it, and where."""
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
        return "\n".join([aligned(rows, right=(1,)), *(["", *problems] if problems else [])])

    def _job(self, task: Task) -> Job | None:
        """What to run; None where it has finished or cannot be run, which is noted."""
        done = None if task.again else place_of(task.slot)
        if done is not None and not self._on_other_rows(task, done):
            self._ended[task.known] = outcome_of(done)
            self._states[task.known] = "finished before"
            return None
        try:
            return self._resumed(task, done) or self._new(task)
        except ConfigError as fault:
            self._ended[task.known] = Outcome(error=str(fault), code=USAGE)
            return None

    def _on_other_rows(self, task: Task, done: Path) -> bool:
        config = configuration(done)
        given = [one for one in self._arguments.overrides if one.startswith("data_dir=")]
        if given:
            config["data_dir"] = given[-1].partition("=")[2]
        changed = self._fingerprints.changed(task.command, config, data_of(done))
        if changed:
            say(f"{task.label}: {done} has read other rows of {', '.join(changed)}; it is run again")
        return bool(changed)

    def _resumed(self, task: Task, done: Path | None) -> Job | None:
        """The unfinished run to go on with, with the configuration that it began with."""
        open_one = task.slot.unfinished
        if open_one is None or done is not None or task.again:
            return None
        path = open_one.path
        if not (path / "config.yaml").is_file():
            return None  # killed before it had begun
        found = standing(path)
        if found.fault is not None:
            raise ConfigError(found.fault)
        config = configuration(path)
        overrides, label = list(task.overrides), f"{task.label}, goes on: {path}"
        return Job(task.command, config, overrides, resumed=str(path), launched=overrides, label=label)

    def _new(self, task: Task) -> Job | None:
        places = {}
        for name, known in task.needs.items():
            first = self._ended.get(known)
            if first is None or first.directory is None or first.error:
                problem = f"run:{name} with seed {task.seed}, which it starts from, has not finished"
                self._ended[task.known] = Outcome(error=problem, code=1)
                return None
            places[name] = str(Path(first.directory).resolve())
        overrides = list(task.overrides)
        config: dict[str, Any] = self._compositions.config(task.command, overrides)
        if self._arguments.scale is not None:
            config[KEY] = self._arguments.scale.name
        config = refer(config, places)
        (plan_train if task.command == "train" else plan_evaluate)(config)
        return Job(task.command, config, overrides, launched=overrides, label=task.label)

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
        return "interrupted" if outcome.code in (INTERRUPTED, TERMINATED) else "failed"


def _score(outcome: Outcome) -> str:
    main = outcome.main or {}
    value = main.get("value")
    return f"{main.get('name')} {value:.2f}" if isinstance(value, int | float) else "-"
