"""What `embedrun reproduce --dry-run` prints: the cells, and the cost of those left to run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from embedrun.backbone.shape import measured_size, shape_of
from embedrun.config import TrainConfig
from embedrun.console import aligned, duration
from embedrun.errors import ConfigError, DataError
from embedrun.estimate.memory import precision
from embedrun.estimate.steps import batches, flops, processes_of, rate, tokens
from embedrun.experiment.plan import TrainPlan
from embedrun.rows import Rows
from embedrun.store import Store
from embedrun.study.reproduce.tasks import Known, Plans, Task
from embedrun.table.preset import RUN, Scale

_HEADING = ["row", "seed", "state", "steps", "operations", "time here"]


@dataclass(frozen=True)
class _Cost:
    """Cost of one run; None: unknown."""

    steps: int | None = None
    operations: float | None = None
    seconds: float | None = None


def listing(stages: Sequence[Sequence[Task]], plans: Plans, scale: Scale | None) -> str:
    """A line for each cell: its state and, where it is to be run, its steps and their cost.

    The cost is the estimate of `embedrun check` for the training steps, without scoring and evaluations.
    """
    tasks = [task for stage in stages for task in stage]
    counted = _Costs()
    costs = {
        task.known: counted.of(plan, _model(task, plan, plans))
        for task in tasks
        if isinstance(plan := plans.made.get(task.known), TrainPlan)
    }
    rows = [_HEADING, *(_line(task, costs, plans.refused) for task in tasks)]
    reduced = [f"reduced setting {scale.name}: not a reproduction ({scale.title})"] if scale else []
    runs = f"{len(tasks)} runs, {sum(task.is_open for task in tasks)} to run{_total(costs)}"
    problems = [f"{task.label}: {plans.refused[task.known]}" for task in tasks if task.known in plans.refused]
    return "\n".join([*reduced, aligned(rows, right=(1, 3, 4, 5)), "", runs, *problems])


def _line(task: Task, costs: Mapping[Known, _Cost], refused: Mapping[Known, str]) -> list[str]:
    cost = costs.get(task.known, _Cost())
    return [
        ", ".join(task.labels),
        str(task.seed),
        "refused" if task.known in refused else task.state,
        "-" if cost.steps is None else f"{cost.steps:,}",
        "-" if cost.operations is None else f"{cost.operations:.1e}".replace("e+", "e"),
        "-" if cost.seconds is None else duration(cost.seconds),
    ]


def _total(costs: Mapping[Known, _Cost]) -> str:
    known = [cost.seconds for cost in costs.values() if cost.seconds is not None]
    if not known:
        return ""
    part = "" if len(known) == len(costs) else f" of {len(known)} of them"
    return f"; about {duration(sum(known))} for the steps{part} on this machine at its best, often twice that"


def _model(task: Task, plan: TrainPlan, plans: Plans) -> str | None:
    """The model to start from; where that is a run yet to be made, the model which that run starts from."""
    name = plan.config.backbone.name or ""
    known = task.needs.get(name.removeprefix(RUN)) if name.startswith(RUN) else None
    if known is None:
        return plan.config.backbone.name
    first, there = plans.made.get(known), task.slot.needs[name.removeprefix(RUN)].run
    if isinstance(first, TrainPlan):
        return first.config.backbone.name
    return name if there is None else str(there.path)


class _Costs:
    """Reads each data set once."""

    def __init__(self) -> None:
        self._read: dict[str, Rows | None] = {}

    def of(self, plan: TrainPlan, model: str | None) -> _Cost:
        config = plan.config
        rows = self._rows(plan)
        if rows is None:
            return _Cost(config.training.max_steps)
        rows = rows.drawn(config.training.data_fraction, config.seed)
        try:
            shape = shape_of(replace(config.backbone, name=model))
            size = None if shape is None else measured_size(shape.config)
            found = batches(plan, rows, tokens(plan, rows, shape, size))
        except (ConfigError, DataError):  # a model or rows that cannot be read, which the run reports
            return _Cost(config.training.max_steps)
        if found.known is None:
            return _Cost(config.training.max_steps)
        steps, _ = found.known.steps(config.training)
        if shape is None or size is None:
            return _Cost(steps)
        total = steps * config.training.accumulate * found.usual * found.known.tokens.mean
        work = flops(config, size, shape, total, batch=found.usual)
        return _Cost(steps, work, _seconds(config, work))

    def _rows(self, plan: TrainPlan) -> Rows | None:
        """The training rows; None where they are not on this machine."""
        options: object = plan.config.dataset
        known = json.dumps([options, plan.config.data_dir], sort_keys=True)
        if known not in self._read:
            try:
                self._read[known] = plan.dataset.read("train", Store.find(plan.config.data_dir))
            except (ConfigError, DataError):
                self._read[known] = None
        return self._read[known]


def _seconds(config: TrainConfig, work: float) -> float | None:
    """Duration of this many operations on this machine; None where it lacks the CUDA that they need."""
    import torch

    kind, device = precision(config), config.gpu.device
    cuda = device != "cpu" and torch.cuda.is_available()
    if not cuda and (device == "cuda" or kind in ("tf32", "fp16")):
        return None
    return work / (rate("cuda" if cuda else "cpu", kind) * (processes_of(config) if cuda else 1))
