"""Time and memory from files to token ids: real NLI pairs cold and warm, and a million made-up rows.

Run by `make bench-data`; EMBEDRUN_DATA=DIR has the NLI sample, MINILM=DIR the tokenizer. Each measurement is
a process of its own; imports are not timed. Cold is with an empty cache of token ids, warm with that of the
cold run. The data files themselves may be in the system's cache in both.
"""

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MADE_UP = 1_000_000  # rows
BARS = {"cold": 25.0, "warm": 2.0}  # seconds for the NLI pairs
MEMORY = {"cold": 1.5, "warm": 1.5, "made up": 3.0}  # GiB


def feed(data_set: Any, split: str = "train") -> tuple[int, int]:
    """Rows and distinct texts of a data set, read and tokenised as a training run does."""
    from functools import partial

    from embedrun.backbone import load
    from embedrun.backbone.tokens import tokenize
    from embedrun.config import BackboneConfig
    from embedrun.loss.terms import Pass
    from embedrun.store import Store
    from embedrun.training.feed import Feed

    backbone = load(BackboneConfig(name=os.environ["MINILM"]), seed=0)
    start = time.perf_counter()
    rows = data_set.read(split, Store.find())
    made = Feed(rows, partial(tokenize, backbone), {"left": Pass("left"), "right": Pass("right")}, ["score"])
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # GiB; Linux counts in KiB
    print(
        f"{len(rows):,} rows, {len(made.texts):,} texts: {seconds:.1f} s, {memory:.2f} GiB at most",
        flush=True,
    )
    return round(1000 * seconds), round(1000 * memory)


def nli() -> tuple[int, int]:
    from embedrun.dataset.nli import Nli

    return feed(Nli(labels=["entailment", "neutral", "contradiction"]))


def made_up(folder: str) -> tuple[int, int]:
    from embedrun.dataset.pairs import Pairs

    return feed(Pairs(path=str(Path(folder) / "rows.tsv")))


def write_rows(path: Path) -> None:
    """Pairs of about twelve words, no two texts alike."""
    words = [f"{start}{end}" for start in "bcdfgklm" for end in ("ado", "ine", "ore", "us")]
    with path.open("w", encoding="utf-8") as file:
        file.write("text1\ttext2\tscore\n")
        for row in range(MADE_UP):
            left, right = (
                " ".join(words[(row * step + side) % 31] for step in range(1, 12)) + f" {row} {side}"
                for side in (0, 1)
            )
            file.write(f"{left}\t{right}\t{row % 6}\n")


def alone(work: Any, *arguments: str) -> tuple[float, float]:
    """Seconds and GiB of one measurement in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        milliseconds, mebibytes = pool.apply(work, arguments)
    return milliseconds / 1000, mebibytes / 1000


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        found = {"cold": alone(nli), "warm": alone(nli)}
        write_rows(Path(folder) / "rows.tsv")
        found["made up"] = alone(made_up, folder)
    met = True
    for name, (seconds, memory) in found.items():
        good = memory <= MEMORY[name] and seconds <= BARS.get(name, float("inf"))
        met &= good
        bar = f"{BARS[name]:g} s and " if name in BARS else ""
        verdict = "met   " if good else "MISSED"
        print(f"{verdict} {name}: {seconds:.1f} s, {memory:.2f} GiB; bar {bar}{MEMORY[name]} GiB")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
