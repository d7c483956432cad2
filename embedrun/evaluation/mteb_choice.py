"""Which tasks of the mteb package are scored, and on which of their rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from embedrun.config import nearest
from embedrun.evaluation.mteb_isolation import isolated, package


@dataclass(frozen=True)
class Choice:
    """One task and what of it is scored.

    Args:
        name: of the task, as mteb spells it.
        category: its type there: Classification, Clustering, STS ...
        metric: that its score is.
        splits: of its data set.
        subsets: of its data set, languages as a rule.
        parts: the tasks that it is the mean of, as CQADupstackRetrieval of 12 forums; else empty.
    """

    name: str
    category: str
    metric: str
    splits: tuple[str, ...]
    subsets: tuple[str, ...]
    parts: tuple["Choice", ...] = ()

    @property
    def key(self) -> str:
        """Of its score."""
        return f"mteb/{self.name}/{self.metric}"

    def task(self) -> Any:
        """A new mteb task; must be called within `isolated`."""
        return package().get_task(self.name, eval_splits=list(self.splits), hf_subsets=list(self.subsets))


def by_name(
    names: Sequence[str], splits: Sequence[str] | None, languages: Sequence[str] | None
) -> list[Choice]:
    """The named tasks, each once.

    Args:
        names: as mteb spells them.
        splits: of every data set; None for ``test`` where there is one, else for all that mteb scores.
        languages: ISO 639-3 codes (``eng``); None for all that a task has.

    Raises:
        ValueError: with every name, split and language that is not there.
    """
    mteb = package()
    known = {kind.metadata.name for kind in _kinds(mteb)}
    chosen, faults = [], []
    with isolated():
        for name in dict.fromkeys(names):
            if name not in known:
                faults.append(f"no task {name!r}{nearest(name, known)}")
                continue
            own = list(mteb.get_task(name).metadata.eval_splits)
            wanted = list(splits) if splits else ["test"] if "test" in own else own
            if missing := [split for split in wanted if split not in own]:
                faults.append(f"{name} has no split {', '.join(missing)} (it has: {', '.join(own)})")
                continue
            try:
                task = mteb.get_task(name, eval_splits=wanted, languages=languages)
            except ValueError as fault:
                faults.append(f"{name} has nothing in the languages {', '.join(languages or [])} ({fault})")
                continue
            chosen.append(task)
        return _choices(chosen, faults)


def by_benchmark(name: str) -> tuple[str, list[Choice]]:
    """The full name of a benchmark, and its tasks in its order.

    Args:
        name: as mteb spells it, or one of the other names that it has there.

    Raises:
        ValueError: if there is none of that name, or it holds what embedrun cannot score.
    """
    mteb = package()
    with isolated():
        try:
            found = mteb.get_benchmark(name)
        except KeyError:
            known = [one.name for one in mteb.get_benchmarks()]
            raise ValueError(f"Mteb: no benchmark {name!r}{nearest(name, known)}") from None
        return found.name, _choices(list(found.tasks), [])


def _kinds(mteb: Any) -> list[Any]:
    """Every task class that mteb has."""
    return [
        kind
        for kind in vars(mteb.tasks).values()
        if isinstance(kind, type) and issubclass(kind, mteb.AbsTask)
    ]


def _choices(tasks: Sequence[Any], faults: list[str]) -> list[Choice]:
    chosen = [_choice(task) for task in tasks]
    faults = faults + [
        f"{task.metadata.name} reads {' and '.join(task.metadata.modalities)}, and embedrun reads text only"
        for task in tasks
        if list(task.metadata.modalities) != ["text"]
    ]
    if len({one.name for one in chosen}) < len(chosen):
        faults.append("a task is in it more than once")
    if faults:
        raise ValueError(f"Mteb: {'; '.join(faults)}")
    return chosen


def _choice(task: Any) -> Choice:
    return Choice(
        name=task.metadata.name,
        category=task.metadata.type,
        metric=task.metadata.main_score,
        splits=tuple(task.eval_splits),
        subsets=tuple(task.hf_subsets),
        parts=tuple(map(_choice, task.metadata.tasks)) if task.is_aggregate else (),
    )
