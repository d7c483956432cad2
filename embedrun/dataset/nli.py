"""SNLI and MultiNLI for training: labelled pairs, with scores of teachers too, or triplets."""

from collections.abc import Mapping
from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np

from embedrun.dataset.prepared import mapped_if_large
from embedrun.dataset.published import OfStore, scored
from embedrun.errors import DataError
from embedrun.files import Plain, expanded
from embedrun.rows import FORMS, Rows
from embedrun.store import Store
from embedrun.store.columns import LABELS, label, sentence

Source = Literal["snli", "mnli"]
Label = Literal["entailment", "neutral", "contradiction"]
Neutral = Literal["column", "drawn"]
_SOURCES = ("snli", "mnli")
# SNLI and MultiNLI have no graded scores; neutral stands between, and only the order counts.
# What the rows of each form have beside their texts, and the views of these, by `neutral`.
_LAYOUTS = {
    ("pair", None): (("score", "label"), tuple(FORMS["pair"])),
    ("triplet", None): ((), tuple(FORMS["triplet"])),
    ("triplet", "drawn"): ((), tuple(FORMS["triplet"])),
    ("triplet", "column"): (("hard_negatives",), ("left", "right", "negative_1", "negative_2")),
}
_SCORES = {"entailment": 1.0, "neutral": 0.5, "contradiction": 0.0}
_TRIPLES = "nli/triples.jsonl.gz"
_PAIR = {"premise": sentence, "hypothesis": sentence, "label": label}
_DRAW = 42  # seed; not that of the run, so that runs of several seeds have the same rows


class Nli(OfStore):
    """Natural language inference as training rows: premise on the left, hypothesis on the right.

    Sources: Bowman et al. 2015 (SNLI), doi:10.18653/v1/D15-1075; Williams et al. 2018 (MultiNLI),
    doi:10.18653/v1/N18-1101. AnglE's released trainer takes entailment as 1 and contradiction as 0 and leaves
    neutral out, which is the default here; triplets are in the form of SimCSE's supervised training file.

    Pairs come from `nli/<source>_train.jsonl.gz`, the whole training split, where the store has it, else from
    `nli/<source>_train_sample.jsonl.gz`. Triplets come from `nli/triples.jsonl.gz`, their neutral hypotheses
    from the pairs: of each premise the first in file order.

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
        if (form, neutral) not in _LAYOUTS:
            raise ValueError("Nli: neutral is for form=triplet, pairs have labels; use dataset=nli_three_way")
        self.form, self._neutral = form, neutral
        self.targets, self.views = _LAYOUTS[form, neutral]
        self._sources = tuple(dict.fromkeys(_SOURCES if sources is None else sources))
        self._labels = tuple(dict.fromkeys(["entailment", "contradiction"] if labels is None else labels))
        if not self._sources or not self._labels:
            raise ValueError("Nli: sources and labels must name at least one")
        self._scores = dict(_SCORES if scores is None else scores)
        if not set(self._labels) <= set(self._scores) <= set(LABELS):
            raise ValueError(
                f"Nli: scores must be a number for each of {', '.join(self._labels)}, and for none but "
                f"{', '.join(LABELS)}; got {scores}"
            )

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
            "neutral": self._neutral,
        }
        read = self._triplets if self.form == "triplet" else self._pairs
        rows = mapped_if_large([store.path(file) for file in files], key, partial(read, split, files, store))
        if not len(rows):
            kept = self._sources if self.form == "triplet" else self._labels
            raise DataError(f"{', '.join(files)}: no row is of {' or '.join(kept)}")
        return rows

    def _pairs(self, split: str, files: list[str], store: Store) -> Rows:
        rows = [row for row in _labelled(files, store) if LABELS[row[2]] in self._labels]
        return Rows(
            name=self.name,
            split=split,
            form=self.form,
            texts={"left": [row[0] for row in rows], "right": [row[1] for row in rows]},
            targets={
                "score": np.array([self._scores[LABELS[row[2]]] for row in rows], np.float64),
                "label": np.array([row[2] for row in rows], np.int64),
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
            rows = reversed(_labelled(files[1:], store))  # the first in file order is the one that stays
            first = {premise: text for premise, text, value in rows if LABELS[value] == "neutral"}
            neutral = [first.get(premise, "") for premise in texts["left"]]
            negative = texts.pop("negative")
            if self._neutral == "drawn":
                is_drawn = np.random.default_rng(_DRAW).random(len(negative)) < 0.5  # (rows,)
                choices = zip(negative, neutral, is_drawn, strict=True)
                texts["negative"] = [other if other and drawn else text for text, other, drawn in choices]
            else:
                texts |= {"negative_1": negative, "negative_2": neutral}
                targets["hard_negatives"] = np.array([1 + bool(text) for text in neutral], np.int64)
        return Rows(name=self.name, split=split, form=self.form, texts=texts, targets=targets)


def _labelled(files: list[str], store: Store) -> list[tuple[str, str, int]]:
    return [row for file in files for row in zip(*store.typed(file, _PAIR).values(), strict=True)]


class NliScored(OfStore):
    """What `embedrun annotate` writes, as training rows: premise on the left, hypothesis on the right.

    Source: RAOE, Sec. 3.1 and Appendix A: pairs of SNLI and MultiNLI of all three labels, and as score the
    mean cosine of the teachers, from -1 to 1. A file with a faulty row is refused; its line is named.

    Args:
        path: output folder of `embedrun annotate`, or a file of its form (`.jsonl` or `.jsonl.gz` with the
            fields text1, text2, label and score), relative to the caller's folder; null for
            `nli/nli_scored.jsonl.gz` of the store.
        column: of the score: `score`, the mean over the teachers; `score_1`, `score_2` and so on, that of one
            teacher; `similarity`, that of the authors' own file.
    """

    name = "nli_scored"
    targets = ("score", "label")
    splits = ("train",)
    pattern = "nli/nli_scored.jsonl.gz"
    fields = ("text1", "text2")
    values = scored(-1, 1) | {"label": ("label", label)}
    is_kept = True
    maker = "embedrun annotate output=DIR"

    def __init__(self, *, path: str | None = None, column: str = "score") -> None:
        self.values = {**self.values, "score": (column, self.values["score"][1])}
        if path is not None:
            file = expanded(path).absolute()
            file = file / "nli_scored.jsonl.gz" if file.is_dir() else file
            self.place, self.pattern = Store(file.parent), file.name


_SHARES = tuple(share / 10 for share in range(1, 10))


def grouped(label: np.ndarray, score: np.ndarray) -> dict[str, np.ndarray]:
    """Scores by the name of their label, ``(rows,)`` each; a label without rows is left out."""
    groups = {name: score[label == code] for code, name in enumerate(LABELS)}
    return {name: scores for name, scores in groups.items() if len(scores)}


def conflicts(groups: Mapping[str, np.ndarray]) -> dict[tuple[str, str], float]:
    """Of the pairs of a row of each of two NLI labels, the share whose scores are the other way round.

    Equal scores count half, so that this is 1 - AUC; by the names of both labels, the more similar first.
    `groups` are those of `grouped`. It is the conflict of signals of RAOE's introduction and Figure 1.
    """
    found = {}
    for (better, high), (worse, low) in combinations(groups.items(), 2):
        ordered = np.sort(low)  # (rows of the second label,)
        below, upto = (np.searchsorted(ordered, high, side) for side in ("left", "right"))
        above = (
            len(low) - (below + upto) / 2
        )  # (rows of the first label,), of the second, with half of equals
        found[better, worse] = float(above.mean() / len(low))
    return found


def by_label(groups: Mapping[str, np.ndarray]) -> dict[str, Plain]:
    """Pairs, mean score, the nine deciles and conflicts with the labels after it, by label.

    `groups` are scores by label, ``(rows,)`` each.
    """
    against = conflicts(groups)
    return {
        name: {
            "pairs": len(scores),
            "mean": round(float(scores.mean()), 6),
            "deciles": [round(float(value), 6) for value in np.quantile(scores, _SHARES)],
            "conflicts": {
                worse: round(share, 6) for (better, worse), share in against.items() if better == name
            },
        }
        for name, scores in groups.items()
    }
