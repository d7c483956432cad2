"""Semantic textual similarity: cosine against human scores, on the seven sets of the papers."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from embedrun.evaluation.intervals import FEWEST, interval, spearman_draws
from embedrun.evaluation.scores import METRICS, Encode, Progress, Scores, Source, cosines, joined, with_only
from embedrun.rows import Rows

SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
SetName = Literal["sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr"]
Aggregation = Literal["all", "mean", "wmean"]
Metric = Literal["spearman", "pearson"]
Grouping = Literal["floor", "nearest"]  # of pairs by their gold score, in plots


def aggregate(
    predicted: np.ndarray,
    gold: np.ndarray,
    subset: Sequence[str],
    how: Aggregation,
    metric: Metric = "spearman",
) -> float:
    """The correlation × 100 of one test set.

    `how` is `all`, one correlation over the concatenated subsets, as all papers here report it; `mean`, the
    unweighted mean of one correlation for each subset; or `wmean`, their mean weighted by their number of
    pairs, as BERT-flow and BERT-whitening report it. `subset` is empty for a set that has none.
    """
    correlation = METRICS[metric]
    if how == "all" or not subset:
        return 100 * correlation(predicted, gold)
    values = by_subset(predicted, gold, subset, metric)
    weights = [list(subset).count(name) if how == "wmean" else 1 for name in values]
    return sum(weight * value for weight, value in zip(weights, values.values(), strict=True)) / sum(weights)


def by_subset(
    predicted: np.ndarray, gold: np.ndarray, subset: Sequence[str], metric: Metric = "spearman"
) -> dict[str, float]:
    """The correlation × 100 of each subset, in order of first appearance; arguments as in `aggregate`."""
    names = np.array(subset)  # (pairs,)
    return {
        name: 100 * METRICS[metric](predicted[names == name], gold[names == name])
        for name in dict.fromkeys(subset)
    }


class Sts:
    """Score the STS test sets.

    Keys are `sts/<set>/spearman` for `all`, `sts/<set>/spearman_mean` and `sts/<set>/spearman_wmean`, and the
    same with `pearson`; `sts/avg/...` is the average over the seven sets where all seven are scored, and
    `sts/<set>.<subset>/...` the correlation of one subset. STS-B and SICK-R have one correlation over the
    whole test split in every aggregation; their scores come from plain cosine, not from the regression of
    stock SentEval.

    The 95 % intervals are those of Spearman over all pairs of a set, by resampling its pairs; for the
    average the pairs of every set are resampled by themselves.

    Args:
        sets: which of the seven.
        aggregation: how the subsets of STS12 to STS16 are combined; the first is that of the main score.
        metrics: which correlations; the first is that of the main score.
        subsets: whether the subsets have scores of their own.
        interval_draws: resamples behind an interval; 0 for no interval.
        rating_groups: of the plot of cosines by gold score: pairs between two whole ratings (`floor`), or
            nearest to one.
    """

    by_row = True

    def __init__(
        self,
        *,
        sets: list[SetName] = list(SETS),  # noqa: B006 - never changed
        aggregation: list[Aggregation] = ["all"],  # noqa: B006 - never changed
        metrics: list[Metric] = ["spearman"],  # noqa: B006 - never changed
        subsets: bool = False,
        interval_draws: int = 1000,
        rating_groups: Grouping = "floor",
    ) -> None:
        if not sets or not aggregation or not metrics:
            raise ValueError("Sts: sets, aggregation and metrics need at least one entry each")
        if interval_draws and interval_draws < FEWEST:
            raise ValueError(
                f"Sts: interval_draws must be 0, for no interval, or at least {FEWEST}, got {interval_draws}"
            )
        self.sets, self.aggregation = list(dict.fromkeys(sets)), list(dict.fromkeys(aggregation))
        self.metrics, self.subsets = list(dict.fromkeys(metrics)), subsets
        self.interval_draws = interval_draws
        self.rating_groups: Grouping = rating_groups

    def sources(self) -> dict[str, Source]:
        """The test split of each set, by set."""
        return {
            name: Source("sts", "test", {"year": int(name[3:])}) if _yearly(name) else Source(name, "test")
            for name in self.sets
        }

    def parts(self) -> dict[str, "Sts"]:
        """One task for each set."""
        return {name: with_only(self, sets=[name]) for name in self.sets}

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """Scores and per-pair predictions; `rows` is by set. `progress` is not called; this takes no time."""
        parts = {name: self._set(name, rows[name], encode) for name in self.sets}
        return joined(parts, self.total(parts))

    def total(self, parts: Mapping[str, Scores]) -> Scores:
        """The averages over the seven sets, if they are all there, and the main score.

        The interval of the average needs the predictions.
        """
        names = self._names()
        if set(self.sets) != set(SETS):
            return Scores({}, f"sts/{self.sets[0]}/{names[0]}")
        scores = {}
        for metric in names:
            values = [parts[name].scores[f"sts/{name}/{metric}"] for name in SETS]
            scores[f"sts/avg/{metric}"] = math.fsum(values) / len(values)
        main = f"sts/avg/{names[0]}"
        predictions = {name: part.predictions.get(name, {}) for name, part in parts.items()}
        intervals = {}
        if self._has_interval() and all(columns and columns["gold"] for columns in predictions.values()):
            draws = [self._draws(name, columns) for name, columns in predictions.items()]
            intervals["sts/avg/spearman"] = interval(np.mean(draws, axis=0))
        return Scores(scores, main, intervals=intervals, shown=(main,))

    def _set(self, name: str, pairs: Rows, encode: Encode) -> Scores:
        predicted = cosines(encode, pairs.texts["left"], pairs.texts["right"])  # (pairs,)
        gold = pairs.targets["score"]  # (pairs,)
        subset = pairs.subset if _yearly(name) else []
        scores = {
            f"sts/{name}/{_key(metric, how)}": aggregate(predicted, gold, subset, how, metric)
            for metric in self.metrics
            for how in self.aggregation
        }
        if self.subsets:
            for metric in self.metrics:
                values = by_subset(predicted, gold, pairs.subset, metric)
                scores |= {f"sts/{name}.{part}/{metric}": value for part, value in values.items()}
        columns = {"gold": gold.tolist(), "score": predicted.tolist()}
        if pairs.subset:
            columns["subset"] = list(pairs.subset)
        main = f"sts/{name}/{self._names()[0]}"
        intervals = {}
        if self._has_interval() and len(gold):
            intervals[f"sts/{name}/spearman"] = interval(self._draws(name, columns))
        notes = {} if self.rating_groups == "floor" else {"rating_groups": self.rating_groups}
        return Scores(scores, main, {name: columns}, intervals, (main,), notes)

    def _names(self) -> list[str]:
        return [_key(metric, how) for metric in self.metrics for how in self.aggregation]

    def _has_interval(self) -> bool:
        return bool(self.interval_draws) and "spearman" in self._names()

    def _draws(self, name: str, columns: Mapping[str, list]) -> np.ndarray:
        """Spearman × 100 of resampled pairs of a set, ``(draws,)``; no two sets share their resamples."""
        score, gold = np.array(columns["score"]), np.array(columns["gold"])  # (pairs,) each
        return 100 * spearman_draws(score, gold, draws=self.interval_draws, seed=[0, SETS.index(name)])


def _key(metric: str, how: str) -> str:
    return metric if how == "all" else f"{metric}_{how}"


def _yearly(name: str) -> bool:
    return name[3:].isdigit()
