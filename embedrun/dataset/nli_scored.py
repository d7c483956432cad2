"""NLI pairs with an NLI label and the similarity that teacher encoders give them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from embedrun.config.check import nearest
from embedrun.dataset.prepared import mapped_if_large
from embedrun.dataset.store_pairs import OfStore, read_columns
from embedrun.files import Plain, expanded
from embedrun.rows import Rows
from embedrun.store import Store
from embedrun.store.columns import LABELS, as_labels, as_scores, label, score, sentence

_SHARES = tuple(share / 10 for share in range(1, 10))


@dataclass(frozen=True)
class Merged:
    """A whole annotation, without its texts.

    Args:
        label: 0 entailment, 1 neutral, 2 contradiction, ``(rows,)``.
        score: mean cosine of the teachers, ``(rows,)``.
    """

    label: np.ndarray
    score: np.ndarray

    def groups(self) -> dict[str, np.ndarray]:
        """The scores by the name of their label; a label without rows is left out."""
        found = {name: self.score[self.label == code] for code, name in enumerate(LABELS)}
        return {name: scores for name, scores in found.items() if len(scores)}


def by_label(groups: Mapping[str, np.ndarray]) -> dict[str, Plain]:
    """Pairs, mean score and the nine deciles, by label, of scores by label, ``(rows,)`` each."""
    return {
        name: {
            "pairs": len(scores),
            "mean": round(float(scores.mean()), 6),
            "deciles": [round(float(value), 6) for value in np.quantile(scores, _SHARES)],
        }
        for name, scores in groups.items()
    }


_FILE = "nli_scored.jsonl.gz"
_STORED = f"nli/{_FILE}"
_KINDS = (".jsonl", ".jsonl.gz")
_RULES = {"text1": sentence, "text2": sentence, "label": label, "score": partial(score, low=-1, high=1)}


class NliScored(OfStore):
    """What `embedrun annotate` writes, as training rows: premise on the left, hypothesis on the right.

    Source: RAOE, Sec. 3.1 and Appendix A: pairs of SNLI and MultiNLI of all three labels, and as score the
    mean cosine of the teachers, from -1 to 1. A file with a faulty row is refused; its line is named.

    Args:
        path: output folder of `embedrun annotate`, or a file of its form (`.jsonl` or `.jsonl.gz` with the
            fields text1, text2, label and score), relative to the caller's folder; null for
            `nli/nli_scored.jsonl.gz` of the store.
    """

    name = "nli_scored"
    form = "pair"
    targets = ("score", "label")
    splits = ("train",)

    def __init__(self, *, path: str | None = None) -> None:
        self._path = None if path is None else expanded(path)

    def files(self, split: str, store: Store) -> list[str]:
        """The file of the split, by its name in the store; none where `path` names the user's own."""
        self.require(split)
        return [_STORED] if self._path is None else []

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read."""
        if self._path is None:
            return store.missing(self.files(split, store))
        path = self._path
        if path.is_dir():
            if (path / _FILE).is_file():
                return []
            return [
                f"dataset.path: {str(path)!r} has no {_FILE}; embedrun annotate writes it once every "
                "block is done; run it again to resume"
            ]
        if not path.is_file():
            around = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
            return [
                f"dataset.path: no file or folder {str(path)!r}{nearest(path.name, around)} "
                f"(looked in {path.absolute().parent})"
            ]
        if not path.name.lower().endswith(_KINDS):
            return [
                f"dataset.path: {str(path)!r} must end in {' or '.join(_KINDS)}, or be an annotation's folder"
            ]
        return []

    def read(self, split: str, store: Store) -> Rows:
        """The pairs of the split, in file order."""
        self.files(split, store)  # refuses a split that is not there
        source, file = store, _STORED
        if self._path is not None:
            path = self._path / _FILE if self._path.is_dir() else self._path
            source, file = Store(path.parent), path.name
        return mapped_if_large(
            [source.path(file)], {"data_set": self.name}, lambda: self._pairs(split, source, file)
        )

    def _pairs(self, split: str, source: Store, file: str) -> Rows:
        typed = read_columns(source, file, _RULES)
        return Rows(
            name=self.name,
            split=split,
            form=self.form,
            texts={"left": typed["text1"], "right": typed["text2"]},
            targets={"score": as_scores(typed["score"]), "label": as_labels(typed["label"])},
        )
