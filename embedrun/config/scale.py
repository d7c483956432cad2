"""From the scale of a user's own scores to the score that a positive pair has at least."""

import math
from typing import Any

_OWN = "pairs"  # the data set whose scores are on a scale of the user's
_FROM = 0.75  # of the way from the lowest to the highest score


def upper_quarter(low: float, high: float) -> float:
    """Where the upper quarter of a scale begins: 4 on 1 to 5, 0.75 on 0 to 1.

    Of the labels 0 and 1, and of 0, 0.5 and 1, that is the highest alone, as it is for the published 1.0.
    """
    return low + _FROM * (high - low)


def range_problem(value: object) -> str | None:
    """Why this is no scale of scores, or None."""
    match value:
        case [low, high] if type(low) in (int, float) and type(high) in (int, float) and low < high:
            if math.isfinite(high - low):
                return None
    return f"expected the lowest and the highest score there can be, such as [1,5], got {value!r}"


def positive_from(known: float, *, _root_: Any, _parent_: Any) -> float | None:
    """What `${positive_from:1.0}` stands for in a preset of a loss.

    Presets are written for data sets whose scale is known, and have `known` there. Of a user's own pairs it
    is the upper quarter of `dataset.score_range`, or None, which is asked for once their scores are read. A
    term without weight chooses nothing, so that it keeps `known`. The two nodes are OmegaConf's.
    """
    dataset = _root_.get("dataset") or {}
    if dataset.get("name") != _OWN or _parent_.get("weight") == 0:
        return known
    given = dataset.get("score_range")
    return None if given is None or range_problem(given) else upper_quarter(*given)
