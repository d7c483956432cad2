"""SentEval's published protocol against one linear layer and one Adam, fit by fit, on the same vectors.

Run by `make bench-eval`; EMBEDRUN_DATA=DIR has the SentEval files, MINILM=DIR the model. One outer fold of
MR and TREC, 41 classifiers each, seed 1111. Ours and the plain loop run in turns; the loop takes over a
minute, so ours has its turns between its fits, before every tenth. It runs on one thread, the loop on one
or on all, whichever is faster on a short piece. Times are of the whole protocol: folds, permutations, choice,
test. Compiling, once for a machine, is not timed.

The ratio in CPU time holds on a busy machine too, and is the one that is held against the bar.
"""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "trials"))
from plain_classifier import Fitted, fit

from embedrun.dataset.published import Senteval
from embedrun.encoder import Encoder
from embedrun.evaluation.classifier import FOLDS, NESTED_SEED, Examples, examples, stratified, validate
from embedrun.evaluation.classifier.adam import DECAYS, Adam
from embedrun.store import Store

SEED = 1111
BARS = {"mr": 20.0, "trec": 10.0}
EVERY = 10  # fits of the loop between two turns of ours
Spent = tuple[float, float]  # CPU and wall seconds


def timed(work: Callable[[], float]) -> tuple[float, Spent]:
    """What a piece of work gives, and what it took."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = work()
    return found, (time.process_time() - cpu, time.perf_counter() - wall)


def protocol(train: Examples, test: Examples) -> float:
    """Accuracy on the test rows."""
    return validate(Adam(SEED), [train, test]).test


def plain(train: Examples, test: Examples) -> Iterator[float]:
    """The same fit by fit; gives NaN after each, and the accuracy after the last."""
    features, labels = train.features, train.labels
    means = []
    for decay in DECAYS:
        each = []
        for part, out in stratified(labels, FOLDS, SEED):
            held_out = (features[out], labels[out])
            each.append(fit(features[part], labels[part], decay, SEED, held_out).accuracy)
            yield float("nan")
        means.append(round(100 * float(np.mean(each)), 2))
    last: Fitted = fit(features, labels, DECAYS[int(np.argmax(means))], SEED)
    yield round(100 * float(np.mean(last.predict(test.features) == test.labels)), 2)


def better_threads(train: Examples) -> int:
    """Threads with which a short fit of the loop takes less wall time."""
    features, labels = train.features[:2000], train.labels[:2000]
    found = {}
    for threads in (1, os.cpu_count() or 1):
        torch.set_num_threads(threads)
        work = [timed(lambda: fit(features, labels, 1e-5, SEED, most_epochs=12).accuracy) for _ in range(3)]
        found[threads] = median(wall for _, (_, wall) in work)
    torch.set_num_threads(1)
    return min(found, key=lambda threads: found[threads])


def compare(name: str, train: Examples, test: Examples) -> bool:
    """Print the ratios of one set; whether the bars are met."""
    threads = better_threads(train)
    turns: list[Spent] = []
    accuracy = reference = float("nan")
    loop = plain(train, test)
    pieces: list[Spent] = []
    for turn in range(len(DECAYS) * FOLDS + 1):
        if turn % EVERY == 0:
            accuracy, took = timed(lambda: protocol(train, test))
            turns.append(took)
        torch.set_num_threads(threads)
        reference, took = timed(lambda: next(loop))
        torch.set_num_threads(1)
        pieces.append(took)
    whole = [sum(piece[kind] for piece in pieces) for kind in (0, 1)]
    print(
        f"{name}: plain loop, {threads} thread{'s' if threads > 1 else ''}: "
        f"{whole[0]:.1f} CPU-s, {whole[1]:.1f} s, accuracy {reference:.2f}"
    )
    cpu, wall = (median(turn[kind] for turn in turns) for kind in (0, 1))
    met = whole[0] / cpu >= BARS[name] and accuracy == reference
    print(
        f"  {'met   ' if met else 'MISSED'} {cpu:.2f} CPU-s, {wall:.2f} s, accuracy {accuracy:.2f}; "
        f"{whole[0] / cpu:.1f} times less CPU time (bar {BARS[name]:g}), {whole[1] / wall:.1f} times faster",
        flush=True,
    )
    return met


def part(whole: Examples, rows: np.ndarray) -> Examples:
    """Some of the rows, int64, ``(some rows,)``."""
    return Examples(whole.features[rows], whole.labels[rows], whole.order[rows])


def main() -> int:
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {platform.processor() or platform.machine()}, {os.cpu_count()} cores")
    store, encoder = Store.find(), Encoder.load(os.environ["MINILM"])

    def encoded(task: str, split: str) -> Examples:
        rows = Senteval(task=task).read(split, store)  # type: ignore[arg-type]
        return examples(rows, lambda texts: torch.from_numpy(encoder.encode(texts)))

    trec = encoded("trec", "train"), encoded("trec", "test")
    warm = part(trec[0], np.arange(0, len(trec[0].labels), 20))
    protocol(warm, warm)
    met = compare("trec", *trec)
    mr = encoded("mr", "train")
    train, held_out = stratified(mr.labels, FOLDS, NESTED_SEED)[0]
    return 0 if compare("mr", part(mr, train), part(mr, held_out)) and met else 1


if __name__ == "__main__":
    sys.exit(main())
