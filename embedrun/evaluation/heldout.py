"""A held-out split of a data set: cosine against its scores."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from embedrun.evaluation import binary, signals
from embedrun.evaluation.intervals import FEWEST, interval, spearman_draws
from embedrun.evaluation.scores import Encode, Progress, Scores, Source, cosines, joined, spearman
from embedrun.rows import MIX, Rows


class Heldout:
    """Spearman × 100 on a split of the data set that the run trains on, or of another one.

    The key is `<data set>_<split>/spearman`, so a dev score is never taken for a test score. Of a mixture
    there is one of each part, `<part>_<split>/spearman`, and their mean, `mix_<split>/spearman`. Where there
    are two gold scores, `ap`, `f1` and `accuracy` stand beside it, and of triplets `triplet_accuracy`
    (:func:`~embedrun.evaluation.binary.scored`); of pairs with a label and a score `conflicting` and
    `agreeing` (:func:`~embedrun.evaluation.signals.scored`).

    Args:
        split: which split.
        interval_draws: resamples behind the 95 % interval; 0 for no interval.
        dataset: one by one word, such as `stsb`; null for that of the run. In the key stands the name of the
            task.
        options: of that data set, `{path: FILE, ...}`.
    """

    by_row = True

    def __init__(
        self,
        *,
        split: Literal["dev", "test"] = "test",
        interval_draws: int = 0,
        dataset: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        if interval_draws and interval_draws < FEWEST:
            raise ValueError(
                f"Heldout: interval_draws must be 0 (no interval) or at least {FEWEST}, got {interval_draws}"
            )
        self.split, self.interval_draws = split, interval_draws
        self.label = "" if dataset is None else None  # the name of the task, which the run gives
        self._of = None if dataset is None else Source(dataset, split, options or {})

    def sources(self) -> dict[str, Source]:
        """The split, of the run's own data set or the other one."""
        return {"heldout": self._of or Source(None, self.split)}

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """Score and per-pair predictions.

        `rows` has the split under `heldout`, pairs with a `score`. `progress` is not called; this takes no
        time.
        """
        pairs = rows["heldout"]
        if pairs.name != MIX:
            return self._scored(pairs, encode)
        names, parts = np.array(pairs.subset), {}
        for part in dict.fromkeys(pairs.subset):
            of_part = pairs.part(np.flatnonzero(names == part))
            roles = {view: pairs.roles.get(f"{part}/{view}", "") for view in pairs.texts}
            roles = {view: role for view, role in roles.items() if role}
            parts[part] = self._scored(replace(of_part, name=part, subset=[], roles=roles), encode)
        key = f"{pairs.name}_{self.split}/spearman"
        mean = math.fsum(part.scores[part.main] for part in parts.values()) / len(parts)
        return joined(parts, Scores({key: mean}, key, {}))

    def _scored(self, pairs: Rows, encode: Encode) -> Scores:
        name = f"{self.label or pairs.name}_{self.split}"
        roles = (pairs.roles.get("left"), pairs.roles.get("right"))
        predicted = cosines(encode, pairs.texts["left"], pairs.texts["right"], roles)  # (pairs,)
        gold = pairs.targets["score"]
        key = f"{name}/spearman"
        columns = {"gold": gold.tolist(), "score": predicted.tolist()}
        intervals = {}
        if self.interval_draws and len(gold):
            intervals[key] = interval(100 * spearman_draws(predicted, gold, draws=self.interval_draws))
        values, ends, thresholds = binary.scored(pairs, predicted, self.interval_draws)
        scores = {key: 100 * spearman(predicted, gold)}
        scores |= {f"{name}/{metric}": value for metric, value in values.items()}
        shown = tuple(scores)  # which signal is followed is for those who look for it
        scores |= {f"{name}/{metric}": value for metric, value in signals.scored(pairs, predicted).items()}
        intervals |= {f"{name}/{metric}": both for metric, both in ends.items()}
        notes = {"thresholds": {name: thresholds}} if thresholds else {}
        return Scores(scores, key, {name: columns}, intervals, shown=shown, notes=notes)
