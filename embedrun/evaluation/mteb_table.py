"""Averages over the tasks of an MTEB benchmark, as Table 11 of the RAOE paper prints them."""

import math
from collections.abc import Mapping


def averages(scores: Mapping[str, float], category: Mapping[str, str]) -> dict[str, float]:
    """The mean score of each category and of the whole benchmark, by result key.

    The mean of the benchmark is that over its tasks, not over its categories: Classification counts 12 times
    and Summarization once in `MTEB(eng, v1)`, whose 56 tasks are those of the paper. A mean is NaN where one
    of its scores is.

    Args:
        scores: by task.
        category: of every task of the benchmark, by task.

    Returns:
        `mteb/avg.<category>/score` for each category in alphabetical order, as the table has them, and then
        `mteb/avg/score`; nothing where a task of the benchmark has no score.
    """
    if any(task not in scores for task in category):
        return {}
    found = {}
    for name in sorted(set(category.values())):
        found[f"mteb/avg.{name}/score"] = _mean(
            [scores[task] for task, own in category.items() if own == name]
        )
    return found | {"mteb/avg/score": _mean([scores[task] for task in category])}


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
