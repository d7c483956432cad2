"""Pairs that are alike or not: average precision, F1, accuracy; triplets in the right order."""

import numpy as np

from embedrun.evaluation.intervals import interval, mean_draws, resamples
from embedrun.rows import Rows

METRICS = ("ap", "f1", "accuracy")  # of rows with two gold scores
TRIPLETS = "triplet_accuracy"


def is_binary(gold: np.ndarray) -> bool:
    """Whether more than two pairs have two gold scores, ``(pairs,)``; the higher is that of alike ones."""
    return len(gold) > 2 and len(np.unique(gold)) == 2


def metrics_of(rows: Rows) -> tuple[str, ...]:
    """The metrics of held-out pairs beside their correlation."""
    gold = rows.targets.get("score", np.zeros(0))  # (pairs,)
    return (*(METRICS if is_binary(gold) else ()), *((TRIPLETS,) if _triplets(rows) else ()))


def scored(rows: Rows, predicted: np.ndarray, draws: int) -> tuple[dict, dict, dict]:
    r"""Scores × 100, the intervals of so many resamples, and thresholds, by metric.

    With the pairs in descending order of their cosine, and precision :math:`P_i` and recall :math:`R_i` of
    those to the *i*-th different cosine,

    .. math:: \text{ap} = \sum_i (R_i - R_{i - 1}) P_i

    `f1` and `accuracy` are the best that a threshold on the cosine reaches on these very rows, as
    sentence-transformers has them; the threshold is halfway to the next cosine. The intervals leave out that
    another draw would have another threshold. `triplet_accuracy` is the share of triplets whose positive is
    nearer than every negative.

    `predicted` are cosines, ``(pairs,)``; of pairs whose cosine is not finite there are no scores.
    """
    values: dict[str, float] = {}
    ends: dict[str, np.ndarray] = {}
    thresholds: dict[str, float] = {}
    if not np.isfinite(predicted).all():
        return values, {}, thresholds
    gold = rows.targets["score"]
    if is_binary(gold):
        alike = gold == gold.max()  # (pairs,)
        order = np.unique(-predicted, return_inverse=True)[1]  # (pairs,): 0 is the largest cosine
        values["ap"] = float(_average_precision(np.ones((1, len(gold))), alike, order)[0])
        cosines = -np.unique(-predicted)  # (cosines,), descending
        hits, taken = (np.bincount(order, weights=each).cumsum() for each in (alike, np.ones(len(gold))))
        wrong = len(gold) - alike.sum() - (taken - hits)  # (cosines,): unlike ones below the threshold
        for metric, by_cosine in (
            ("f1", 2 * hits / (taken + alike.sum())),
            ("accuracy", (hits + wrong) / len(gold)),
        ):
            place = int(by_cosine.argmax())
            values[metric] = float(by_cosine[place])
            below = cosines[min(place + 1, len(cosines) - 1)]
            thresholds[metric] = float(cosines[place] + below) / 2
        if draws:
            parts = [
                (_average_precision(counts, alike, order), _f1(counts, alike, predicted > thresholds["f1"]))
                for counts in map(_counts, resamples(len(gold), draws, 0))
            ]
            ends["ap"], ends["f1"] = map(np.concatenate, zip(*parts, strict=True))
            right = (predicted > thresholds["accuracy"]) == alike  # (pairs,)
            ends["accuracy"] = mean_draws(right, draws=draws)
    if triplets := _triplets(rows):
        nearest = predicted[triplets:].reshape(-1, triplets).max(axis=0)  # (triplets,): of the negatives
        right = predicted[:triplets] > nearest
        values[TRIPLETS] = float(right.mean())
        if draws:
            ends[TRIPLETS] = mean_draws(right, draws=draws)
    intervals = {metric: tuple(100 * end for end in interval(drawn)) for metric, drawn in ends.items()}
    return {metric: 100 * value for metric, value in values.items()}, intervals, thresholds


def _counts(places: np.ndarray) -> np.ndarray:
    """How often each pair was drawn, ``(draws, pairs)``, from the drawn rows, ``(draws, pairs)``."""
    draws, rows = places.shape
    flat = (places + rows * np.arange(draws)[:, None]).ravel()
    return np.bincount(flat, minlength=draws * rows).reshape(draws, rows)


def _average_precision(counts: np.ndarray, alike: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Of draws, ``(draws, pairs)``; NaN where none of the drawn pairs is alike."""
    rows = np.argsort(order, kind="stable")
    last = np.flatnonzero(np.diff(order[rows], append=order.max() + 1))  # (cosines,)
    hits = (counts * alike)[:, rows].cumsum(axis=1)[:, last]  # (draws, cosines)
    taken = counts[:, rows].cumsum(axis=1)[:, last]
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = np.where(taken > 0, hits / taken, 0.0)
        gained = np.diff(hits, axis=1, prepend=0) / hits[:, -1:]
        return (gained * precision).sum(axis=1)


def _f1(counts: np.ndarray, alike: np.ndarray, taken: np.ndarray) -> np.ndarray:
    hits = (counts * (alike & taken)).sum(axis=1)  # (draws,)
    with np.errstate(invalid="ignore", divide="ignore"):
        return 2 * hits / ((counts * alike).sum(axis=1) + (counts * taken).sum(axis=1))


def _triplets(rows: Rows) -> int:
    """How many triplets the pairs are, all with the positives first, then with negatives; 0: none."""
    gold, left = rows.targets.get("score", np.zeros(0)), rows.texts.get("left", [])
    many = int((gold == 1).sum())
    if not 0 < many < len(gold) or len(gold) % many or (gold[:many] != 1).any() or (gold[many:] != 0).any():
        return 0
    return many if list(left) == list(left[:many]) * (len(gold) // many) else 0
