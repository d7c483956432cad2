"""What a run measured: values by step, scores, the evaluation rows seen in training, its worst pairs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from embedrun.console import before_training, number, numbers, score, score_text
from embedrun.files import Plain
from embedrun.runs.reading import POOLING, at, json_rows

Points = Sequence[tuple[int, float | None]]  # step and value, in order of step; None where it is undefined


def thinned(points: Points, most: int) -> list[tuple[int, float | None]]:
    """At most `most` points: of each section the lowest and the highest."""
    if len(points) <= most:
        return list(points)
    kept: set[int] = {0, len(points) - 1}
    length = math.ceil(2 * len(points) / (most - 2))
    for begin in range(0, len(points), length):
        places = range(begin, min(begin + length, len(points)))
        defined = [(value, place) for place in places if (value := points[place][1]) is not None]
        kept |= {min(defined)[1], max(defined)[1]} if defined else {begin}
    return [points[place] for place in sorted(kept)]


@dataclass(frozen=True)
class Metrics:
    """The contents of `metrics.jsonl`, and how many of its lines cannot be read.

    Points are in order of step, by split and name; of two lines about one step the later counts.
    """

    series: dict[tuple[str, str], list[tuple[int, float | None]]] = field(default_factory=dict)
    faults: int = 0

    @classmethod
    def read(cls, path: Path) -> "Metrics":
        """The values of a run so far; none where there is no file."""
        series: dict[tuple[str, str], dict[int, float | None]] = {}
        faults = 0
        for row in _rows(path):
            if row.keys() >= {"split", "name"} and isinstance(step := row.get("step"), int):
                series.setdefault((row["split"], row["name"]), {})[step] = number(row.get("value"))
            else:
                faults += 1
        return cls({key: sorted(points.items()) for key, points in series.items()}, faults)

    def of(self, split: str) -> dict[str, list[tuple[int, float | None]]]:
        """The series of one split by name, in the order of the file."""
        return {name: points for (where, name), points in self.series.items() if where == split}


@dataclass(frozen=True)
class Speed:
    """The median rows per second of training and the most bytes on the device; None where not measured."""

    rows_per_second: float | None
    memory: float | None

    @classmethod
    def read(cls, path: Path) -> "Speed":
        """The summary of those lines that can be read."""
        rows = list(_rows(path))
        rates = [rate for row in rows if (rate := number(row.get("rows_per_second"))) is not None]
        memory = [most for row in rows if (most := number(row.get("memory"))) is not None]
        return cls(median(rates) if rates else None, max(memory, default=None))


def _rows(path: Path) -> Iterator[Plain]:
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from json_rows(file)


def interval(results: Plain, key: str) -> tuple[float, float] | None:
    """The ends of the 95 % interval of a score, where there is one."""
    ends = results.get("intervals", {}).get(key)
    return (float(ends[0]), float(ends[1])) if ends else None


def change_lines(before: Plain, scores: Plain, changes: Plain) -> list[str]:
    """What training did to each of several dev scores: `general: 82.03 -> 79.12 (-2.91 ± 0.60)`.

    ± is half of its interval.
    """
    return (
        []
        if len(changes) < 2
        else [
            f"{key.partition('/')[0].removesuffix('_dev')}: {score_text(key, old)} -> {score_text(key, new)} "
            f"({score_text(key, new - old, sign=True)} ± {score_text(key, (high - low) / 2)})"
            for key, (low, high) in changes.items()
            if (old := number(before.get(key))) is not None and (new := number(scores.get(key))) is not None
        ]
    )


CLEAN = "_clean"  # as embedrun/evaluation/scores.py, which imports torch, ends the keys of clean scores
# Column, and how its heading reads.
HEADINGS = {
    "before": "before training",
    "value": "trained",
    "gain": "difference",
    "interval": "95 % interval",
    "clean": "unseen rows only",
}


class ScoreRow(NamedTuple):
    """One score, by its key in `results.json`: whether it stands for the run, and its cells by column."""

    key: str
    main: bool
    cells: dict[str, str]


class Suite(NamedTuple):
    """The scores whose keys start with one name; those of parts of its sets are folded."""

    name: str
    rows: list[ScoreRow]
    folded: list[ScoreRow]


class ScoreTable(NamedTuple):
    """All scores: the headings of the columns that hold anything, and the suites, dev splits last."""

    headings: dict[str, str]
    suites: list[Suite]


def table(results: Plain) -> ScoreTable:
    """From `results.json`, which lacks everything while a run goes on."""
    scores, main = numbers(results.get("scores")), at(results, "main.name")
    rows: dict[str, list[ScoreRow]] = {}
    for key in scores:
        if not key.endswith(CLEAN):
            row = ScoreRow(key, key == main, _cells(key, scores, results))
            rows.setdefault(key.partition("/")[0], []).append(row)
    of_training = {"before": before_training(at(results, f"notes.{POOLING}"))}
    words = HEADINGS | (of_training if results.get("baseline") else {"value": "value"})
    every = list(chain.from_iterable(rows.values()))
    headings = {column: word for column, word in words.items() if any(row.cells[column] for row in every)}
    suites = [_suite(name, suite) for name, suite in rows.items()]
    return ScoreTable(headings, sorted(suites, key=lambda suite: suite.name.endswith("_dev")))


def _cells(key: str, scores: dict[str, float], results: Plain) -> dict[str, str]:
    value, clean = score(key, scores[key]), _written(key, scores.get(key + CLEAN))
    baseline = numbers(results.get("baseline")).get(key)
    return {
        "before": _written(key, baseline),
        "value": value,
        "gain": _written(key, None if baseline is None else scores[key] - baseline, sign="+"),
        "interval": " to ".join(_written(key, end) for end in interval(results, key) or ()),
        "clean": "the same" if clean == value else clean,
    }


def _written(key: str, value: float | None, sign: str = "") -> str:
    return "" if value is None else score(key, value, sign=sign)


def _suite(name: str, rows: list[ScoreRow]) -> Suite:
    """Scores of parts of a set, as sts/sts12.MSRpar/spearman, are folded."""
    folded = [row for row in rows if "." in row.key.rpartition("/")[0] and not row.main]
    return Suite(name, [row for row in rows if row not in folded], folded)


_KINDS = {
    "training": ("in the training data", "Scores on rows that a model was trained on are too high."),
    "selection": ("in the dev data", "The dev data selects the checkpoint."),
}


class SeenSet(NamedTuple):
    """One evaluation set: its rows, how many of them, and of how many a single text, were seen, in words."""

    name: str
    rows: str
    pairs: str  # empty where a row is one text
    sentences: str
    any: bool  # whether a whole row was seen


class Seen(NamedTuple):
    """The evaluation sets against the seen data, `against`: where that is, why it matters, how much it is."""

    where: str
    about: str
    against: str
    sets: list[SeenSet]
    summary: str


def seen(contamination: Plain) -> list[Seen]:
    """From `contamination.json`; nothing where that was not checked."""
    kinds = []
    for kind, (where, about) in _KINDS.items():
        checked = contamination.get(kind, {})
        whole = [line for line in checked.get("sets", []) if line["subset"] is None]
        if sets := list(dict.fromkeys(map(_set, whole))):  # two tasks may score one set
            against = ", ".join(f"{_named(rows)}, {rows['rows']:,} rows" for rows in checked["seen"])
            touched = [line.name for line in sets if line.any]
            some = f"{len(touched)} of {len(sets)} sets ({', '.join(touched)}) have rows that are"
            summary = f"{some if touched else 'No evaluation row is'} {where}."
            kinds.append(Seen(where, about, against, sets, summary))
    return kinds


def _set(line: Plain) -> SeenSet:
    rows, pairs, sentences = line["rows"], line["pairs"], line["sentences"]
    whole = sentences if pairs is None else pairs
    return SeenSet(_named(line), f"{rows:,}", _share(pairs, rows), _share(sentences, rows), bool(whole))


def _named(line: Plain) -> str:
    return f"{line['name']} {line['split']}"


def _share(part: int | None, whole: int) -> str:
    """`5 (0.4 %)`; what is above zero is never written as 0 %."""
    if not part:
        return "" if part is None else "0"
    share = 100 * part / whole
    return f"{part:,} ({'under 0.1' if share < 0.1 else f'{share:.1f}'} %)"


_SHOWN = 10
_LONGEST = 400  # characters of a text


@dataclass(frozen=True)
class ScoredPairs:
    """The predictions on one set of graded pairs: human scores and cosines, ``(pairs,)``, and their texts.

    `key` is that of the score that they give; `missing` says why there are no texts.
    """

    name: str
    key: str
    gold: np.ndarray
    predicted: np.ndarray
    texts: tuple[Sequence[str], Sequence[str]] | None = None
    missing: str = ""


class WorstPair(NamedTuple):
    """One pair; `row` counts from 1, and the ranks are by `ranks`."""

    row: int
    texts: tuple[str, ...]
    gold: str
    predicted: str
    gold_rank: float
    predicted_rank: float


class Worst(NamedTuple):
    """The worst-predicted pairs of one set; `pairs` were ranked, `left_out` have no finite cosine."""

    name: str
    pairs: int
    left_out: int
    missing: str
    rows: list[WorstPair]


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
            texts=tuple(_shortened(column[int(places[ranked])]) for column in scored.texts or ()),
            gold=f"{gold[places[ranked]]:.2f}",
            predicted=f"{predicted[places[ranked]]:.3f}".replace("-", "\N{MINUS SIGN}"),
            gold_rank=round(float(by_gold[ranked]), 1),
            predicted_rank=round(float(by_model[ranked]), 1),
        )
        for ranked in order
        if by_gold[ranked] != by_model[ranked]
    ]
    return Worst(scored.name, len(places), len(gold) - len(places), scored.missing, rows)


def ranks(values: np.ndarray) -> np.ndarray:
    """The share of values below each, half of its equals among them, in percent, ``(values,)``."""
    from scipy.stats import rankdata

    return 100 * (rankdata(values) - 0.5) / len(values)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
