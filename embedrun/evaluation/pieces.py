"""A task as the pieces that are scored, kept and resumed one by one, and their results as one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from embedrun.evaluation.clean import SUFFIX
from embedrun.evaluation.source import Scores


def pieces(task: Any) -> dict[str, Any]:
    """The parts of a task by name; the task itself, under its main name ``whole``, where it has none."""
    return task.parts() if hasattr(task, "parts") else {"whole": task}


def whole(task: Any, found: Mapping[str, Scores]) -> Scores:
    """What a task found, from what its pieces found.

    Args:
        task: whose pieces they are.
        found: by the names of :func:`pieces`, all of them, in that order.
    """
    if not hasattr(task, "parts"):
        (only,) = found.values()
        return only
    total = task.total({name: _only(own, clean=False) for name, own in found.items()})
    kept = {name: _only(own, clean=True) for name, own in found.items()}
    if any(own.scores for own in kept.values()):
        averages = task.total(kept).scores
        total = replace(total, scores=total.scores | {key + SUFFIX: averages[key] for key in averages})
    return joined(found, total)


def joined(found: Mapping[str, Scores], total: Scores) -> Scores:
    """The scores of every piece followed by those over all of them, whose main score stands for the task.

    Args:
        found: by piece.
        total: the averages.
    """
    every = [*found.values(), total]
    notes: dict[str, Any] = {}
    for one in every:
        for name, value in one.notes.items():
            both = isinstance(value, dict) and isinstance(notes.get(name), dict)
            notes[name] = {**notes[name], **value} if both else value
    return Scores(
        scores={key: value for one in every for key, value in one.scores.items()},
        main=total.main,
        predictions={name: columns for one in every for name, columns in one.predictions.items()},
        intervals={key: ends for one in every for key, ends in one.intervals.items()},
        shown=_shown(every),
        notes=notes,
    )


def _shown(every: list[Scores]) -> tuple[str, ...]:
    if not any(one.shown for one in every):
        return ()
    return tuple(key for one in every for key in (one.shown or one.scores))


def _only(found: Scores, *, clean: bool) -> Scores:
    """The scores on the clean rows under the names of the others, or the others."""
    chosen = {key: value for key, value in found.scores.items() if key.endswith(SUFFIX) == clean}
    if not clean:
        return replace(found, scores=chosen)
    return replace(
        found, scores={key.removesuffix(SUFFIX): value for key, value in chosen.items()}, predictions={}
    )
