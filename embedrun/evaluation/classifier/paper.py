"""SentEval's classification as the papers report it: which classifiers are trained, chosen and scored.

Everywhere features are float32, ``(rows, dim)``, labels are classes from 0, int64, ``(rows,)``, `seed` is
that of the classifiers and `progress` is called with the number of trained ones and that of all. Without
`using`, what `engine` gives trains them.
"""

from collections.abc import Sequence

import numpy as np

from embedrun.evaluation.classifier import Outcome, Permutations, adam, stratified
from embedrun.evaluation.classifier.adam import Engine, Fit, Fitted, stacked
from embedrun.evaluation.classifier.kernels import compiled
from embedrun.evaluation.scores import Progress, unheard

DECAYS = (1e-5, 1e-4, 1e-3, 1e-2)
FOLDS = 10
NESTED_SEED = 1111  # of both splits of nested cross-validation, whatever the classifier's seed
HELD_OUT = 0.05  # of the rows, where the chosen classifier is trained once more


def engine() -> tuple[str, Engine]:
    """What trains the classifiers, by name: compiled kernels where numba works, else torch."""
    try:
        from embedrun.evaluation.classifier import kernels  # noqa: F401 - whether it can be imported
    except (ImportError, RuntimeError):  # not installed or too old; no folder for what is compiled
        return "torch", stacked
    return "numba", compiled


def paper_nested(
    features: np.ndarray,
    labels: np.ndarray,
    seed: int,
    progress: Progress = unheard,
    using: Engine | None = None,
) -> Outcome:
    """Nested cross-validation of one set: MR, CR, SUBJ, MPQA."""
    outer = stratified(labels, FOLDS, NESTED_SEED)
    work = _Work(features, labels, seed, len(outer) * (len(DECAYS) * FOLDS + 1), progress, using)
    inner = [
        Fit(train[part], train[held_out], DECAYS)
        for train, _ in outer
        for part, held_out in stratified(labels[train], FOLDS, NESTED_SEED)
    ]
    found = work.train(inner)
    choices = [_choose(found[fold * FOLDS : (fold + 1) * FOLDS]) for fold in range(len(outer))]
    last = work.train(
        [work.last(train, decay) for (train, _), (decay, _) in zip(outer, choices, strict=True)]
    )
    predicted = np.empty(len(labels), dtype=np.int64)  # (rows,)
    tests = []
    for (_, held_out), (one,) in zip(outer, last, strict=True):
        predicted[held_out] = one.predict(features[held_out])
        tests.append(_percent(predicted[held_out] == labels[held_out]))
    return Outcome(
        dev=round(float(np.mean([dev for _, dev in choices])), 2),
        test=round(float(np.mean(tests)), 2),
        predicted=predicted,
        chosen=[decay for decay, _ in choices],
    )


def paper_kfold(
    train: np.ndarray,
    labels: np.ndarray,
    test: np.ndarray,
    test_labels: np.ndarray,
    seed: int,
    progress: Progress = unheard,
    using: Engine | None = None,
) -> Outcome:
    """Cross-validation on the training rows, then the test rows: TREC, MRPC. Folds, too, follow `seed`."""
    work = _Work(train, labels, seed, len(DECAYS) * FOLDS + 1, progress, using)
    found = work.train([Fit(part, held_out, DECAYS) for part, held_out in stratified(labels, FOLDS, seed)])
    decay, dev = _choose(found)
    ((one,),) = work.train([work.last(np.arange(len(labels)), decay)])
    predicted = one.predict(test)  # (test rows,)
    return Outcome(dev, _percent(predicted == test_labels), predicted, [decay])


def paper_split(
    train: np.ndarray,
    labels: np.ndarray,
    dev: np.ndarray,
    dev_labels: np.ndarray,
    test: np.ndarray,
    test_labels: np.ndarray,
    seed: int,
    progress: Progress = unheard,
    using: Engine | None = None,
) -> Outcome:
    """The set's own dev rows are for early stopping and the choice, without retraining: SST2."""
    features, classes = np.concatenate([train, dev]), np.concatenate([labels, dev_labels])
    work = _Work(features, classes, seed, len(DECAYS), progress, using)
    fit = Fit(np.arange(len(train)), np.arange(len(train), len(features)), DECAYS)
    (found,) = work.train([fit])
    decay, accuracy = _choose([found])
    predicted = found[DECAYS.index(decay)].predict(test)  # (test rows,)
    return Outcome(accuracy, _percent(predicted == test_labels), predicted, [decay])


class _Work:
    """The classifiers of one set and seed; counts those that are trained."""

    def __init__(
        self,
        features: np.ndarray,
        labels: np.ndarray,
        seed: int,
        classifiers: int,
        progress: Progress,
        using: Engine | None,
    ) -> None:
        self._features, self._labels = features, labels
        self._start = adam.initial(seed, features.shape[1], int(labels.max()) + 1)
        self._permutations = Permutations(seed, adam.EPOCHS)
        self._engine = using or engine()[1]
        self._done, self._classifiers, self._progress = 0, classifiers, progress

    def train(self, fits: Sequence[Fit]) -> list[list[Fitted]]:
        """The classifiers by fit and decay."""
        return self._engine(self._features, self._labels, fits, self._permutations, self._start, self._count)

    def last(self, rows: np.ndarray, decay: float) -> Fit:
        """The chosen classifier, which holds out some of the rows, int64, ``(rows,)``, itself."""
        order = rows[self._permutations.first(len(rows))]  # (rows,)
        held_out = int(HELD_OUT * len(rows))
        return Fit(order[held_out:], order[:held_out], (decay,), drawn=len(rows))

    def _count(self, newly: int) -> None:
        self._done += newly
        self._progress(self._done, self._classifiers)


def _choose(found: Sequence[Sequence[Fitted]]) -> tuple[float, float]:
    """The first decay with the best mean accuracy over the folds, and that accuracy × 100, rounded."""
    each = [
        round(100 * float(np.mean([one.accuracy for one in folds])), 2) for folds in zip(*found, strict=True)
    ]
    best = int(np.argmax(each))
    return DECAYS[best], each[best]


def _percent(right: np.ndarray) -> float:
    """Accuracy × 100, rounded as SentEval prints it."""
    return round(100 * float(right.mean()), 2)
