"""SNLI and MultiNLI for training: labelled pairs, or triplets of premise, entailment and contradiction."""

import math
from typing import Literal

from embedrun.dataset.prepared import mapped_if_large
from embedrun.dataset.store_pairs import read_columns
from embedrun.errors import DataError
from embedrun.rows import Rows
from embedrun.store import Store
from embedrun.store.columns import LABELS, as_labels, as_scores, label, sentence

Source = Literal["snli", "mnli"]
Label = Literal["entailment", "neutral", "contradiction"]
_SOURCES = ("snli", "mnli")
_TRIPLES = "nli/triples.jsonl.gz"


class Nli:
    """Natural language inference as training rows: premise on the left, hypothesis on the right.

    Sources: Bowman et al. 2015 (SNLI), doi:10.18653/v1/D15-1075; Williams et al. 2018 (MultiNLI),
    doi:10.18653/v1/N18-1101. AnglE's released trainer takes entailment as 1 and contradiction as 0 and leaves
    neutral out, which is the default here; triplets are in the form of SimCSE's supervised training file.

    Pairs come from `nli/<source>_train.jsonl.gz`, the whole training split, where the store has it, else from
    `nli/<source>_train_sample.jsonl.gz`; `files` says which. Triplets come from `nli/triples.jsonl.gz`.

    Args:
        form: `pair` has the targets `score` and `label`, `triplet` has none.
        sources: which collections; null for both.
        labels: of the pairs that are kept, the others are left out on purpose; null for entailment and
            contradiction. Only for pairs.
        scores: similarity of the pairs by label, any scale, higher is more similar; null for 1, 0.5 and 0.
            AnglE's and RAOE's objectives use the order alone. Only for pairs.

    Raises:
        ValueError: if nothing is chosen, a kept label has no score, or a triplet is given labels or scores.
    """

    name = "nli"
    splits = ("train",)

    def __init__(
        self,
        *,
        form: Literal["pair", "triplet"] = "pair",
        sources: list[Source] | None = None,
        labels: list[Label] | None = None,
        scores: dict[str, float] | None = None,
    ) -> None:
        if form == "triplet" and (labels is not None or scores is not None):
            raise ValueError(
                "Nli: labels and scores are for form=pair, a triplet has neither; use dataset=nli_triplet"
            )
        self.form = form
        self.targets = ("score", "label") if form == "pair" else ()
        self._sources = _chosen("sources", sources, default=_SOURCES, accepted=_SOURCES)
        self._labels = _chosen("labels", labels, default=("entailment", "contradiction"), accepted=LABELS)
        self._scores = _scale(scores, self._labels)

    def files(self, split: str, store: Store) -> list[str]:
        """The files of the split, by their names in the store; whole training splits before samples."""
        if split not in self.splits:
            raise ValueError(f"Nli: no split {split!r} (there is: train)")
        if self.form == "triplet":
            return [_TRIPLES]
        whole = {source: f"nli/{source}_train.jsonl.gz" for source in self._sources}
        return [
            file if store.has(file) else f"nli/{source}_train_sample.jsonl.gz"
            for source, file in whole.items()
        ]

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read."""
        return store.missing(self.files(split, store))

    def read(self, split: str, store: Store) -> Rows:
        """The rows of the split, source after source, in file order; DataError also if no row is left."""
        files = self.files(split, store)
        key = {
            "data_set": self.name,
            "form": self.form,
            "sources": list(self._sources),
            "labels": list(self._labels),
            "scores": self._scores,
        }
        paths = [store.path(file) for file in files]
        return mapped_if_large(paths, key, lambda: self._read(split, files, store))

    def _read(self, split: str, files: list[str], store: Store) -> Rows:
        rows = self._triplets(split, store) if self.form == "triplet" else self._pairs(split, files, store)
        if not len(rows):
            kept = self._sources if self.form == "triplet" else self._labels
            raise DataError(f"{', '.join(files)}: no row is of {' or '.join(kept)}")
        return rows

    def _pairs(self, split: str, files: list[str], store: Store) -> Rows:
        left: list[str] = []
        right: list[str] = []
        labels: list[int] = []
        kept = {LABELS.index(name) for name in self._labels}
        for file in files:
            typed = read_columns(store, file, {"premise": sentence, "hypothesis": sentence, "label": label})
            chosen = [row for row, value in enumerate(typed["label"]) if value in kept]
            left += [typed["premise"][row] for row in chosen]
            right += [typed["hypothesis"][row] for row in chosen]
            labels += [typed["label"][row] for row in chosen]
        return Rows(
            name=self.name,
            split=split,
            form=self.form,
            texts={"left": left, "right": right},
            targets={
                "score": as_scores([self._scores[LABELS[value]] for value in labels]),
                "label": as_labels(labels),
            },
        )

    def _triplets(self, split: str, store: Store) -> Rows:
        columns = ["sent0", "sent1", "hard_neg", "source"]
        typed = read_columns(store, _TRIPLES, dict.fromkeys(columns, sentence))
        chosen = [row for row, source in enumerate(typed["source"]) if source in self._sources]
        views = {"left": "sent0", "right": "sent1", "negative": "hard_neg"}
        return Rows(
            name=self.name,
            split=split,
            form=self.form,
            texts={view: [typed[field][row] for row in chosen] for view, field in views.items()},
        )


def _chosen(
    option: str, given: list | None, *, default: tuple[str, ...], accepted: tuple[str, ...]
) -> tuple[str, ...]:
    chosen = default if given is None else tuple(dict.fromkeys(given))
    if not chosen or not set(chosen) <= set(accepted):
        raise ValueError(f"Nli: {option} must name at least one of {', '.join(accepted)}; got {list(chosen)}")
    return chosen


def _scale(given: dict[str, float] | None, kept: tuple[str, ...]) -> dict[str, float]:
    # 0.5: SNLI and MultiNLI have no graded scores; neutral stands between, and only the order counts.
    scores = {"entailment": 1.0, "neutral": 0.5, "contradiction": 0.0} if given is None else dict(given)
    unknown = [name for name in scores if name not in LABELS]
    if unknown:
        raise ValueError(f"Nli: scores has no label {', '.join(unknown)} (labels: {', '.join(LABELS)})")
    absent = [name for name in kept if name not in scores]
    if absent:
        raise ValueError(f"Nli: scores gives no number for {', '.join(absent)}, which labels keeps")
    if not all(math.isfinite(value) for value in scores.values()):
        raise ValueError(f"Nli: scores must be finite numbers, got {scores}")
    return scores
