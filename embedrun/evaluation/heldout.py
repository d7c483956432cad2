"""A data set's own held-out split: cosine against its scores."""

from collections.abc import Mapping
from typing import Literal

from embedrun.evaluation.intervals import FEWEST, interval, spearman_draws
from embedrun.evaluation.scores import Encode, Progress, Scores, Source, cosines, spearman
from embedrun.rows import Rows


class Heldout:
    """Spearman × 100 on a split of the data set that the run trains on.

    The key is `<data set>_<split>/spearman`, so a dev score is never taken for a test score.

    Args:
        split: which split.
        interval_draws: resamples behind the 95 % interval; 0 for no interval.
    """

    by_row = True

    def __init__(self, *, split: Literal["dev", "test"] = "test", interval_draws: int = 0) -> None:
        if interval_draws and interval_draws < FEWEST:
            raise ValueError(
                f"Heldout: interval_draws must be 0 (no interval) or at least {FEWEST}, got {interval_draws}"
            )
        self.split, self.interval_draws = split, interval_draws

    def sources(self) -> dict[str, Source]:
        """The split, of the run's own data set."""
        return {"heldout": Source(None, self.split)}

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """Score and per-pair predictions.

        `rows` has the split under `heldout`, pairs with a `score`. `progress` is not called; this takes no
        time.
        """
        pairs = rows["heldout"]
        name = f"{pairs.name}_{self.split}"
        predicted = cosines(encode, pairs.texts["left"], pairs.texts["right"])  # (pairs,)
        gold = pairs.targets["score"]
        key = f"{name}/spearman"
        columns = {"gold": gold.tolist(), "score": predicted.tolist()}
        intervals = {}
        if self.interval_draws and len(gold):
            intervals[key] = interval(100 * spearman_draws(predicted, gold, draws=self.interval_draws))
        return Scores({key: 100 * spearman(predicted, gold)}, key, {name: columns}, intervals)
