"""How the cost of encoding grows with the number of sentences: ours, and sentence-transformers.

Run by `make bench-encode`; EMBEDRUN_DATA=DIR has Wikipedia's sentences and NLI, MINILM=DIR the model. The
sentences are distinct, from one and the other, in an order drawn once; a thousand are among the ten thousand.
Tokenising is timed too, loading the models is not. sentence-transformers encodes 32 sentences a pass, at
which it is fastest, and up to `--peer` sentences alone; `--most 10000` leaves out the hundred thousand.

All arms take turns, so that a slow moment of the machine meets all of them; fewer rounds for more sentences,
as is typed for the fewest. A ratio is that of the processor's time in one type. The share of the peak
is twice the weights outside the embeddings times real tokens, by that of a square matrix product in the same
type, measured after each turn. Memory is the most that the process held beyond what it held before.
"""

import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from measure import TYPES, arguments, finish, peak, spread, timed, weights

from embedrun.dataset.nli import Nli
from embedrun.dataset.published import Wiki1m
from embedrun.encoder import Encoder
from embedrun.store import Store

SIZES = (1_000, 10_000, 100_000)  # sentences


def sentences() -> list[str]:
    """All of both, distinct, in an order drawn once."""
    store = Store.find()
    both = (Wiki1m().read("train", store), Nli().read("train", store))
    found = list(dict.fromkeys(text for rows in both for text in rows.sentences()))
    return [found[place] for place in np.random.default_rng(0).permutation(len(found))]


def memory(work: Callable[[], object]) -> float:
    """MiB that the process holds at most beyond what it held before; NaN where the system does not say."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the most held is what is held now
        before = _most_held()
        work()
        return (_most_held() - before) / 1024
    except OSError:
        return float("nan")


def _most_held() -> int:
    (found,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(found)


def measured(
    arms: dict[str, Callable[[list[str]], object]], texts: list[str], work: float, rounds: int
) -> Any:
    """What each arm takes for these texts; `work` is what they ask of the matrix products, in operations."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    shares: dict[str, list[float]] = {name: [] for name in arms}
    held: dict[str, float] = {}
    for _ in range(rounds):
        for name, arm in arms.items():
            grown = memory(lambda name=name, arm=arm: seconds[name].append(timed(partial(arm, texts))))
            held[name] = max(grown, held.get(name, grown))
            shares[name].append(work / seconds[name][-1][0] / peak(TYPES[name.rpartition("/")[2]]))
    times = {name: np.array(own) for name, own in seconds.items()}  # (rounds, 2) each: processor, wall
    found: dict[str, Any] = {}
    for name, own in times.items():
        other = times.get(f"theirs/{name.rpartition('/')[2]}")
        found[name] = {
            "seconds": {"processor": spread(own[:, 0]), "wall": spread(own[:, 1])},
            "share of the peak": round(float(np.median(shares[name])), 3),
            "MiB": round(held[name]),
        }
        if other is not None and name.startswith("ours"):
            ratio = other / own  # (rounds, 2)
            found[name]["times as fast"] = {"processor": spread(ratio[:, 0]), "wall": spread(ratio[:, 1])}
    return found


def main() -> int:
    asked = arguments(__doc__, rounds=5, most=100_000, peer=10_000)
    from sentence_transformers import SentenceTransformer  # takes seconds

    encoder = Encoder.load(os.environ["MINILM"])
    halved = {"dtype": torch.bfloat16}
    peers: dict[Literal["fp32", "bf16"], SentenceTransformer] = {
        "fp32": SentenceTransformer(os.environ["MINILM"], device="cpu"),
        "bf16": SentenceTransformer(os.environ["MINILM"], device="cpu", model_kwargs=halved),
    }
    all_texts = sentences()
    results: dict[str, Any] = {}
    for size in (size for size in SIZES if size <= asked.most):
        texts = all_texts[:size]
        tokens = len(encoder.tokenize(texts).ids)
        arms: dict[str, Callable[[list[str]], object]] = {}
        for kind, peer in peers.items():
            arms[f"ours/{kind}"] = partial(encoder.encode, precision=kind)
            if size <= asked.peer:
                arms[f"theirs/{kind}"] = partial(peer.encode, batch_size=32)
        for arm in arms.values():
            arm(texts[:500])  # warms up
        rounds = max(1, round(asked.rounds / max(1, size / 1000) ** 0.5))
        work = 2.0 * weights(encoder.backbone.encoding) * tokens
        for name, result in measured(arms, texts, work, rounds).items():
            speed = round(len(texts) / result["seconds"]["wall"]["median"])
            results[f"{len(texts)}/{name}"] = {"rounds": rounds, "sentences/s": speed, **result}
    return finish(asked, {}, results)


if __name__ == "__main__":
    sys.exit(main())
