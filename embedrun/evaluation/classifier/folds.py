"""Stratified folds: every fold has each class in its share of all rows."""

import numpy as np


def stratified(labels: np.ndarray, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The training and the held-out rows of each fold, both in ascending order.

    The folds are those of scikit-learn's `StratifiedKFold(folds, shuffle=True, random_state=seed)`,
    which SentEval uses: the sorted labels are dealt out in turn, which says how many rows of a class each
    fold holds out; which rows these are is a shuffle of the class, in order of its first appearance.

    Args:
        labels: class of each row, ``(rows,)``.
        folds: how many, at least 2.
        seed: of NumPy's legacy generator.

    Raises:
        ValueError: if there are fewer than two folds, or no class has a row for each of them.
    """
    _, first, coded = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)  # (classes,), by first appearance
    rank[np.argsort(first)] = np.arange(len(first))
    coded = rank[coded.reshape(-1)]  # (rows,)
    if folds < 2 or np.bincount(coded, minlength=1).max() < folds:
        raise ValueError(f"stratified: {folds} folds need a class of as many rows, and two folds at least")
    dealt = np.sort(coded)
    shares = np.stack([np.bincount(dealt[fold::folds], minlength=len(first)) for fold in range(folds)])
    generator = np.random.RandomState(seed)
    held_out = np.empty(len(coded), dtype=np.int64)  # (rows,), the fold that holds each out
    for label in range(len(first)):
        order = np.repeat(np.arange(folds), shares[:, label])  # (rows of the class,)
        generator.shuffle(order)
        held_out[coded == label] = order
    return [(np.flatnonzero(held_out != fold), np.flatnonzero(held_out == fold)) for fold in range(folds)]
