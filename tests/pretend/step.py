"""What a training step of a BERT-base costs on the simulated CUDA device: kernels, waits and peak memory.

    python tests/pretend/step.py --rows 512 --lengths nli [--precision bf16] [--option seeded_dropout=true]

RAOE's losses, AdamW, dropout of 0.1, 30,522 word pieces; shapes alone, so it takes seconds on any machine.
"""

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pretended_guard

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "trials")]
    pretended_guard.load()  # before torch

import numpy as np
import pretended_cuda
import yaml
from bert_shaped import BASE, batch, stepper, usual_lengths
from pretended_cuda import DEVICE


def nli_lengths(random: np.random.Generator, rows: int) -> np.ndarray:
    """As SNLI's and MultiNLI's sentences, near log-normal, with both special tokens; tokens, ``(rows,)``."""
    return np.clip(np.round(np.exp(random.normal(2.75, 0.45, rows))) + 2, 5, 128).astype(np.int64)


LENGTHS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "bench": usual_lengths,
    "nli": nli_lengths,
}


@dataclass(frozen=True)
class Cost:
    """What one step costs.

    Args:
        kernels: that it starts, by operator.
        waits: of the host, by cause and line.
        possible_waits: copies of pageable memory that may be one, likewise.
        attention: calls of attention, by kernel and type.
        peak: the most bytes on the device, weights and moments among them.
    """

    kernels: Counter[str]
    waits: Counter[str]
    possible_waits: Counter[str]
    attention: Counter[str]
    peak: int


def cost(rows: int = 512, lengths: str = "nli", precision: str = "bf16", **options: Any) -> Cost:
    """The cost of the second step, when the optimizer has its moments; the device must be installed.

    Args:
        rows: pairs of the batch.
        lengths: of the texts, a key of `LENGTHS` or a number of tokens.
        precision: of the forward pass.
        options: of `training`.
    """
    draw = LENGTHS.get(lengths) or (lambda random, rows: np.full(rows, int(lengths)))
    gc.collect()
    with DEVICE.shapes_alone():
        before = DEVICE.memory.live
        trained = stepper("cuda", precision, shape=BASE, **options)
        for step in (1, 2):
            DEVICE.reset()
            trained.take(step, 10, [batch(rows, step, draw)])
    peak = DEVICE.memory.peak - before
    return Cost(DEVICE.kernels, DEVICE.waits, DEVICE.possible_waits, DEVICE.attention, peak)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=512, help="pairs of the batch")
    parser.add_argument("--lengths", default="nli", help=f"{', '.join(LENGTHS)} or a number of tokens")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--option", action="append", default=[], help="of training, as seeded_dropout=true")
    given = parser.parse_args()
    options = {
        name: yaml.safe_load(value) for name, _, value in (text.partition("=") for text in given.option)
    }
    pretended_cuda.install()
    spent = cost(given.rows, given.lengths, given.precision, **options)
    waits = spent.waits.total()
    print(f"kernels {spent.kernels.total():,}, waits {waits}, peak {spent.peak:,} bytes")
    print("most kernels:", dict(spent.kernels.most_common(12)))
    print("attention:", dict(spent.attention))
    for text, times in spent.waits.most_common():
        print(f"{times:6}  {text}")
    for text, times in spent.possible_waits.most_common():
        print(f"{times:6}  (may wait) {text}")


if __name__ == "__main__":
    main()
