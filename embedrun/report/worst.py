"""The pairs that a model ranks most differently from people."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_SHOWN = 10
_LONGEST = 400  # characters of a text


@dataclass(frozen=True)
class ScoredPairs:
    """The predictions on one set of graded pairs.

    Args:
        name: of the set.
        key: of the score that they give.
        gold: human scores, ``(pairs,)``.
        predicted: cosines, ``(pairs,)``.
        texts: first and second text of every pair; None where they are not at hand.
        missing: why they are not; empty where they are.
    """

    name: str
    key: str
    gold: np.ndarray
    predicted: np.ndarray
    texts: tuple[Sequence[str], Sequence[str]] | None = None
    missing: str = ""


@dataclass(frozen=True)
class WorstPair:
    """One pair.

    Args:
        row: in the set, from 1.
        texts: the two, or none where they are not at hand.
        gold: human score as written.
        predicted: cosine as written.
        gold_rank: share of the pairs below it by human score, in percent, ties in the middle.
        predicted_rank: the same by cosine.
    """

    row: int
    texts: tuple[str, ...]
    gold: str
    predicted: str
    gold_rank: float
    predicted_rank: float


@dataclass(frozen=True)
class Worst:
    """The worst-predicted pairs of one set.

    Args:
        name: of the set.
        key: of the score that all its pairs give.
        pairs: that were ranked.
        left_out: pairs without a finite cosine.
        missing: why no texts are shown; empty where they are.
        rows: the largest difference of ranks first.
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
