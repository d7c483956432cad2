"""Evaluation tasks: options to instances, with what is wrong noted and nothing read."""

from collections.abc import Mapping
from typing import Any

from embedrun.config import Checker
from embedrun.evaluation.heldout import Heldout
from embedrun.family import build, family_name, without

_DEV_TASKS = "training.dev_tasks"
_WITH_DEV_SCORES = ("senteval",)


def plan_tasks(
    checker: Checker,
    tasks: Any,
    dataset: Any,
    where: str = "evaluation.tasks",
    *,
    beside: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The evaluation tasks by name; notes what is wrong with them.

    Args:
        checker: collects the faults.
        tasks: options by name, as composed; nothing but a mapping is looked at.
        dataset: the run's own, or None.
        where: the option that they are of.
        beside: tasks that are scored with them, whose keys they may not have, by what a person calls them.
    """
    if not isinstance(tasks, Mapping):
        return {}  # the schema has said so
    built: dict[str, Any] = {}
    taken: dict[Any, str] = {}  # path of the task, by what says which keys its scores have
    for name, task in (beside or {}).items():
        _own_keys(checker, name, task, taken)
    for key, options in tasks.items():
        path = f"{where}.{key}"
        if not isinstance(options, Mapping):
            checker.problems.append(f"{path}: expected a mapping of options, got {options!r}")
            continue
        task = build(checker, "evaluation", options.get("name", key), without(options, "name"), path)
        if task is None:
            continue
        built[key] = task
        _own_keys(checker, path, task, taken)
        for source in task.sources().values():
            if source.dataset is None:
                _own_split(checker, path, dataset, source.split)
    return built


def plan_dev_tasks(checker: Checker, tasks: Any, dataset: Any) -> dict[str, Any]:
    """The tasks of `training.dev_tasks`, by name; one that would score on test rows alone is noted.

    SentEval, which gives scores on dev rows beside those on test rows, is taken; the caller leaves out the
    others.

    Args:
        checker: collects the faults.
        tasks: options by name, as composed.
        dataset: the run's own, or None.
    """
    beside = {"the data set's own dev split": Heldout(split="dev")}
    built = plan_tasks(checker, tasks, dataset, _DEV_TASKS, beside=beside)
    for name, task in built.items():
        sources = task.sources()
        tests = sorted({source.split for source in sources.values()} & {"test"})
        if not sources or (tests and family_name(task) not in _WITH_DEV_SCORES):
            what = "reads test rows" if sources else "brings rows of its own, which may be test rows"
            checker.problems.append(
                f"{_DEV_TASKS}.{name}: {what}, and a test set never selects a checkpoint; take a task with "
                "split: dev (heldout, geometry, retrieval), or senteval, of which only the dev scores count"
            )
    return built


def _own_keys(checker: Checker, path: str, task: Any, taken: dict[Any, str]) -> None:
    """Note a task whose scores would stand under the keys of another."""
    from embedrun.evaluation.pieces import pieces  # with torch, which the task itself has brought

    kind = (type(task), getattr(task, "protocol", None), getattr(task, "split", None))
    for piece in pieces(task):
        other = taken.setdefault((kind, piece), path)
        if other != path:
            checker.problems.append(
                f"{path}: gives its scores the keys of {other}; evaluate them in two runs"
            )
            return


def graded(dataset: Any, split: str) -> bool:
    """Whether the split's rows are pairs with a `score`, whatever form the training rows have."""
    graded = "score" in dataset.targets or split in getattr(dataset, "graded", ())
    return graded and split in dataset.splits


def _own_split(checker: Checker, path: str, dataset: Any, split: str) -> None:
    if dataset is None:
        if not any(problem.startswith("dataset") for problem in checker.problems):
            checker.problems.append(f"{path}: scores the data set's own split; choose dataset=...")
        return
    name = family_name(dataset)
    if split not in dataset.splits:
        given = ", ".join(dataset.splits)
        other = next((own for own in ("test", "dev") if own in dataset.splits), None)
        way = f"{path}.split={other}" if other and graded(dataset, other) else "evaluation=sts"
        checker.problems.append(
            f"{path}: dataset={name} has no {split} split (it has: {given}); choose {way}"
        )
    elif not graded(dataset, split):
        checker.problems.append(f"{path}: dataset={name} has no score to compare with; choose evaluation=sts")
