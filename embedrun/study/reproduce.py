"""The runs of a paper's table: which there are, what those left cost, and running them stage by stage."""

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from embedrun import estimate
from embedrun.backbone.shape import shape_of, size_of
from embedrun.config import BackboneConfig
from embedrun.config.compose import Compositions
from embedrun.config.request import Request
from embedrun.console import duration, fitted, room, say
from embedrun.errors import IN_USE, INTERRUPTED, TERMINATED, USAGE, ConfigError, DataError
from embedrun.experiment.amounts import processes_of
from embedrun.experiment.data import Fingerprints, divided
from embedrun.experiment.notices import model_of, notices
from embedrun.experiment.plan import EvaluatePlan, TrainPlan, plan_evaluate, plan_train
from embedrun.experiment.scoring import Scorer, dev_scorer
from embedrun.files import Plain
from embedrun.launch import launcher
from embedrun.launch.job import Job, latest, outcome_of, standing
from embedrun.runs.directory import Outcome
from embedrun.runs.search import changed, changes, configuration
from embedrun.store import Store
from embedrun.table.cells import MISSING, NOT_RUNNABLE, Cells, Measured, Seeds, Slot, label_of, referred
from embedrun.table.preset import KEY, RUN, Scale, Table

_NOT_STARTED = "not started"
Known = tuple[str, int]  # identity of a configuration, and seed


@dataclass(frozen=True)
class Task:
    """One run, for one cell of the table or for several.

    Args:
        labels: the rows that it is for, with their columns where these are several runs.
        slot: what exists of it.
        again: whether it is run although it has finished.
    """

    labels: tuple[str, ...]
    slot: Slot
    again: bool = False

    @property
    def known(self) -> Known:
        """What makes two cells one run."""
        return self.slot.key, self.slot.seed

    @property
    def needs(self) -> Mapping[str, Known]:
        """The runs that it starts from or scores, by the name after `run:`; of one that is not run, none."""
        return {name: (slot.key, slot.seed) for name, slot in self.slot.needs.items()} if self.is_open else {}

    @property
    def is_open(self) -> bool:
        """Whether it is to be run."""
        return self.again or self.slot.run is None

    @property
    def state(self) -> str:
        """`again`; of what no longer counts, its changed code or `other rows`; else the slot's state."""
        if self.again and self.slot.run is not None:
            return "again"
        if self.slot.state != MISSING or (old := self.slot.passed_over) is None:
            return self.slot.state
        return old.other_code or "other rows"

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{', '.join(self.labels)}, seed {self.slot.seed}"


def tasks_of(
    cells: Cells, table: Table, rows: Sequence[str], seeds: Seeds, *, again: bool = False
) -> list[list[Task]]:
    """The runs stage by stage: each needs only those of earlier stages.

    `cells` knows the existing runs that count. `rows` are the ids of the wanted rows; with `again`, their
    cells are run although they have finished.
    """
    wanted = replace(table, rows=[row for row in table.rows if row.id in rows])
    tasks: dict[Known, Task] = {}
    for slot in cells.find(wanted, seeds):
        if slot.state != NOT_RUNNABLE:
            before = tasks.get((slot.key, slot.seed))
            labels = (*(before.labels if before else ()), label_of(slot.row, slot.cell))
            tasks[slot.key, slot.seed] = Task(tuple(dict.fromkeys(labels)), slot, again)
    pending = list(tasks.values())
    while pending:  # what open ones need may have needs of its own, or be a row of the table
        task = pending.pop(0)
        for name, slot in task.slot.needs.items() if task.is_open else ():
            if (slot.key, slot.seed) not in tasks:
                tasks[slot.key, slot.seed] = first = Task((f"{RUN}{name}",), slot)
                pending.append(first)

    def depth(task: Task) -> int:
        return max((depth(tasks[known]) + 1 for known in task.needs.values()), default=0)

    stages: dict[int, list[Task]] = {}
    for task in tasks.values():
        stages.setdefault(depth(task), []).append(task)
    return [stages[number] for number in sorted(stages)]


class Plans:
    """The plans of the open tasks.

    `configs` have `run:NAME` for a run that does not exist yet, `choices` are the presets behind them,
    `made` are the checked plans, `refused` is why a task cannot be run, and `notices` is where the runs
    depart from the files of their models.
    """

    def __init__(
        self, stages: Sequence[Sequence[Task]], scale: Scale | None, config_dir: Path | None = None
    ) -> None:
        self.configs: dict[Known, Plain] = {}
        self.choices: dict[Known, dict[str, str]] = {}
        self.made: dict[Known, TrainPlan | EvaluatePlan] = {}
        self.refused: dict[Known, str] = {}
        self.notices: dict[str, None] = {}
        compositions = Compositions(config_dir)
        for task in (task for stage in stages for task in stage if task.is_open):
            known, command, overrides = task.known, task.slot.cell.command, task.slot.overrides
            try:
                config = compositions.config(command, overrides)
                if scale is not None:
                    config[KEY] = scale.name
                self.configs[known] = config
                self.choices[known] = compositions.choices(command, overrides)
                plan = self.made[known] = (plan_train if command == "train" else plan_evaluate)(config)
                with contextlib.suppress(DataError):  # the run reports it
                    self.notices |= dict.fromkeys(notices(plan.config, overrides))
            except ConfigError as fault:
                self.refused[known] = "; ".join(fault.problems)


class CurrentRows:
    """Compares runs with the current rows and models; each choice of data is read once.

    A `data_dir=` among the overrides of the command line says where the rows are now.
    """

    def __init__(self, overrides: Sequence[str]) -> None:
        given = (override.partition("=") for override in overrides)
        self._given = {key: value for key, _, value in given if key == "data_dir"}
        self._fingerprints = Fingerprints()

    def changed(self, run: Measured) -> list[str]:
        """The splits, by data set, and the models that have changed since a run read them; unknown: none."""
        try:
            config = {**configuration(run.path), **self._given}
        except ConfigError:
            return []  # unknown
        command = "train" if "training" in config else "evaluate"
        return changed(self._fingerprints.of(command, config), run.data)


_HEADING = ["row", "seed", "state", "steps", "operations", "time here", "scoring here"]
_Times = tuple[float | None, float | None]  # seconds of the steps and of scoring; None: not known


def listing(stages: Sequence[Sequence[Task]], plans: Plans, scale: Scale | None) -> str:
    """A line for each cell: its state and, where it is to be run, its steps and their cost.

    The cost is the estimate of `embedrun check`, and of an evaluation that of its scoring.
    """
    tasks = [task for stage in stages for task in stage]
    data: dict[str, Any] = {}
    rows, times = [_HEADING], []
    for task in tasks:
        cells = ["-"] * 4
        if (plan := plans.made.get(task.known)) is not None:
            cost = _cost(plan, _model(task, plan, plans), data)
            times.append(_seconds(plan, cost))
            cells = _priced(cost, times[-1])
        state = "refused" if task.known in plans.refused else task.state
        rows.append([", ".join(task.labels), str(task.slot.seed), state, *cells])
    reduced = [] if scale is None else [f"reduced setting {scale.name}: not a reproduction ({scale.title})"]
    table = fitted(rows, room(), right=(1, 3, 4, 5, 6))
    count = f"{len(tasks)} runs, {sum(task.is_open for task in tasks)} to run{_in_all(times)}"
    refused = [f"{task.label}: {plans.refused[task.known]}" for task in tasks if task.known in plans.refused]
    return "\n".join([*reduced, table, "", count, *refused])


def _priced(cost: estimate.Cost, times: _Times) -> list[str]:
    return [
        f"{cost.steps:,}" if cost.steps else "-",
        f"{cost.operations:.1e}".replace("e+", "e") if cost.operations else "-",
        *("-" if time is None else duration(time) for time in times),
    ]


def _in_all(times: Sequence[_Times]) -> str:
    totals = []
    for what, place in (("the steps", 0), ("scoring", 1)):
        known = [seconds for run_times in times if (seconds := run_times[place]) is not None]
        if known:
            of_them = "" if len(known) == len(times) else f" of {len(known)} of them"
            totals.append(f"{estimate.span(sum(known))} for {what}{of_them}")
    return f"; about {' and '.join(totals)} on this machine; the table has the shorter" if totals else ""


def _backbone(plan: TrainPlan | EvaluatePlan) -> BackboneConfig:
    return plan.config.backbone if isinstance(plan, TrainPlan) else model_of(plan.config)


def _model(task: Task, plan: TrainPlan | EvaluatePlan, plans: Plans) -> str | None:
    """The model to start from; where that is a run yet to be made, the model which that run starts from."""
    name = _backbone(plan).name or ""
    known = task.needs.get(name.removeprefix(RUN)) if name.startswith(RUN) else None
    if known is None:
        return _backbone(plan).name
    first, existing = plans.made.get(known), task.slot.needs[name.removeprefix(RUN)].run
    if isinstance(first, TrainPlan):
        return first.config.backbone.name
    return name if existing is None else str(existing.path)


def _cost(plan: TrainPlan | EvaluatePlan, model: str | None, data: dict[str, Any]) -> estimate.Cost:
    """The cost of a run from this model, as far as known; `data` keeps what was read, by its options."""
    config, backbone = plan.config, replace(_backbone(plan), name=model)
    cost = estimate.Cost(plan.config.training.max_steps or 0 if isinstance(plan, TrainPlan) else 0)
    try:
        shape = shape_of(backbone)
        size = None if shape is None else size_of(shape.config)
        if isinstance(plan, TrainPlan):
            rows = _once(data, "rows", plan, lambda store: divided(plan, store, with_dev=False))
            known = estimate.batches(plan, rows, estimate.row_tokens(plan, rows.train, shape, size))
            cost = estimate.Cost.of(plan.config, known, shape, size)
        scored = _once(data, "scored", plan, lambda store: _scored(plan, store))
        if shape is None or size is None:
            return cost
        count = cost.dev_scores if isinstance(plan, TrainPlan) else None
        scoring = scored.operations(backbone, config.evaluation, shape, size, dev_scores=count)
        return replace(cost, scoring=scoring)
    except (ConfigError, DataError):
        return cost


def _seconds(plan: TrainPlan | EvaluatePlan, cost: estimate.Cost) -> _Times:
    config, steps, scoring = plan.config, None, None
    if cost.operations is not None and isinstance(plan, TrainPlan):
        kind, processes = estimate.precision(plan.config.gpu), processes_of(plan.config)
        steps = estimate.seconds(config.gpu.device, cost.operations, kind, processes)
    if cost.scoring is not None:
        scoring = estimate.seconds(config.gpu.device, cost.scoring, config.evaluation.precision)
    return steps, scoring


def _once(
    data: dict[str, Any], what: str, plan: TrainPlan | EvaluatePlan, read: Callable[[Store], Any]
) -> Any:
    config = plan.config
    options: list[Any] = [what, config.dataset, config.data_dir, config.evaluation.tasks]
    if isinstance(plan, TrainPlan):
        training = plan.config.training
        drawn_by = config.seed if training.data_fraction < 1 else None
        options += [training.dev, training.dev_tasks, training.data_fraction, drawn_by]
    key = json.dumps(options, sort_keys=True)
    if key not in data:
        data[key] = read(Store.find(config.data_dir))
    return data[key]


def _scored(plan: TrainPlan | EvaluatePlan, store: Store) -> estimate.Scored:
    test = Scorer.read(plan.tasks, plan.dataset, store, plan.config.evaluation)
    if isinstance(plan, EvaluatePlan):
        return estimate.Scored.by(test)
    dev = divided(plan, store).dev
    return estimate.Scored.by(test, dev_scorer(plan.dev_tasks, dev, store, plan.config.evaluation))


class Reproduction:
    """What has been run, and how it ended.

    `hydra` are overrides for the launcher; `again` is whether finished cells are run again, from scratch;
    `folder` is for the output of cells that run in parallel.
    """

    def __init__(
        self, plans: Plans, rows: CurrentRows, folder: Path, *, hydra: Sequence[str], again: bool
    ) -> None:
        self._plans, self._rows, self._folder = plans, rows, folder
        self._hydra, self._again = tuple(hydra), again
        self._outcomes: dict[Known, Outcome] = {}
        self._tasks: list[Task] = []

    @property
    def failed(self) -> bool:
        """Whether any cell ended without a result."""
        return any(outcome.error for outcome in self._outcomes.values())

    def run(self, stage: Sequence[Task]) -> None:
        """Run the unfinished tasks of one stage; `launcher.Interrupted` on a signal, once they have ended."""
        self._tasks += stage
        jobs: dict[str, list[tuple[Task, Job]]] = {}
        for task in stage:
            job = self._job(task)
            if isinstance(job, Outcome):
                self._outcomes[task.known] = job
            else:
                jobs.setdefault(task.slot.cell.command, []).append((task, job))
        for command, task_jobs in jobs.items():
            request = Request(command, self._hydra)
            try:
                jobs_left = [job for _, job in task_jobs]
                outcomes = launcher.launch(request, jobs_left, self._folder, alone=not self._again)
            except launcher.Interrupted as stop:
                self._note(task_jobs, stop.outcomes)
                raise
            self._note(task_jobs, outcomes)

    def listing(self) -> str:
        """A line for each cell, with its state, score and run directory; then the problems."""
        rows = [["row", "seed", "state", "score", "run directory"]]
        problems = []
        for task in self._tasks:
            outcome = self._outcomes.get(task.known, Outcome(error=_NOT_STARTED, code=1))
            state = _state(outcome) if task.is_open else "finished before"
            score = _score(outcome.main or {})
            rows.append([", ".join(task.labels), str(task.slot.seed), state, score, outcome.directory or "-"])
            if outcome.error and outcome.error != state:
                problems.append(f"{task.label}: {' '.join(outcome.error.split())}")
        shown = fitted(rows, room(sys.stderr), right=(1,))
        return "\n".join([shown, *(["", *problems] if problems else [])])

    def _job(self, task: Task) -> Job | Outcome:
        """What to run; the outcome where it has finished or cannot be run."""
        slot = task.slot
        if task.again:  # as if nothing of it existed
            slot = replace(slot, run=None, unfinished=None, passed_over=None)
        if slot.run is not None:
            return outcome_of(slot.run.path)
        if task.known in self._plans.refused:
            return Outcome(error=self._plans.refused[task.known], code=USAGE)
        if slot.unfinished is not None:
            return self._resumed(task, slot.unfinished.path)
        places = {name: self._directory(known) for name, known in task.needs.items()}
        if None in places.values():
            name = next(name for name, place in places.items() if place is None)
            problem = f"{RUN}{name} with seed {slot.seed}, which it starts from, has not finished"
            return Outcome(error=problem, code=1)
        if (old := slot.passed_over) is not None:
            why = old.other_code or changes(self._rows.changed(old)) or "what it starts from has changed"
            say(f"{task.label} is run again: {why} since {old.path}")
        config, choices = self._plans.configs[task.known], self._plans.choices[task.known]
        config = referred(config, {f"{RUN}{name}": place for name, place in places.items()}.get)
        return Job(slot.cell.command, config, list(slot.overrides), label=task.label, choices=choices)

    def _directory(self, known: Known) -> str | None:
        run = self._outcomes.get(known)
        if run is None or run.directory is None or run.error:
            return None
        return str(Path(run.directory).resolve())

    def _resumed(self, task: Task, path: Path) -> Job | Outcome:
        """The job that resumes an unfinished run, with the configuration that it began with."""
        before, label = standing(path), f"{task.label}, resumes: {path}"
        if before.fault is not None:
            return Outcome(str(path), error=before.fault, code=before.code)
        command, overrides = task.slot.cell.command, list(task.slot.overrides)
        return Job(command, configuration(path), overrides, resumed=str(path), label=label)

    def _note(self, task_jobs: Sequence[tuple[Task, Job]], outcomes: Sequence[Outcome]) -> None:
        for (task, job), outcome in zip(task_jobs, outcomes, strict=True):
            if outcome.error and outcome.directory is None and outcome.error != _NOT_STARTED:
                outcome = replace(outcome, directory=job.resumed or latest(job.config, None))
            self._outcomes[task.known] = outcome


def _state(outcome: Outcome) -> str:
    if not outcome.error:
        return "finished"
    if outcome.error == _NOT_STARTED:
        return outcome.error
    states = {IN_USE: "in use", INTERRUPTED: "interrupted", TERMINATED: "interrupted"}
    return states.get(outcome.code, "failed")


def _score(main: Plain) -> str:
    value = main.get("value")
    return f"{main.get('name')} {value:.2f}" if isinstance(value, int | float) else "-"
