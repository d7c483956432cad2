"""The scores of a task once more, on the rows that are not in the training data."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from embedrun.evaluation.source import Encode, Scores
from embedrun.rows import Rows

SUFFIX = "_clean"  # of the keys: sts/sts12/spearman_clean beside sts/sts12/spearman


def scores_by_row(task: Any) -> bool:
    """Whether the task scores every row by itself, so that it can score a part of its rows."""
    return getattr(task, "by_row", False)


def chosen(rows: Rows, mask: np.ndarray) -> Rows:
    """The rows where the mask is true, in order.

    Args:
        rows: of any form.
        mask: bool, ``(rows,)``.
    """
    places = np.flatnonzero(mask).tolist()
    return replace(
        rows,
        texts={view: [column[place] for place in places] for view, column in rows.texts.items()},
        targets={name: values[mask] for name, values in rows.targets.items()},
        subset=[rows.subset[place] for place in places] if rows.subset else [],
    )


def add_clean(
    whole: Scores, task: Any, rows: Mapping[str, Rows], clean: Mapping[str, np.ndarray], encode: Encode
) -> Scores:
    """The scores of a task, each followed by that of the clean rows under its key with `_clean`.

    An average is that of the clean scores. Predictions and the main score stay those of all rows.

    Args:
        whole: what the task found on all rows.
        task: one that scores every row by itself.
        rows: of the task, by its own names for its sources.
        clean: of the same sources, true where a row is clean, bool, ``(rows,)`` each.
        encode: sentences to vectors.
    """
    part = task.score({key: chosen(own, clean[key]) for key, own in rows.items()}, encode).scores
    both: dict[str, float] = {}
    for key, value in whole.scores.items():
        both |= {key: value, key + SUFFIX: part.get(key, math.nan)}
    return replace(whole, scores=both)
