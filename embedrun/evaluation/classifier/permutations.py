"""The orders in which rows are visited, drawn once for all classifiers that share them."""

from threading import Lock

import numpy as np


class Permutations:
    """What SentEval draws from NumPy's legacy generator after seeding it for a classifier.

    A classifier draws, where it holds out some of its rows by itself, one permutation of all of them; then
    one of its training rows for each epoch. So classifiers with as many rows draw the same ones. They are
    kept; threads may ask for them at the same time.

    Args:
        seed: of the generator.
        epochs: of one round.
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
        """The orders of one round, int32, ``(epochs, rows)``.

        Args:
            index: of the round, from 0.
            rows: the classifier is trained on.
            drawn: rows of the permutation that it drew before, or 0.
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
