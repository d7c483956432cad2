"""SNLI and MultiNLI for training: labelled pairs, or triplets of premise, entailment and contradiction."""

import math
from typing import Literal

import numpy as np

from embedrun.dataset.prepared import mapped_if_large
from embedrun.dataset.stored import OfStore
from embedrun.errors import DataError
from embedrun.rows import FORMS, Rows
from embedrun.store import Store
from embedrun.store.columns import LABELS, label, sentence

Source = Literal["snli", "mnli"]
Label = Literal["entailment", "neutral", "contradiction"]
Neutral = Literal["column", "drawn"]
_SOURCES = ("snli", "mnli")
_TRIPLES = "nli/triples.jsonl.gz"
_PAIR = {"premise": sentence, "hypothesis": sentence, "label": label}
_DRAW = 42  # seed; not that of the run, so that runs of several seeds have the same rows


class Nli(OfStore):
    """Natural language inference as training rows: premise on the left, hypothesis on the right.

    Sources: Bowman et al. 2015 (SNLI), doi:10.18653/v1/D15-1075; Williams et al. 2018 (MultiNLI),
    doi:10.18653/v1/N18-1101. AnglE's released trainer takes entailment as 1 and contradiction as 0 and leaves
    neutral out, which is the default here; triplets are in the form of SimCSE's supervised training file.

    Pairs come from `nli/<source>_train.jsonl.gz`, the whole training split, where the store has it, else from
    `nli/<source>_train_sample.jsonl.gz`; `files` says which. Triplets come from `nli/triples.jsonl.gz`, their
    neutral hypotheses from the pairs: of each premise the first in file order. With or without these, rows,
    anchors and positives are the same.

    Args:
        form: `pair` has the targets `score` and `label`, `triplet` has none.
        sources: which collections; null for both.
        labels: of the pairs that are kept, the others are left out on purpose; null for entailment and
            contradiction. Only for pairs.
        scores: similarity of the pairs by label, any scale, higher is more similar; null for 1, 0.5 and 0.
            AnglE's and RAOE's objectives use the order alone. Only for pairs.
        neutral: what a neutral hypothesis is in a triplet. `column`: a second hard negative, `negative_2`,
            behind the contradiction, `negative_1`; `hard_negatives` is 1 and the text empty where a premise
            has none. `drawn`: half of those that there are, drawn once, stand in place of the contradiction.
            null: nothing.

    Raises:
        ValueError: if nothing is chosen, a kept label has no score, a triplet is given labels or scores, or
            pairs are given `neutral`.
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
        neutral: Neutral | None = None,
    ) -> None:
        if form == "triplet" and (labels is not None or scores is not None):
            raise ValueError(
                "Nli: labels and scores are for form=pair, a triplet has neither; use dataset=nli_triplet"
            )
        if form == "pair" and neutral is not None:
            raise ValueError("Nli: neutral is for form=triplet, pairs have labels; use dataset=nli_three_way")
        self.form = form
        self.targets = ("score", "label") if form == "pair" else ()
        self.views = tuple(FORMS[form])
        if neutral == "column":
            self.targets, self.views = ("hard_negatives",), ("left", "right", "negative_1", "negative_2")
        self._neutral = neutral
        self._sources = _chosen("sources", sources, default=_SOURCES, accepted=_SOURCES)
        self._labels = _chosen("labels", labels, default=("entailment", "contradiction"), accepted=LABELS)
        self._scores = _scale(scores, self._labels)

    def files(self, split: str, store: Store) -> list[str]:
        """The files of the split, by their names in the store; whole training splits before samples."""
        self.require(split)
        if self.form == "triplet" and self._neutral is None:
            return [_TRIPLES]
        whole = {source: f"nli/{source}_train.jsonl.gz" for source in self._sources}
        pairs = [
            file if store.has(file) else f"nli/{source}_train_sample.jsonl.gz"
            for source, file in whole.items()
        ]
        return [_TRIPLES, *pairs] if self.form == "triplet" else pairs

    def read(self, split: str, store: Store) -> Rows:
        """The rows of the split, source after source, in file order; DataError also if no row is left."""
        files = self.files(split, store)
        key = {
            "data_set": self.name,
            "form": self.form,
            "sources": list(self._sources),
            "labels": list(self._labels),
            "scores": self._scores,
            **({} if self._neutral is None else {"neutral": self._neutral}),
        }
        paths = [store.path(file) for file in files]
        return mapped_if_large(paths, key, lambda: self._read(split, files, store))

    def _read(self, split: str, files: list[str], store: Store) -> Rows:
        rows = (self._triplets if self.form == "triplet" else self._pairs)(split, files, store)
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
            typed = store.typed(file, _PAIR)
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
                "score": np.array([self._scores[LABELS[value]] for value in labels], np.float64),
                "label": np.array(labels, np.int64),
            },
        )

    def _triplets(self, split: str, files: list[str], store: Store) -> Rows:
        columns = ["sent0", "sent1", "hard_neg", "source"]
        typed = store.typed(_TRIPLES, dict.fromkeys(columns, sentence))
        chosen = [row for row, source in enumerate(typed["source"]) if source in self._sources]
        fields = {"left": "sent0", "right": "sent1", "negative": "hard_neg"}
        texts = {view: [typed[field][row] for row in chosen] for view, field in fields.items()}
        targets = {}
        if self._neutral is not None:
            first = _neutral_hypotheses(files[1:], store)
            neutral = [first.get(premise, "") for premise in texts["left"]]
            own = texts.pop("negative")
            if self._neutral == "drawn":
                drawn = np.random.default_rng(_DRAW).random(len(own)) < 0.5  # (rows,)
                texts["negative"] = [
                    other if other and is_drawn else one
                    for one, other, is_drawn in zip(own, neutral, drawn, strict=True)
                ]
            else:
                texts |= {"negative_1": own, "negative_2": neutral}
                targets["hard_negatives"] = np.array([1 + bool(other) for other in neutral], np.int64)
        return Rows(name=self.name, split=split, form=self.form, texts=texts, targets=targets)


def _neutral_hypotheses(files: list[str], store: Store) -> dict[str, str]:
    """The first neutral hypothesis of each premise that has one."""
    found: dict[str, str] = {}
    for file in files:
        typed = store.typed(file, _PAIR)
        for premise, hypothesis, value in zip(*typed.values(), strict=True):
            if LABELS[value] == "neutral":
                found.setdefault(premise, hypothesis)
    return found


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
    if not set(kept) <= set(scores) <= set(LABELS) or not all(map(math.isfinite, scores.values())):
        raise ValueError(
            f"Nli: scores must be a finite number for each of {', '.join(kept)}, and for none but "
            f"{', '.join(LABELS)}; got {scores}"
        )
    return scores
