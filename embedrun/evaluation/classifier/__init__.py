"""Logistic regression on sentence vectors as SentEval trains and validates it: rows, folds and results."""

from dataclasses import dataclass
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from embedrun.evaluation.scores import Encode
from embedrun.rows import Rows


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

    As SentEval draws them. Fewer than two folds, or no class with a row for each, are a ValueError.
    """
    from sklearn.model_selection import StratifiedKFold  # here, because it takes a second to import

    parts = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return list(parts.split(np.zeros(len(labels)), labels))


class Permutations:
    """What SentEval draws from NumPy's legacy generator after seeding it for a classifier.

    A classifier that holds out some of its rows itself first draws one permutation of all of them; each
    classifier then draws one of its training rows for each epoch. So classifiers with equally many rows draw
    the same ones. They are kept; several threads may ask for them. `epochs` are those of one round.
    """

    def __init__(self, seed: int, epochs: int) -> None:
        self._seed, self._epochs = seed, epochs
        self._generators: dict[tuple[int, int], np.random.RandomState] = {}
        self._drawn: dict[tuple[int, int], list[np.ndarray]] = {}
        self._lock = Lock()

    def first(self, rows: int) -> np.ndarray:
        """The first permutation of a classifier, int64, ``(rows,)``."""
        return np.random.RandomState(self._seed).permutation(rows)

    def round(self, index: int, rows: int, drawn: int) -> np.ndarray:
        """The orders of one round, counted from 0, int32, ``(epochs, rows)``.

        The classifier is trained on `rows` rows; `drawn` are those of the permutation that it drew before, or
        0.
        """
        key = (rows, drawn)
        with self._lock:
            if key not in self._drawn:
                generator = self._generators[key] = np.random.RandomState(self._seed)
                if drawn:
                    generator.permutation(drawn)
                self._drawn[key] = []
            found = self._drawn[key]
            while len(found) <= index:
                orders = [self._generators[key].permutation(rows) for _ in range(self._epochs)]
                found.append(np.stack(orders).astype(np.int32))
            return found[index]


@dataclass(frozen=True)
class Outcome:
    """The accuracies of one set and the class of each scored row.

    Args:
        dev: accuracy × 100 on held-out training rows, with the chosen regularisers.
        test: accuracy × 100 as SentEval prints it, to two decimals.
        predicted: class of each test row, int64, ``(rows,)``; of a set without a test split each row has
            the class that it was given in the outer fold that held it out.
        chosen: the regulariser of each outer fold; of a set with a test split, the one.
    """

    dev: float
    test: float
    predicted: np.ndarray
    chosen: list[float]
