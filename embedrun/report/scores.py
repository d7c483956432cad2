"""The scores of a run, the evaluation rows seen in training, its worst pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from embedrun.console import before_training, number, numbers, score
from embedrun.files import Plain
from embedrun.runs.reading import POOLING


def interval(results: Plain, key: str) -> tuple[float, float] | None:
    """The ends of the 95 % interval of a score, if there are two and in order."""
    ends = mapping_of(results.get("intervals")).get(key)
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        return None
    low, high = number(ends[0]), number(ends[1])
    return None if low is None or high is None or low > high else (low, high)


def mapping_of(value: object) -> Plain:
    """The value, if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


_CLEAN = "_clean"  # as embedrun/evaluation/scores.py, which imports torch, ends the keys of clean scores
# Column, and how its heading reads.
HEADINGS = {
    "before": "before training",
    "value": "trained",
    "gain": "difference",
    "interval": "95 % interval",
    "clean": "unseen rows only",
    "paper": "paper",
    "to_paper": "to the paper",
}


@dataclass(frozen=True)
class ScoreRow:
    """One score, by its key in `results.json`, with its cells as written, by column.

    `main`: whether it stands for the run.
    """

    key: str
    main: bool
    cells: dict[str, str]


@dataclass(frozen=True)
class Suite:
    """The scores whose keys start with one name; those of parts of its sets are folded."""

    name: str
    rows: tuple[ScoreRow, ...]
    folded: tuple[ScoreRow, ...]


@dataclass(frozen=True)
class ScoreTable:
    """All scores: the headings of the columns that hold anything, and the suites, dev splits last."""

    headings: dict[str, str]
    suites: tuple[Suite, ...]


def table(results: Plain, published: Mapping[str, float]) -> ScoreTable:
    """From `results.json`, which may lack anything; `published` has the paper's numbers by key."""
    scores, before = numbers(results.get("scores")), numbers(results.get("baseline"))
    main = mapping_of(results.get("main")).get("name")
    rows: dict[str, list[ScoreRow]] = {}
    for key, value in scores.items():
        if key.endswith(_CLEAN):
            continue
        written = {"before": before.get(key), "value": value, "clean": scores.get(key + _CLEAN)}
        written["paper"] = number(published.get(key))
        cells = {name: "" if figure is None else score(key, figure) for name, figure in written.items()}
        for column, other in (("gain", "before"), ("to_paper", "paper")):
            base = written[other]
            cells[column] = "" if base is None else score(key, value - base, sign="+")
        ends = interval(results, key)
        cells["interval"] = "" if ends is None else f"{score(key, ends[0])} to {score(key, ends[1])}"
        cells["clean"] = "the same" if cells["clean"] == cells["value"] else cells["clean"]
        row = ScoreRow(key, key == main, {column: cells[column] for column in HEADINGS})
        rows.setdefault(key.partition("/")[0], []).append(row)
    every = [row for suite in rows.values() for row in suite]
    headings = {column: word for column, word in HEADINGS.items() if any(row.cells[column] for row in every)}
    if "before" in headings:
        headings["before"] = before_training(mapping_of(results.get("notes")).get(POOLING))
    elif "value" in headings:
        headings["value"] = "value"
    suites = [_suite(name, suite) for name, suite in rows.items()]
    return ScoreTable(headings, tuple(sorted(suites, key=lambda suite: suite.name.endswith("_dev"))))


def _suite(name: str, rows: list[ScoreRow]) -> Suite:
    """Those of parts of a set, as sts/sts12.MSRpar/spearman, are folded."""
    folded = [
        row for row in rows if "." in row.key.rpartition("/")[0] and not (row.main or row.cells["paper"])
    ]
    return Suite(name, tuple(row for row in rows if row not in folded), tuple(folded))


_KINDS = {
    "training": ("in the training data", "Scores on rows that a model was trained on are too high."),
    "selection": ("in the dev data", "The dev data selects the checkpoint."),
}


@dataclass(frozen=True)
class SeenSet:
    """One evaluation set, named with its split, its number of rows, and how much of it was seen, as written.

    `pairs` were seen as a whole, with their share; empty where a row is one text. `sentences` are the rows of
    which a single text was seen, with their share. `any`: whether a whole row was seen.
    """

    name: str
    rows: str
    pairs: str
    sentences: str
    any: bool


@dataclass(frozen=True)
class Seen:
    """The evaluation sets, each with a row or more, against one kind of seen data.

    `where` is `in the training data`, `about` why it matters, `against` are the seen data sets.
    """

    where: str
    about: str
    against: str
    sets: tuple[SeenSet, ...]

    @property
    def summary(self) -> str:
        """Which sets have rows that were seen, in one sentence."""
        touched = [line.name for line in self.sets if line.any]
        if not touched:
            return f"No evaluation row is {self.where}."
        return (
            f"{len(touched)} of {len(self.sets)} sets ({', '.join(touched)}) have rows that are {self.where}."
        )


def seen(contamination: Plain) -> list[Seen]:
    """From `contamination.json`, which may lack anything."""
    kinds = []
    for kind, (where, about) in _KINDS.items():
        checked = mapping_of(contamination.get(kind))
        whole = [line for line in map(mapping_of, list_of(checked.get("sets"))) if line.get("subset") is None]
        sets = tuple(dict.fromkeys(_set(line) for line in whole if line))  # two tasks may score one set
        against = ", ".join(_named(mapping_of(line)) for line in list_of(checked.get("seen")))
        kinds += [Seen(where, about, against, sets)] if sets else []
    return kinds


def _set(line: Plain) -> SeenSet:
    rows = number(line.get("rows")) or 0
    pairs, sentences = number(line.get("pairs")), number(line.get("sentences"))
    whole = sentences if pairs is None else pairs
    name = f"{line.get('name', '?')} {line.get('split') or ''}".strip()
    return SeenSet(name, f"{rows:,.0f}", _share(pairs, rows), _share(sentences, rows), bool(whole))


def _share(part: float | None, whole: float) -> str:
    """`5 (0.4 %)`; what is above zero is never written as 0 %."""
    if not part:
        return "" if part is None else "0"
    share = 100 * part / whole if whole else 0.0
    return f"{part:,.0f} ({'under 0.1' if share < 0.1 else f'{share:.1f}'} %)"


def _named(line: Plain) -> str:
    rows = number(line.get("rows"))
    return f"{line.get('name', '?')} {line.get('split', '')}" + (
        "" if rows is None else f", {rows:,.0f} rows"
    )


def list_of(value: object) -> list[object]:
    """The value, if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


_SHOWN = 10
_LONGEST = 400  # characters of a text


@dataclass(frozen=True)
class ScoredPairs:
    """The predictions on one set of graded pairs: human scores and cosines, ``(pairs,)``.

    `key` is that of the score that they give. `texts` are the first and second text of every pair; where they
    are not available, None, and `missing` says why.
    """

    name: str
    key: str
    gold: np.ndarray
    predicted: np.ndarray
    texts: tuple[Sequence[str], Sequence[str]] | None = None
    missing: str = ""


@dataclass(frozen=True)
class WorstPair:
    """One pair; `row` counts from 1, and there are no texts where they are not available.

    The ranks are the share of the pairs below it, by human score and by cosine, in percent, ties in the
    middle.
    """

    row: int
    texts: tuple[str, ...]
    gold: str
    predicted: str
    gold_rank: float
    predicted_rank: float


@dataclass(frozen=True)
class Worst:
    """The worst-predicted pairs of one set, the largest difference of ranks first.

    `key` is that of the score that all `pairs` that were ranked give; `left_out` have no finite cosine;
    `missing` says why no texts are shown.
    """

    name: str
    key: str
    pairs: int
    left_out: int
    missing: str
    rows: tuple[WorstPair, ...]


def worst(scored: ScoredPairs) -> Worst | None:
    """The pairs of a set with the largest differences of their two ranks; None where no pair has both."""
    gold, predicted = (np.asarray(values, dtype=np.float64) for values in (scored.gold, scored.predicted))
    places = np.flatnonzero(np.isfinite(gold) & np.isfinite(predicted))  # (ranked,)
    if not len(places):
        return None
    by_gold, by_model = ranks(gold[places]), ranks(predicted[places])  # (ranked,) each
    order = np.argsort(-np.abs(by_gold - by_model), kind="stable")[:_SHOWN]
    rows = [
        WorstPair(
            row=int(places[ranked]) + 1,
            texts=tuple(_shortened(column[places[ranked]]) for column in scored.texts or ()),
            gold=f"{gold[places[ranked]]:.2f}",
            predicted=f"{predicted[places[ranked]]:.3f}".replace("-", "\N{MINUS SIGN}"),
            gold_rank=round(float(by_gold[ranked]), 1),
            predicted_rank=round(float(by_model[ranked]), 1),
        )
        for ranked in order
        if by_gold[ranked] != by_model[ranked]
    ]
    left_out = len(gold) - len(places)
    return Worst(scored.name, scored.key, len(places), left_out, scored.missing, tuple(rows))


def ranks(values: np.ndarray) -> np.ndarray:
    """The share of values below each, half of its equals among them, in percent, ``(values,)``."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts  # (distinct,)
    return (100 * (below + counts / 2) / len(values))[inverse]


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
