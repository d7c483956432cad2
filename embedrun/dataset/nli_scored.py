"""NLI pairs with an NLI label and the similarity that teacher encoders give them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from embedrun.dataset.prepared import mapped_if_large
from embedrun.dataset.stored import OfStore, scored
from embedrun.files import Plain, expanded
from embedrun.rows import Rows
from embedrun.store import Store
from embedrun.store.columns import LABELS, label
from embedrun.store.read import neighbour

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
_KINDS = (".jsonl", ".jsonl.gz")


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
    targets = ("score", "label")
    splits = ("train",)
    pattern = f"nli/{_FILE}"
    fields = ("text1", "text2")
    values = scored(-1, 1) | {"label": ("label", label)}

    def __init__(self, *, path: str | None = None) -> None:
        self._path = None if path is None else expanded(path)

    def files(self, split: str, store: Store) -> list[str]:
        """The file of the split, by its name in the store; none where `path` names the user's own."""
        files = super().files(split, store)
        return files if self._path is None else []

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read."""
        path = self._path
        if path is None:
            return super().problems(split, store)
        if path.is_dir():
            made = "embedrun annotate writes it once every block is done; run it again to resume"
            return [] if (path / _FILE).is_file() else [f"dataset.path: {str(path)!r} has no {_FILE}; {made}"]
        if not path.is_file():
            where = path.absolute().parent
            return [f"dataset.path: no file or folder {str(path)!r}{neighbour(path)} (looked in {where})"]
        if not path.name.lower().endswith(_KINDS):
            accepted = f"{' or '.join(_KINDS)}, or be an annotation's folder"
            return [f"dataset.path: {str(path)!r} must end in {accepted}"]
        return []

    def read(self, split: str, store: Store) -> Rows:
        """The pairs of the split, in file order."""
        self.require(split)
        source, file = store, f"nli/{_FILE}"
        if self._path is not None:
            path = self._path / _FILE if self._path.is_dir() else self._path
            source, file = Store(path.parent), path.name
        read = partial(self.read_file, source, file, split)
        return mapped_if_large([source.path(file)], {"data_set": self.name}, read)
