"""SentEval's validation of classifiers of sentence vectors: rows, folds, choice of the regulariser, scores.

Source: SentEval, senteval/tools/validation.py. A `Method` is the kind of classifier that is validated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from embedrun.evaluation.scores import Encode, Progress, unheard
from embedrun.rows import Rows

FOLDS = 10
NESTED_SEED = 1111  # of both splits of nested cross-validation, whatever the classifier's seed


@dataclass(frozen=True)
class Examples:
    """Rows with a class.

    Args:
        features: float32, ``(rows, dim)``, of pairs ``(pairs, 2 × dim)``.
        labels: class of each row from 0, int64, ``(rows,)``.
        order: place of each in the data set's own order, int64, ``(rows,)``.
    """

    features: np.ndarray
    labels: np.ndarray
    order: np.ndarray


def examples(rows: Rows, encode: Encode) -> Examples:
    """Encode rows of form `text` or `pair`, with a `category`, and put them in SentEval's order.

    SentEval sorts by the number of words, of pairs first by that of the left text; then by class. Rows that
    agree in all of these stay in order. It is the order that folds and minibatches are drawn from. Texts are
    their words with one space between them; an empty text stays one.

    The features of a pair are :math:`|u - v|` and :math:`u v`, elementwise.
    """
    words = {view: [text.split() for text in texts] for view, texts in rows.texts.items()}
    labels = rows.targets["category"].astype(np.int64)  # (rows,)
    lengths = [np.array([len(text) for text in texts]) for texts in words.values()]  # (rows,) each
    order = np.lexsort((labels, *reversed(lengths)))  # (rows,); the last key counts most
    vectors = [
        _vectors([" ".join(text) for text in texts], list(rows.texts[view]), encode)
        for view, texts in words.items()
    ]
    if rows.form == "pair":
        left, right = vectors  # (pairs, dim) each
        features = torch.cat([(left - right).abs(), left * right], dim=1)  # (pairs, 2 × dim)
    else:
        (features,) = vectors
    return Examples(features.numpy()[order], labels[order], order)


def _vectors(texts: list[str], given: list[str], encode: Encode) -> Tensor:
    """Vectors of texts, ``(texts, dim)``; the few that differ from the given ones are encoded separately.

    The given texts may have been encoded before, and are then looked up.
    """
    changed = [place for place, text in enumerate(texts) if text != given[place]]
    vectors = encode(given)  # (texts, dim)
    if changed:
        vectors = vectors.clone()
        vectors[changed] = encode([texts[place] for place in changed])
    return vectors


def stratified(labels: np.ndarray, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The training and the held-out rows of each fold, both in ascending order, from labels ``(rows,)``.

    The folds are those of scikit-learn's `StratifiedKFold(folds, shuffle=True, random_state=seed)`, which
    SentEval uses and which takes seconds to import: the sorted labels are dealt out in turn, which says how
    many rows of a class each fold holds out; which rows these are is a shuffle of the class, in order of its
    first appearance. Fewer than two folds, or no class with a row for each, are a ValueError.
    """
    _, first, counts = np.unique(labels, return_index=True, return_counts=True)
    if folds < 2 or counts.max() < folds:
        raise ValueError(f"stratified: {folds} folds need a class of as many rows, and two folds at least")
    classes = labels[np.sort(first)]  # (classes,), by first appearance
    rank = (labels[:, None] == classes).argmax(axis=1)  # (rows,), place of each row's class
    dealt, generator = np.sort(rank), np.random.RandomState(seed)
    held_out = np.empty(len(labels), dtype=np.int64)  # (rows,), the fold that holds each out
    for place in range(len(classes)):
        shares = [np.sum(dealt[fold::folds] == place) for fold in range(folds)]
        order = np.repeat(np.arange(folds), shares)  # (rows of the class,)
        generator.shuffle(order)
        held_out[rank == place] = order
    return [(np.flatnonzero(held_out != fold), np.flatnonzero(held_out == fold)) for fold in range(folds)]


@dataclass(frozen=True)
class Outcome:
    """The accuracies of one set and the class of each scored row.

    Args:
        dev: accuracy × 100 on held-out training rows, with the chosen regularisers.
        test: accuracy × 100 as SentEval prints it, to two decimals.
        predicted: class of each test row, int64, ``(rows,)``; of a set without a test split, the class
            from the outer fold that held the row out.
        chosen: the regulariser of each outer fold; of a set with a test split, the one.
    """

    dev: float
    test: float
    predicted: np.ndarray
    chosen: list[float]


@dataclass(frozen=True)
class Fit:
    """Classifiers that share their rows.

    Args:
        train: rows they are trained on, in the order that permutations refer to, ``(train rows,)``.
        held_out: rows of which each has an accuracy, ``(held-out rows,)``.
        regularisers: one of each classifier, in the method's own unit.
        drawn: rows of the permutation that was drawn before training, or 0.
    """

    train: np.ndarray
    held_out: np.ndarray
    regularisers: tuple[float, ...]
    drawn: int = 0


@dataclass(frozen=True)
class Fitted:
    """One trained classifier.

    Args:
        accuracy: on the held-out rows, in [0, 1]; NaN without any.
        weights: the bias last, ``(classes, dim + 1)``.
        rounds: that it was trained for.
    """

    accuracy: float
    weights: np.ndarray
    rounds: int = 0

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Class of each row, int64, ``(rows,)``; of equal logits the first."""
        return (features @ self.weights[:, :-1].T + self.weights[:, -1]).argmax(axis=1)


# Fits, and what is called with the number of newly trained classifiers -> classifiers by fit and regulariser.
Trainer = Callable[[Sequence[Fit], Callable[[int], None]], list[list[Fitted]]]


class Method(Protocol):
    """A kind of classifier."""

    seed: int  # of the folds of a set with a test split

    def regularisers(self, splits: int) -> tuple[float, ...]:
        """Those to choose from, for a set of that many splits."""
        ...

    def trainer(self, features: np.ndarray, labels: np.ndarray) -> Trainer:
        """Trains on some of these rows: float32, ``(rows, dim)``, and int64, ``(rows,)``."""
        ...

    def last(self, rows: np.ndarray, regulariser: float) -> Fit:
        """The fit of the chosen classifier to these rows, int64, ``(rows,)``."""
        ...


def validate(method: Method, splits: Sequence[Examples], progress: Progress = unheard) -> Outcome:
    """Choose regularisers and score the last split; of a single split, every outer fold.

    `progress` is called with the classifiers that are trained and all of them.
    """
    by_splits: dict[int, Callable[..., Outcome]] = {1: _nested, 2: _kfold, 3: _split}
    return by_splits[len(splits)](method, *splits, progress)


def _nested(method: Method, rows: Examples, progress: Progress) -> Outcome:
    """Nested cross-validation of one set: MR, CR, SUBJ, MPQA."""
    labels, grid = rows.labels, method.regularisers(1)
    outer = stratified(labels, FOLDS, NESTED_SEED)
    train, count = method.trainer(rows.features, labels), _counter(FOLDS * (len(grid) * FOLDS + 1), progress)
    inner = [
        Fit(kept[part], kept[held_out], grid)
        for kept, _ in outer
        for part, held_out in stratified(labels[kept], FOLDS, NESTED_SEED)
    ]
    fitted = train(inner, count)
    choices = [_choose(fitted[fold : fold + FOLDS]) for fold in range(0, len(fitted), FOLDS)]
    chosen = [grid[best] for best, _ in choices]
    last = train([method.last(kept, value) for (kept, _), value in zip(outer, chosen, strict=True)], count)
    predicted, accuracies = np.empty(len(labels), dtype=np.int64), []  # (rows,)
    for (_, held_out), (classifier,) in zip(outer, last, strict=True):
        predicted[held_out] = classifier.predict(rows.features[held_out])
        accuracies.append(_percent(predicted[held_out] == labels[held_out]))
    dev = round(float(np.mean([accuracy for _, accuracy in choices])), 2)
    return Outcome(dev, round(float(np.mean(accuracies)), 2), predicted, chosen)


def _kfold(method: Method, rows: Examples, test: Examples, progress: Progress) -> Outcome:
    """Cross-validation on the training rows, then the test rows: TREC, MRPC."""
    grid = method.regularisers(2)
    train, count = method.trainer(rows.features, rows.labels), _counter(len(grid) * FOLDS + 1, progress)
    folds = stratified(rows.labels, FOLDS, method.seed)
    best, dev = _choose(train([Fit(part, held_out, grid) for part, held_out in folds], count))
    ((classifier,),) = train([method.last(np.arange(len(rows.labels)), grid[best])], count)
    predicted = classifier.predict(test.features)  # (test rows,)
    return Outcome(dev, _percent(predicted == test.labels), predicted, [grid[best]])


def _split(method: Method, rows: Examples, dev: Examples, test: Examples, progress: Progress) -> Outcome:
    """The set's own dev rows choose, without training anew: SST2."""
    features, labels = (
        np.concatenate([getattr(rows, name), getattr(dev, name)]) for name in ("features", "labels")
    )
    grid, kept = method.regularisers(3), len(rows.labels)
    fit = Fit(np.arange(kept), np.arange(kept, len(labels)), grid)
    (fitted,) = method.trainer(features, labels)([fit], _counter(len(grid), progress))
    best, accuracy = _choose([fitted])
    predicted = fitted[best].predict(test.features)  # (test rows,)
    return Outcome(accuracy, _percent(predicted == test.labels), predicted, [grid[best]])


def _counter(classifiers: int, progress: Progress) -> Callable[[int], None]:
    done = 0

    def count(newly: int) -> None:
        nonlocal done
        done += newly
        progress(done, classifiers)

    return count


def _choose(fitted: Sequence[Sequence[Fitted]]) -> tuple[int, float]:
    """The first regulariser with the best mean accuracy × 100 over the folds to two decimals, and that."""
    means = [_percent(np.array([fit.accuracy for fit in folds])) for folds in zip(*fitted, strict=True)]
    best = int(np.argmax(means))
    return best, means[best]


def _percent(right: np.ndarray) -> float:
    return round(100 * float(right.mean()), 2)
