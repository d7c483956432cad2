"""What `embedrun reproduce --dry-run` says: the cells, and what those that are left cost."""

import json
from collections.abc import Sequence
from typing import Any

from embedrun.commands.compositions import Compositions
from embedrun.commands.cost import flops
from embedrun.commands.plan import TrainPlan, plan_train
from embedrun.commands.reproduce_tasks import Task
from embedrun.commands.shape import measured_size, shape_of
from embedrun.console import aligned
from embedrun.errors import ConfigError, DataError
from embedrun.store import Store
from embedrun.table.scale import Scale
from embedrun.training.order import Order


def listing(stages: Sequence[Sequence[Task]], scale: Scale | None) -> str:
    """A line for each cell: state, steps, and cost beside the cheapest of them.

    The cost is that of the training steps, about: passes of the rows through the weights, forward and back.

    Args:
        stages: of the table.
        scale: the reduced setting, or None.
    """
    tasks = [task for stage in stages for task in stage]
    counts: dict[str, int | None] = {}
    made = Compositions()
    found = [_work(task, made, counts) if task.is_open else (None, None, "") for task in tasks]
    least = min((work for _, work, _ in found if work), default=None)
    rows = [["row", "seed", "state", "steps", "cost"]]
    problems = []
    for task, (steps, work, problem) in zip(tasks, found, strict=True):
        cost = "-" if work is None or least is None else f"{work / least:.2g}"
        shown = "-" if steps is None else f"{steps:,}"
        rows.append([", ".join(task.labels), str(task.seed), task.slot.state, shown, cost])
        problems += [f"{task.label}: {problem}"] if problem else []
    open_ones = sum(task.is_open for task in tasks)
    reduced = [f"reduced setting {scale.name}: not a reproduction ({scale.title})"] if scale else []
    lines = [*reduced, aligned(rows, right=(1, 3, 4)), "", f"{len(tasks)} runs, {open_ones} to be made"]
    return "\n".join([*lines, *problems])


def _work(
    task: Task, made: Compositions, counts: dict[str, int | None]
) -> tuple[int | None, float | None, str]:
    """Steps, operations and a problem; None where they are not known."""
    if task.command == "evaluate":
        return None, None, ""
    try:
        plan = plan_train(made.config(task.command, task.overrides))
    except ConfigError as fault:
        return None, None, " ".join(str(fault).split())
    config, training = plan.config, plan.config.training
    rows = _rows(plan, counts)
    if rows is None:
        return training.max_steps, None, ""
    drawn = max(1, round(rows * training.data_fraction))
    order = Order(drawn, training.batch_size, training.accumulate, config.seed)
    steps = order.steps(training.epochs, training.max_steps)
    texts = steps * training.accumulate * min(training.batch_size, drawn) * len(plan.losses.passes)
    shape = shape_of(config.backbone)
    size = None if shape is None else measured_size(shape.config)
    work = None if shape is None or size is None else flops(config, size, shape, texts)
    return steps, work, ""


def _rows(plan: TrainPlan, counts: dict[str, int | None]) -> int | None:
    """How many training rows there are, where they are on this machine; each data set is read once."""
    options: Any = plan.config.dataset
    known = json.dumps([options, plan.config.data_dir], sort_keys=True)
    if known not in counts:
        try:
            counts[known] = len(plan.dataset.read("train", Store.find(plan.config.data_dir)))
        except (ConfigError, DataError):
            counts[known] = None
    return counts[known]
