"""Which rows an evaluation task scores, before anything is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

# Sentences -> (sentences, dim), float32, on the CPU: all that an evaluator sees of a model.
Encode = Callable[[list[str]], Tensor]
# Called with the work that is done and all that there is, in units of the task's own.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Source:
    """One split of one data set.

    Args:
        dataset: name of the data set, or None for the one that the run trains on.
        split: of it.
        options: of the data set's constructor.
    """

    dataset: str | None
    split: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scores:
    """What one task, or one part of it, found.

    A prediction file holds one row for each scored row, in their order, with `gold` and `score` where the
    score is a correlation, `gold` and `predicted` where it is an accuracy of classes, and `correct`
    (0 or 1) where each row is right or wrong by itself; more columns may follow.

    Args:
        scores: by key, correlations and accuracies × 100; NaN where undefined.
        main: the key that stands for the task.
        predictions: by the file's name, its columns, all of one length.
        intervals: by key of a score, the ends of its 95 % interval.
        shown: keys that the printed table shows; empty for all.
        notes: what else decides the scores and is no option, for `results.json`; plain data.
    """

    scores: dict[str, float]
    main: str
    predictions: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)
