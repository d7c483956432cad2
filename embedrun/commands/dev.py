"""The scores that select a checkpoint: dev splits alone, never a test set."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from embedrun.config import nearest
from embedrun.errors import ConfigError
from embedrun.evaluation.clean import SUFFIX
from embedrun.evaluation.heldout import Heldout
from embedrun.evaluation.source import Scores
from embedrun.rows import Rows

OWN = "dev"  # the task of the data set's own dev split, else of STS-B's
_MARK = "_dev/"  # in the key of every dev score: stsb_dev/spearman, senteval_dev/mr/accuracy_fast


def tasks(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The tasks that score on dev: the own split, and those of `training.dev_tasks`.

    Args:
        asked: of `training.dev_tasks`, by name.
    """
    return {OWN: Heldout(split="dev"), **{f"dev_tasks.{name}": task for name, task in asked.items()}}


def selecting(rows: Mapping[str, Mapping[str, Rows]]) -> dict[str, dict[str, Rows]]:
    """The rows that dev scores come from; of the rows that SentEval reads, not those of test splits."""
    return {task: {key: one for key, one in own.items() if one.split != "test"} for task, own in rows.items()}


def dev_alone(found: Mapping[str, Scores]) -> dict[str, Scores]:
    """The same without scores on test rows, which SentEval gives beside those on dev."""
    return {name: _dev_alone(one) for name, one in found.items()}


def own_keys(name: str) -> list[str]:
    """The keys of the scores on the own dev split.

    Args:
        name: of its data set.
    """
    key = f"{name}{_MARK}spearman"
    return [key, key + SUFFIX]


def is_dev(key: str) -> bool:
    """Whether the key is that of a dev score."""
    return _MARK in key


def check_select_by(key: str, known: Collection[str]) -> None:
    """Refuse to select by a score that there is not.

    Raises:
        ConfigError: with the scores that there are.
    """
    if key not in known:
        raise ConfigError(
            f"training.select_by: no dev score {key!r}{nearest(key, known)} (there are: {', '.join(known)})"
        )


def _dev_alone(found: Scores) -> Scores:
    scores = {key: value for key, value in found.scores.items() if is_dev(key)}
    if len(scores) == len(found.scores):
        return found
    return replace(
        found,
        scores=scores,
        main=next(iter(scores), ""),
        predictions={},  # of test rows
        intervals={key: ends for key, ends in found.intervals.items() if key in scores},
        shown=(),
    )
