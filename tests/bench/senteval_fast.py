"""Time of SentEval's nested validation with `protocol=fast`, against scikit-learn's LogisticRegression.

Run by `make bench-eval`; EMBEDRUN_DATA=DIR has the sets, MINILM=DIR the model. Both have the same vectors,
folds and regularisers, one thread each, and take turns, A B A B; seconds are of the processor, a ratio is the
median over turns. scikit-learn has its defaults, so it stops further from the minimum.

Two of the ten outer folds are compared. Ours pays for them all that it needs once for ten, so its time for
all ten is given too, against five times that of scikit-learn for two.
"""

import os
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from statistics import median
from typing import TypeVar

import numpy as np
import torch

from embedrun.dataset.senteval import Senteval
from embedrun.encoder import Encoder
from embedrun.evaluation.classifier import Examples, Outcome, examples, stratified
from embedrun.evaluation.classifier.fast import FOLDS, NESTED, fast_nested
from embedrun.store import Store

SETS = ("cr", "mr", "subj")
SCORED = 2  # outer folds
TURNS = 2
BAR = 4.0  # times the speed of scikit-learn, on the two folds
NEAR = 0.3  # of the dev accuracies × 100; four rows more or less of a test fold of CR are over 1

Result = TypeVar("Result")


def nested(rows: Examples) -> tuple[float, float]:
    """Dev and test accuracy × 100 over the first outer folds, by scikit-learn, fit by fit."""
    from sklearn.linear_model import LogisticRegression

    features, labels, dev, test = rows.features, rows.labels, [], []
    for train, held_out in stratified(labels, FOLDS, 1111)[:SCORED]:
        inner, accuracy = stratified(labels[train], FOLDS, 1111), []
        for regulariser in NESTED:
            each = []
            for some, rest in inner:
                model = LogisticRegression(C=regulariser).fit(features[train[some]], labels[train[some]])
                each.append(model.score(features[train[rest]], labels[train[rest]]))
            accuracy.append(round(100 * float(np.mean(each)), 2))
        best = NESTED[int(np.argmax(accuracy))]
        model = LogisticRegression(C=best).fit(features[train], labels[train])
        test.append(round(100 * model.score(features[held_out], labels[held_out]), 2))
        dev.append(max(accuracy))
    return float(np.mean(dev)), float(np.mean(test))


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def compared(name: str, rows: Examples) -> bool:
    theirs, ours, complete = [], [], []
    for _ in range(TURNS):
        theirs.append(timed(lambda: nested(rows)))
        ours.append(timed(lambda: fast_nested(rows.features, rows.labels, folds=SCORED)))
        complete.append(timed(lambda: fast_nested(rows.features, rows.labels)))
    (_, (their_dev, their_test)), (_, mine) = theirs[0], ours[0]
    whole: Outcome = complete[0][1]
    ratio = median(other / own for (other, _), (own, _) in zip(theirs, ours, strict=True))
    of_all = median(
        other * FOLDS / SCORED / own for (other, _), (own, _) in zip(theirs, complete, strict=True)
    )
    good = ratio >= BAR and abs(mine.dev - their_dev) <= NEAR
    print(
        f"{'met   ' if good else 'MISSED'} {name}: {SCORED} folds {median(t for t, _ in theirs):.2f} s by "
        f"scikit-learn, {median(t for t, _ in ours):.2f} s ours, {ratio:.1f} times; all {FOLDS} ours "
        f"{median(t for t, _ in complete):.2f} s, {of_all:.1f} times\n"
        f"       dev and test accuracy of the {SCORED}: {their_dev:.2f} {their_test:.2f} by scikit-learn, "
        f"{mine.dev:.2f} {mine.test:.2f} ours; test of all {whole.test:.2f}",
        flush=True,
    )
    return good


def main() -> int:
    from threadpoolctl import threadpool_limits

    warnings.simplefilter("ignore")  # scikit-learn's, of fits that it ends after a hundred steps
    encoder, store = Encoder.load(os.environ["MINILM"]), Store.find()
    versions = {name: version(name) for name in ("torch", "numpy", "scikit-learn")}
    print(f"one thread; {', '.join(f'{name} {number}' for name, number in versions.items())}", flush=True)

    def encode(texts: list[str]) -> torch.Tensor:
        return torch.from_numpy(encoder.encode(texts))

    met = True
    for name in SETS:
        rows = examples(Senteval(task=name).read("train", store), encode)
        with threadpool_limits(1):
            met &= compared(name, rows)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
