"""What `embedrun reproduce --dry-run` prints: the cells, and the cost of those left to run."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from embedrun.backbone.shape import Shape, Size, measured_size, shape_of
from embedrun.config import BackboneConfig, GpuConfig, TrainConfig
from embedrun.console import duration, fitted, room
from embedrun.errors import ConfigError, DataError
from embedrun.estimate.memory import precision, processes_of
from embedrun.estimate.scoring import Scored
from embedrun.estimate.steps import batches, dev_scores, flops, rate, span, tokens
from embedrun.experiment.notices import model_of
from embedrun.experiment.plan import EvaluatePlan, TrainPlan
from embedrun.experiment.scoring import Scorer, dev_scorer
from embedrun.experiment.selection import Divided, divided
from embedrun.store import Store
from embedrun.study.reproduce.tasks import Known, Plans, Task
from embedrun.table.preset import RUN, Scale

_HEADING = ["row", "seed", "state", "steps", "operations", "time here", "scoring here"]


@dataclass(frozen=True)
class _Cost:
    """Cost of one run; None: unknown. `operations` and `seconds` are those of the steps."""

    steps: int | None = None
    operations: float | None = None
    seconds: float | None = None
    scoring: float | None = None


def listing(stages: Sequence[Sequence[Task]], plans: Plans, scale: Scale | None) -> str:
    """A line for each cell: its state and, where it is to be run, its steps and their cost.

    The cost is the estimate of `embedrun check`, and of an evaluation that of its scoring.
    """
    tasks = [task for stage in stages for task in stage]
    counted = _Costs()
    costs = {
        task.known: counted.of(plan, _model(task, plan, plans))
        for task in tasks
        if (plan := plans.made.get(task.known)) is not None
    }
    rows = [_HEADING, *(_line(task, costs, plans.refused) for task in tasks)]
    reduced = [f"reduced setting {scale.name}: not a reproduction ({scale.title})"] if scale else []
    runs = f"{len(tasks)} runs, {sum(task.is_open for task in tasks)} to run{_total(costs)}"
    problems = [f"{task.label}: {plans.refused[task.known]}" for task in tasks if task.known in plans.refused]
    shown = fitted(rows, room(), right=(1, 3, 4, 5, 6))
    return "\n".join([*reduced, shown, "", runs, *problems])


def _line(task: Task, costs: Mapping[Known, _Cost], refused: Mapping[Known, str]) -> list[str]:
    cost = costs.get(task.known, _Cost())
    return [
        ", ".join(task.labels),
        str(task.seed),
        "refused" if task.known in refused else task.state,
        "-" if cost.steps is None else f"{cost.steps:,}",
        "-" if cost.operations is None else f"{cost.operations:.1e}".replace("e+", "e"),
        *("-" if seconds is None else duration(seconds) for seconds in (cost.seconds, cost.scoring)),
    ]


def _total(costs: Mapping[Known, _Cost]) -> str:
    parts = {
        "the steps": [cost.seconds for cost in costs.values()],
        "scoring": [cost.scoring for cost in costs.values()],
    }
    said = [
        f"{span(sum(known))} for {what}" + ("" if len(known) == len(costs) else f" of {len(known)} of them")
        for what, every in parts.items()
        if (known := [seconds for seconds in every if seconds is not None])
    ]
    return f"; about {' and '.join(said)} on this machine; the table has the shorter" if said else ""


def _backbone(plan: TrainPlan | EvaluatePlan) -> BackboneConfig:
    return plan.config.backbone if isinstance(plan, TrainPlan) else model_of(plan.config)


def _model(task: Task, plan: TrainPlan | EvaluatePlan, plans: Plans) -> str | None:
    """The model to start from; where that is a run yet to be made, the model which that run starts from."""
    name = _backbone(plan).name or ""
    known = task.needs.get(name.removeprefix(RUN)) if name.startswith(RUN) else None
    if known is None:
        return _backbone(plan).name
    first, there = plans.made.get(known), task.slot.needs[name.removeprefix(RUN)].run
    if isinstance(first, TrainPlan):
        return first.config.backbone.name
    return name if there is None else str(there.path)


class _Costs:
    """Reads each choice of data once."""

    def __init__(self) -> None:
        self._read: dict[str, Any] = {}

    def of(self, plan: TrainPlan | EvaluatePlan, model: str | None) -> _Cost:
        try:
            backbone = replace(_backbone(plan), name=model)
            shape = shape_of(backbone)
            size = None if shape is None else measured_size(shape.config)
            if isinstance(plan, EvaluatePlan):
                return _Cost(scoring=self._scoring(plan, backbone, shape, size))
            return self._of_training(plan, backbone, shape, size)
        except (ConfigError, DataError):  # a model or rows that cannot be read, which the run reports
            return _Cost(plan.config.training.max_steps if isinstance(plan, TrainPlan) else None)

    def _of_training(
        self, plan: TrainPlan, backbone: BackboneConfig, shape: Shape | None, size: Size | None
    ) -> _Cost:
        config = plan.config
        data = self._divided(plan) or self._divided(plan, with_dev=False)
        if data is None:
            return _Cost(config.training.max_steps)
        rows = data.train
        drawn = batches(plan, rows, tokens(plan, rows, shape, size))
        if drawn.known is None or drawn.known.tokens is None:
            return _Cost(config.training.max_steps)
        steps, _ = drawn.known.steps(config.training)
        if shape is None or size is None:
            return _Cost(steps)
        total = steps * config.training.accumulate * drawn.usual * drawn.known.tokens.mean
        work = flops(config, size, shape, total, batch=drawn.usual)
        count, _ = dev_scores(config, drawn.known, steps)
        seconds = _seconds(config.gpu, work, precision(config), processes_of(config))
        scoring = self._scoring(plan, backbone, shape, size, count)
        return _Cost(steps, work, seconds, scoring)

    def _scoring(
        self,
        plan: TrainPlan | EvaluatePlan,
        backbone: BackboneConfig,
        shape: Shape | None,
        size: Size | None,
        count: int | None = None,
    ) -> float | None:
        """Seconds of scoring; None where that is not known."""
        config = plan.config
        options = [config.evaluation.tasks]
        if isinstance(config, TrainConfig):
            options += [config.training.dev, config.training.dev_tasks]
        scored = self._once("scored", plan, options, lambda store: self._scored(plan, store))
        if scored is None or shape is None or size is None:
            return None
        work = scored.operations(backbone, config.evaluation, shape, size, dev_scores=count)
        return _seconds(config.gpu, work, config.evaluation.precision)

    def _divided(self, plan: TrainPlan, *, with_dev: bool = True) -> Divided | None:
        training = plan.config.training
        drawn_by = plan.config.seed if training.data_fraction < 1 else None
        decided_by = [training.dev, training.data_fraction, drawn_by]
        what = "rows" if with_dev else "training rows"
        return self._once(what, plan, decided_by, lambda store: divided(plan, store, with_dev=with_dev))

    def _scored(self, plan: TrainPlan | EvaluatePlan, store: Store) -> Scored | None:
        evaluation = plan.config.evaluation
        test = Scorer.read(plan.tasks, plan.dataset, store, evaluation)
        if isinstance(plan, EvaluatePlan):
            return Scored.by(test)
        found = self._divided(plan)
        return found and Scored.by(test, dev_scorer(plan.dev_tasks, found.dev, store, evaluation))

    def _once(
        self, what: str, plan: TrainPlan | EvaluatePlan, options: list[Any], read: Callable[[Store], Any]
    ) -> Any:
        """What is read of the data that the options choose; None where it is not on this machine."""
        known = json.dumps([what, plan.config.dataset, plan.config.data_dir, *options], sort_keys=True)
        if known not in self._read:
            try:
                self._read[known] = read(Store.find(plan.config.data_dir))
            except (ConfigError, DataError):
                self._read[known] = None
        return self._read[known]


def _seconds(gpu: GpuConfig, work: float, kind: str, processes: int = 1) -> float | None:
    """Duration of this many operations in a precision here; None where it lacks the CUDA that they need."""
    import torch

    cuda = gpu.device != "cpu" and torch.cuda.is_available()
    if not cuda and (gpu.device == "cuda" or kind in ("tf32", "fp16")):
        return None
    return work / (rate("cuda" if cuda else "cpu", kind) * (processes if cuda else 1))
