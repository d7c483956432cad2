"""SentEval's validation with its convex classifier: logistic regression, solved accurately.

The published scores come from another classifier, trained by Adam and stopped early; `fast` is for use
during research. Folds, regularisers, rounding and the choice are those of the toolkit where it is told to use
scikit-learn (SentEval, senteval/tools/validation.py). Departure from it: scikit-learn stops earlier, up to a
quarter of the weights' length away from the minimum. Nothing is drawn but the folds, and all sums are made on
one thread, so the same vectors give the same scores.

Everywhere features are float32, ``(rows, dim)``, labels are integers, ``(rows,)``, and `progress` is called
with the number of fits that are done and that of all. A training feature that is not finite, or a single
class, is a ValueError.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from embedrun.evaluation.classifier.convex import Blocks, Scaling, decide, fit, fit_without
from embedrun.evaluation.classifier.examples import Outcome, stratified
from embedrun.evaluation.scores import Progress

# C of scikit-learn's LogisticRegression, by how it is chosen.
NESTED = SPLIT = tuple(2.0**power for power in range(-2, 4))
KFOLD = tuple(2.0**power for power in range(-1, 6))
FOLDS = 10
_SEED = 1111  # of the folds
_BLOCK = 1024  # rows that stay in the processor's cache from the first product of a step to the second


@contextmanager
def _one_thread() -> Iterator[None]:
    """The products are small: threads gain little, and on a busy machine they wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@_one_thread()
def fast_nested(
    features: np.ndarray, labels: np.ndarray, progress: Progress | None = None, *, folds: int = FOLDS
) -> Outcome:
    """Nested cross-validation: MR, CR, SUBJ, MPQA.

    Each outer fold is scored by a classifier of the other nine, whose regulariser had the best mean accuracy
    in a cross-validation within them. `dev` is the mean of these best accuracies. Only the first `folds`
    outer folds are scored; the rows of the others have the first class in `predicted`.
    """
    scaling, (names, classes) = Scaling(features), np.unique(labels, return_inverse=True)
    rows, known = scaling(features), torch.from_numpy(classes)  # (rows, dim + 1), (rows,)
    penalties, fits = scaling.penalties(NESTED), len(NESTED) * FOLDS
    outer = stratified(labels, FOLDS, _SEED)
    blocks = Blocks(rows, known, len(names), [held_out for _, held_out in outer])
    centre, curvatures = fit(blocks, penalties)
    without = fit_without(blocks, penalties, centre, curvatures)  # (penalties, folds, logits, dim + 1)
    dev, test, chosen = [], [], []
    predicted, memory = np.zeros_like(classes), torch.empty_like(rows)  # (rows,), (rows, dim + 1)
    for fold, (train, held_out) in enumerate(outer[:folds]):
        _report(progress, fits * (fold + 1), fits * (folds + 1))
        inner = [train[part] for _, part in stratified(labels[train], FOLDS, _SEED)]
        part = Blocks(rows, known, len(names), inner, memory)
        weights = fit_without(part, penalties, without[:, fold], curvatures)
        best, accuracy = _first_best(part.held_out(weights).mean(axis=1))
        predicted[held_out] = blocks.predict(without[best, fold, None], fold)[0].numpy()
        test.append(_percent(np.mean(predicted[held_out] == classes[held_out])))
        dev.append(accuracy)
        chosen.append(NESTED[best])
    _report(progress, fits * (folds + 1), fits * (folds + 1))
    return Outcome(_mean(dev), _mean(test), names[predicted].astype(np.int64), chosen)


@_one_thread()
def fast_kfold(
    train: np.ndarray,
    labels: np.ndarray,
    test: np.ndarray,
    test_labels: np.ndarray,
    progress: Progress | None = None,
) -> Outcome:
    """Cross-validation on the training rows chooses the regulariser for the test rows: TREC, MRPC."""
    scaling, (names, classes) = Scaling(train), np.unique(labels, return_inverse=True)
    penalties, fits = scaling.penalties(KFOLD), len(KFOLD) * (FOLDS + 1)
    members = [held_out for _, held_out in stratified(labels, FOLDS, _SEED)]
    blocks = Blocks(scaling(train), torch.from_numpy(classes), len(names), members)
    weights, curvatures = fit(blocks, penalties)  # (penalties, logits, dim + 1)
    _report(progress, len(KFOLD), fits)
    without = fit_without(blocks, penalties, weights, curvatures)
    _report(progress, fits, fits)
    best, dev = _first_best(blocks.held_out(without).mean(axis=1))
    predicted = names[_classify(scaling, weights[best], test)].astype(np.int64)
    return Outcome(dev, _percent(np.mean(predicted == test_labels)), predicted, [KFOLD[best]])


@_one_thread()
def fast_split(
    train: np.ndarray,
    labels: np.ndarray,
    dev: np.ndarray,
    dev_labels: np.ndarray,
    test: np.ndarray,
    test_labels: np.ndarray,
    progress: Progress | None = None,
) -> Outcome:
    """The regulariser that is best on a dev split scores the test split: SST2."""
    scaling, (names, classes) = Scaling(train), np.unique(labels, return_inverse=True)
    penalties = scaling.penalties(SPLIT)
    members = np.array_split(np.arange(len(train)), -(-len(train) // _BLOCK))
    blocks = Blocks(scaling(train), torch.from_numpy(classes), len(names), members)
    weights, _ = fit(blocks, penalties)  # (penalties, logits, dim + 1)
    _report(progress, len(SPLIT), len(SPLIT))
    found = [names[_classify(scaling, each, dev)] for each in weights]  # (dev rows,) each
    best, accuracy = _first_best([float(np.mean(each == dev_labels)) for each in found])
    predicted = names[_classify(scaling, weights[best], test)].astype(np.int64)
    return Outcome(accuracy, _percent(np.mean(predicted == test_labels)), predicted, [SPLIT[best]])


def _classify(scaling: Scaling, weights: Tensor, features: np.ndarray) -> np.ndarray:
    """The place of each row's class: weights ``(logits, dim + 1)``, result ``(rows,)``."""
    return decide(weights @ scaling(features).T).numpy()


def _first_best(accuracies: Sequence[float] | np.ndarray) -> tuple[int, float]:
    """The first of the greatest accuracies × 100 to two decimals, and its value."""
    rounded = [_percent(accuracy) for accuracy in accuracies]
    best = int(np.argmax(rounded))
    return best, rounded[best]


def _percent(accuracy: float | np.floating) -> float:
    return round(100 * float(accuracy), 2)


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 2)


def _report(progress: Progress | None, done: int, everything: int) -> None:
    if progress:
        progress(done, everything)
