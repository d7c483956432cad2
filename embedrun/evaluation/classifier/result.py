"""What a classifier found on one set."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Outcome:
    """The accuracies of one set and the class of each scored row.

    Args:
        dev: accuracy × 100 on held-out training rows, with the chosen regularisers.
        test: accuracy × 100 as SentEval prints it, to two decimals.
        predicted: class of each test row, int64, ``(rows,)``; of a set without a test split each row has
            the class that the outer fold which held it out gave it.
        chosen: the regulariser of each outer fold; of a set with a test split, the one.
    """

    dev: float
    test: float
    predicted: np.ndarray
    chosen: list[float]
