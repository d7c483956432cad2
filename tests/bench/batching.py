"""Time to put a million made-up rows into batches, in every way, and to go on from a late step.

Run by `make bench-batching`; it needs no data and takes about a minute. The rows are like those of NLI: a
premise in three rows, one row in five with a hypothesis that others have, the commonest in 0.4 % of all.
Times are seconds of one core.
"""

import time
from typing import Any

import numpy as np

from embedrun.training.order import Order

ROWS, EPOCHS = 1_000_000, 5
BAR = 1.5  # seconds an epoch


def like_nli() -> tuple[np.ndarray, np.ndarray]:
    """Tokens and identities of the texts, ``(rows, 2)`` each."""
    random = np.random.default_rng(0)
    premises = np.arange(ROWS) // 3  # (rows,)
    ranks = np.arange(1, 20_001)
    common = random.choice(20_000, ROWS, p=(1 / (ranks + 5)) / (1 / (ranks + 5)).sum())  # (rows,)
    hypotheses = np.where(random.random(ROWS) < 0.2, common, 20_000 + np.arange(ROWS))  # (rows,)
    lengths = np.stack([random.integers(6, 60, ROWS), random.integers(4, 25, ROWS)], axis=1)
    return lengths, np.stack([premises, ROWS + hypotheses], axis=1)


def measure(name: str, size: int, options: dict[str, Any]) -> float:
    """Seconds an epoch, and those to draw one step at the end of the last epoch with nothing known."""
    order = Order(ROWS, size, 1, 42, **options)
    started = time.process_time()
    steps = order.steps(EPOCHS, None)
    counted = time.process_time() - started
    started = time.process_time()
    Order(ROWS, size, 1, 42, **options).batches(steps)
    late = time.process_time() - started
    order.batches(steps)
    started = time.process_time()
    for step in range(steps - 999, steps + 1):
        order.batches(step)
    milliseconds = time.process_time() - started  # of one step: there were a thousand
    each = [f"{counted / EPOCHS:.2f}", f"{late:.2f}", f"{milliseconds:.3f}"]
    print(row(name, size, f"{steps / EPOCHS:,.0f}", f"{order.left_out(EPOCHS - 1):,}", *each), flush=True)
    return max(counted, late) / EPOCHS


def row(first: str, *others: Any) -> str:
    return f"{first:15}" + "".join(f"{other:>10}" for other in others)


def main() -> None:
    lengths, texts = like_nli()
    print(f"{ROWS:,} rows; the commonest text is in {np.bincount(texts.ravel()).max():,} of them")
    print(row("batches", "size", "an epoch", "left out", "s/epoch", "late s", "ms/step"))
    grouped = {"batching": "length_grouped", "lengths": lengths}
    tokens = {"lengths": lengths}
    distinct = {"distinct": True, "texts": texts}
    slowest = 0.0
    for size in (32, 512):
        budget = {"batch_tokens": 44 * size}
        ways: dict[str, dict[str, Any]] = {
            "random": {},
            "length_grouped": grouped,
            "batch_tokens": tokens | budget,
            "distinct_texts": distinct,
            "all three": grouped | budget | distinct,
        }
        slowest = max([slowest, *(measure(name, size, options) for name, options in ways.items())])
    if slowest > BAR:
        raise SystemExit(f"{slowest:.2f} s an epoch is more than {BAR} s")


if __name__ == "__main__":
    main()
