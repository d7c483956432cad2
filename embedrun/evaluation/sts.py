"""Semantic textual similarity: cosine against human scores, on the seven sets of the papers."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from embedrun.evaluation.correlation import cosines, spearman
from embedrun.evaluation.source import Encode, Scores, Source
from embedrun.rows import Rows

SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
SetName = Literal["sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr"]
Aggregation = Literal["all", "mean"]
_METRIC = {"all": "spearman", "mean": "spearman_mean"}


def sts_spearman(encode: Encode, first: list[str], second: list[str], gold: Sequence[float]) -> float:
    """Spearman's rank correlation × 100 between cosine similarity and gold scores.

    Args:
        encode: sentences to vectors.
        first: first sentence of each pair.
        second: second sentence of each pair.
        gold: human score of each pair, any scale.

    Raises:
        ValueError: if the three differ in length.
    """
    if not len(first) == len(second) == len(gold):
        raise ValueError(
            "sts: every row needs two sentences and a score, "
            f"got {len(first)}, {len(second)} and {len(gold)} of them"
        )
    return 100 * spearman(cosines(encode, first, second), gold)


def aggregate(predicted: np.ndarray, gold: np.ndarray, subset: Sequence[str], how: Aggregation) -> float:
    """Spearman × 100 of one test set.

    Args:
        predicted: ``(pairs,)``.
        gold: ``(pairs,)``.
        subset: the subset of each pair; empty for a set that has none.
        how: `all`, one correlation over the concatenated subsets, as all papers here report it; or
            `mean`, the unweighted mean of one correlation for each subset.
    """
    if how == "all" or not subset:
        return 100 * spearman(predicted, gold)
    names = np.array(subset)
    each = [spearman(predicted[names == name], gold[names == name]) for name in dict.fromkeys(subset)]
    return 100 * sum(each) / len(each)


class Sts:
    """Score the STS test sets.

    Keys are `sts/<set>/spearman` for `all` and `sts/<set>/spearman_mean` for `mean`, with the
    average over the seven sets as `sts/avg/...` where all seven are scored. STS-B and SICK-R have
    one correlation over the whole test split in both; their scores come from plain cosine, not from
    the regression of stock SentEval.

    Args:
        sets: which of the seven.
        aggregation: how the subsets of STS12 to STS16 are put together.

    Raises:
        ValueError: if there is no set or no aggregation.
    """

    by_row = True

    def __init__(
        self,
        *,
        sets: list[SetName] = list(SETS),  # noqa: B006 - never changed
        aggregation: list[Aggregation] = ["all"],  # noqa: B006 - never changed
    ) -> None:
        if not sets or not aggregation:
            raise ValueError("Sts: sets and aggregation need at least one entry each")
        self.sets, self.aggregation = list(dict.fromkeys(sets)), list(dict.fromkeys(aggregation))

    def sources(self) -> dict[str, Source]:
        """The test split of each set, by set."""
        return {
            name: Source("sts", "test", {"year": int(name[3:])}) if _yearly(name) else Source(name, "test")
            for name in self.sets
        }

    def score(self, rows: Mapping[str, Rows], encode: Encode) -> Scores:
        """Scores and per-pair predictions.

        Args:
            rows: of each source, by set.
            encode: sentences to vectors.
        """
        scores: dict[str, float] = {}
        predictions = {}
        for name in self.sets:
            pairs = rows[name]
            predicted = cosines(encode, pairs.texts["left"], pairs.texts["right"])  # (pairs,)
            gold = pairs.targets["score"]
            subset = pairs.subset if _yearly(name) else []
            for how in self.aggregation:
                scores[f"sts/{name}/{_METRIC[how]}"] = aggregate(predicted, gold, subset, how)
            columns = {"gold": gold.tolist(), "score": predicted.tolist()}
            predictions[name] = {**columns, "subset": list(pairs.subset)} if pairs.subset else columns
        if set(self.sets) == set(SETS):
            for how in self.aggregation:
                each = [scores[f"sts/{name}/{_METRIC[how]}"] for name in SETS]
                scores[f"sts/avg/{_METRIC[how]}"] = math.fsum(each) / len(each)
        metric = _METRIC[self.aggregation[0]]
        main = f"sts/avg/{metric}" if f"sts/avg/{metric}" in scores else f"sts/{self.sets[0]}/{metric}"
        return Scores(scores, main, predictions)


def _yearly(name: str) -> bool:
    """Whether a set is that of one SemEval year: `sts12` to `sts16`."""
    return name[3:].isdigit()
