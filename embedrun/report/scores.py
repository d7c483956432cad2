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
    """All scores of a run.

    Args:
        headings: by column, of the columns that hold anything.
        suites: in the order of the results; those of dev splits last.
        clean: whether there are scores without the rows that were trained on.
        lost: published numbers that the run has no score for, by key.
    """

    headings: dict[str, str]
    suites: tuple[Suite, ...]
    clean: bool
    lost: dict[str, str]


def table(results: Plain, published: Mapping[str, float]) -> ScoreTable:
    """From `results.json`, which may lack anything; `published` has the paper's numbers by key."""
    scores, before = numbers(results.get("scores")), numbers(results.get("baseline"))
    main = results.get("main")
    main = main.get("name") if isinstance(main, Mapping) else None
    rows: dict[str, list[ScoreRow]] = {}
    for key in (key for key in scores if not key.endswith(_CLEAN)):
        cells = _cells(key, scores, before.get(key), number(published.get(key)), interval(results, key))
        rows.setdefault(key.partition("/")[0], []).append(ScoreRow(key, key == main, cells))
    every = [row for own in rows.values() for row in own]
    headings = {
        column: heading for column, heading in HEADINGS.items() if any(row.cells[column] for row in every)
    }
    if "before" in headings:
        headings["before"] = before_training(mapping_of(results.get("notes")).get(POOLING))
    elif "value" in headings:
        headings["value"] = "value"
    suites = sorted(
        (_suite(name, own) for name, own in rows.items()), key=lambda one: one.name.endswith("_dev")
    )
    lost = {key: score(key, number(value)) for key, value in published.items() if key not in scores}
    return ScoreTable(headings, tuple(suites), "clean" in headings, lost)


def _cells(
    key: str,
    scores: Mapping[str, float],
    before: float | None,
    paper: float | None,
    ends: tuple[float, float] | None,
) -> dict[str, str]:
    value, clean = scores[key], scores.get(key + _CLEAN)
    same = clean is not None and score(key, clean) == score(key, value)
    return {
        "before": "" if before is None else score(key, before),
        "value": score(key, value),
        "gain": "" if before is None else score(key, value - before, sign="+"),
        "interval": "" if ends is None else f"{score(key, ends[0])} to {score(key, ends[1])}",
        "clean": "" if clean is None else "the same" if same else score(key, clean),
        "paper": "" if paper is None else score(key, paper),
        "to_paper": "" if paper is None else score(key, value - paper, sign="+"),
    }


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

    Args:
        where: `in the training data`.
        about: why it matters.
        against: the seen data sets.
        summary: in one sentence.
    """

    where: str
    about: str
    against: str
    sets: tuple[SeenSet, ...]
    summary: str


def seen(contamination: Plain) -> list[Seen]:
    """From `contamination.json`, which may lack anything."""
    found = []
    for kind, (where, about) in _KINDS.items():
        own = contamination.get(kind)
        if not isinstance(own, Mapping):
            continue
        whole = [
            one for one in list_of(own.get("sets")) if isinstance(one, Mapping) and one.get("subset") is None
        ]
        sets = tuple(dict.fromkeys(map(_set, whole)))  # two tasks may score one set
        if sets:
            against = ", ".join(_named(one) for one in list_of(own.get("seen")) if isinstance(one, Mapping))
            touched = [one.name for one in sets if one.any]
            found.append(Seen(where, about, against, sets, f"{_summary(touched, len(sets))} {where}."))
    return found


def _summary(touched: list[str], sets: int) -> str:
    if not touched:
        return "No evaluation row is"
    if len(touched) == sets:
        return f"All {sets} sets have rows that are" if sets > 1 else f"Rows of {touched[0]} are"
    return f"{len(touched)} of {sets} sets ({', '.join(touched)}) have rows that are"


def _set(one: Plain) -> SeenSet:
    rows = number(one.get("rows")) or 0
    pairs, sentences = number(one.get("pairs")), number(one.get("sentences"))
    whole = sentences if pairs is None else pairs
    name = f"{one.get('name', '?')} {one.get('split') or ''}".strip()
    return SeenSet(name, f"{rows:,.0f}", _share(pairs, rows), _share(sentences, rows), bool(whole))


def _share(part: float | None, whole: float) -> str:
    """`5 (0.4 %)`; what is above zero is never written as 0 %."""
    if part is None:
        return ""
    if not part:
        return "0"
    share = 100 * part / whole if whole else 0.0
    return f"{part:,.0f} ({'under 0.1' if share < 0.1 else f'{share:.1f}'} %)"


def _named(one: Plain) -> str:
    rows = number(one.get("rows"))
    return f"{one.get('name', '?')} {one.get('split', '')}" + ("" if rows is None else f", {rows:,.0f} rows")


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

    Args:
        key: of the score that all pairs of the set give.
        pairs: how many were ranked.
        left_out: pairs without a finite cosine.
        missing: why no texts are shown; empty where they are.
    """

    name: str
    key: str
    pairs: int
    left_out: int
    missing: str
    rows: tuple[WorstPair, ...]


def worst(scored: ScoredPairs) -> Worst | None:
    """The pairs of a set with the largest differences of their two ranks; None where no pair has both."""
    gold, predicted = (np.asarray(one, dtype=np.float64) for one in (scored.gold, scored.predicted))
    places = np.flatnonzero(np.isfinite(gold) & np.isfinite(predicted))  # (ranked,)
    if not len(places):
        return None
    by_gold, by_model = ranks(gold[places]), ranks(predicted[places])  # (ranked,) each
    order = np.argsort(-np.abs(by_gold - by_model), kind="stable")[:_SHOWN]
    rows = [
        WorstPair(
            row=int(places[one]) + 1,
            texts=_texts(scored, int(places[one])),
            gold=f"{gold[places[one]]:.2f}",
            predicted=f"{predicted[places[one]]:.3f}".replace("-", "\N{MINUS SIGN}"),
            gold_rank=round(float(by_gold[one]), 1),
            predicted_rank=round(float(by_model[one]), 1),
        )
        for one in order
        if by_gold[one] != by_model[one]
    ]
    left_out = len(gold) - len(places)
    return Worst(scored.name, scored.key, len(places), left_out, scored.missing, tuple(rows))


def ranks(values: np.ndarray) -> np.ndarray:
    """The share of values below each, half of its equals among them, in percent, ``(values,)``."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts  # (distinct,)
    return (100 * (below + counts / 2) / len(values))[inverse]


def _texts(scored: ScoredPairs, place: int) -> tuple[str, ...]:
    if scored.texts is None:
        return ()
    return tuple(_shortened(column[place]) for column in scored.texts)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
