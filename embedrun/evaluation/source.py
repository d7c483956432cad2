"""Which rows an evaluation task scores, before anything is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

# Sentences -> (sentences, dim), float32, on the CPU: all that an evaluator sees of a model.
Encode = Callable[[list[str]], Tensor]


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
    """What one task found.

    Args:
        scores: by key, correlations and accuracies × 100; NaN where undefined.
        main: the key that stands for the task.
        predictions: by data set, the columns of its prediction file, all of one length.
    """

    scores: dict[str, float]
    main: str
    predictions: dict[str, dict[str, list[Any]]]
