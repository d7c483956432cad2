"""A data set's own held-out split: cosine against its scores."""

from collections.abc import Mapping
from typing import Literal

from embedrun.evaluation.correlation import cosines, spearman
from embedrun.evaluation.source import Encode, Scores, Source
from embedrun.rows import Rows


class Heldout:
    """Spearman × 100 on a split of the data set that the run trains on.

    The key is `<data set>_<split>/spearman`, so a dev score is never taken for a test score.

    Args:
        split: which split.
    """

    by_row = True

    def __init__(self, *, split: Literal["dev", "test"] = "test") -> None:
        self.split = split

    def sources(self) -> dict[str, Source]:
        """The split of the run's own data set."""
        return {"heldout": Source(None, self.split)}

    def score(self, rows: Mapping[str, Rows], encode: Encode) -> Scores:
        """Score and per-pair predictions.

        Args:
            rows: the split, under `heldout`; pairs with a `score`.
            encode: sentences to vectors.
        """
        pairs = rows["heldout"]
        name = f"{pairs.name}_{self.split}"
        predicted = cosines(encode, pairs.texts["left"], pairs.texts["right"])  # (pairs,)
        gold = pairs.targets["score"]
        key = f"{name}/spearman"
        columns = {"gold": gold.tolist(), "score": predicted.tolist()}
        return Scores({key: 100 * spearman(predicted, gold)}, key, {name: columns})
