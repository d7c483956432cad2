"""Time of a training step on a processor: sentence-transformers, and ours in float32 and bfloat16.

Run by `make bench-train-cpu`; EMBEDRUN_DATA=DIR has STS-B, MINILM=DIR the model. A step is 32 pairs of its
training split with CoSENT at one scale, AdamW and clipping, both sides with the same pairs, in batches drawn
at random or, as training.batching=length_grouped draws them, of similar length. Texts are tokenised before;
sentence-transformers pads each column of a batch to its longest, as its collator does.

All arms take turns on the same batches, so that a slow moment of the machine meets all of them. A ratio is
that of the processor's time for a token over one round, with its median and quartiles over rounds, and of the
wall time; over an epoch both orders have the same tokens. The share of the peak is 6 times the weights
outside the embeddings times real tokens, by that of a square matrix product in the same type, measured after
each round. `grouped` is ours by length against its random batches, which is what it has; `both` has the same
batches on both sides.

`--ways` instead compares our padded and unpadded passes on batches of other lengths: it is what the rule
`worth_unpadding` was fitted to.
"""

import argparse
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import TYPES, machine, peak, spread, timed, weights
from torch import nn

from embedrun.backbone import transformer
from embedrun.batch import Batch, Tokens, View
from embedrun.config import BackboneConfig, PoolingConfig, TrainingConfig
from embedrun.dataset.published import Stsb
from embedrun.encoder import Encoder
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.store import Store
from embedrun.training.order import Order
from embedrun.training.step import Stepper

PAIRS, LR, SCALE = 32, 2e-5, 20.0
BARS = {"random/fp32": 1.85, "random/bf16": 1.4, "grouped/fp32": 2.3}  # times sentence-transformers
OWN_BAR = 1.3  # bf16 by float32, ours, where the processor gains


class Ours:
    """Steps of ours in one precision."""

    def __init__(self, precision: str, views: dict[str, Any], score: np.ndarray) -> None:
        self.encoder = Encoder.build(
            BackboneConfig(name=os.environ["MINILM"]), PoolingConfig(), seed=0
        ).train()
        self._tables = {key: self.encoder.tokenize(list(texts)) for key, texts in views.items()}
        self._score = torch.from_numpy(score)
        config = TrainingConfig(lr=LR, warmup_ratio=0.0, schedule="constant")
        mix = Mix({"cosent": {"temperature": 1 / SCALE}})
        self.stepper = Stepper(self.encoder, mix, Compute(torch.device("cpu"), precision), config)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens, ``(rows, views)``."""
        return np.stack([table.lengths for table in self._tables.values()], axis=1)

    def prepare(self, batches: list[np.ndarray]) -> None:
        """Nothing: the texts are tokens already."""

    def take(self, rows: np.ndarray) -> None:
        seeds = torch.arange(len(rows))
        views = {key: View(table.take(rows), seeds) for key, table in self._tables.items()}
        self.stepper.take(1, 1, [Batch(views, {"score": self._score[rows]}, rows)])


class Theirs:
    """Steps of sentence-transformers, as its trainer takes them: autocast, clipping, fused AdamW."""

    def __init__(self, precision: str, views: dict[str, Any], score: np.ndarray) -> None:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.losses import CoSENTLoss

        self._model = SentenceTransformer(os.environ["MINILM"], device="cpu").train()
        self._loss = CoSENTLoss(self._model, scale=SCALE)
        self._precision = precision
        self._views = {key: list(texts) for key, texts in views.items()}
        self._score = torch.from_numpy(score).float()
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=LR, weight_decay=0.0, fused=True)
        self._known: dict[bytes, list[dict[str, Any]]] = {}

    def prepare(self, batches: list[np.ndarray]) -> None:
        """What its collator makes, outside the time."""
        for rows in batches:
            columns = ([texts[row] for row in rows] for texts in self._views.values())
            self._known[rows.tobytes()] = [dict(self._model.preprocess(column)) for column in columns]

    def take(self, rows: np.ndarray) -> None:
        features = self._known.pop(rows.tobytes())
        with torch.autocast("cpu", torch.bfloat16, enabled=self._precision == "bf16"):
            loss = self._loss(features, self._score[rows])
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()


def against_the_peer(rounds: int, steps: int) -> dict[str, Any]:
    """All arms in turn, on random batches and on batches by length."""
    rows = Stsb().read("train", Store.find())
    views, score = {key: rows.texts[key] for key in ("left", "right")}, rows.targets["score"]
    arms: dict[str, Any] = {
        f"{who.__name__.lower()}/{precision}": who(precision, views, score)
        for precision in ("fp32", "bf16")
        for who in (Ours, Theirs)
    }
    lengths = arms["ours/fp32"].lengths  # (rows, views)
    size = weights(arms["ours/fp32"].encoder.backbone.model)
    orders = {
        "random": Order(len(lengths), PAIRS, 1, 42),
        "grouped": Order(len(lengths), PAIRS, 1, 42, batching="length_grouped", lengths=lengths),
    }
    taken: dict[str, list[tuple[float, float]]] = {f"{kind}/{name}": [] for kind in orders for name in arms}
    shares: dict[str, list[float]] = {name: [] for name in taken}
    computed: dict[str, list[int]] = {kind: [] for kind in orders}  # real tokens of each round
    for number in range(rounds + 1):  # the first warms up
        for kind, order in orders.items():
            first = 1 + number * steps
            drawn = [draw.rows for step in range(first, first + steps) for draw in order.batches(step)]
            tokens = sum(int(lengths[batch].sum()) for batch in drawn)
            computed[kind].append(tokens)
            for name, arm in arms.items():
                arm.prepare(drawn)
                spent = timed(partial(_steps, arm, drawn))
                taken[f"{kind}/{name}"].append(spent)
                done = 6 * size * tokens / spent[0]
                shares[f"{kind}/{name}"].append(done / peak(TYPES[name.rpartition("/")[2]]))
    times = {name: np.array(one[1:]) for name, one in taken.items()}  # (rounds, 2) each

    def ratio(other: str, own: str) -> dict[str, Any]:
        # The rounds of two orders have other rows, of other lengths: it is of the time of a token.
        each = [
            times[name] / np.array(computed[name.partition("/")[0]][1:])[:, None] for name in (other, own)
        ]  # (rounds, 2)
        both = each[0] / each[1]  # (rounds, 2)
        return {"processor": spread(both[:, 0]), "wall": spread(both[:, 1])}

    found: dict[str, Any] = {}
    for precision in TYPES:
        found[f"random/{precision}"] = ratio(f"random/theirs/{precision}", f"random/ours/{precision}")
        found[f"grouped/{precision}"] = ratio(f"random/theirs/{precision}", f"grouped/ours/{precision}")
        both_grouped = ratio(f"grouped/theirs/{precision}", f"grouped/ours/{precision}")
        found[f"grouped/{precision}, both"] = both_grouped
    for who in ("ours", "theirs"):
        found[f"random/{who}, bf16 by fp32"] = ratio(f"random/{who}/fp32", f"random/{who}/bf16")
    for name, one in times.items():
        share = round(float(np.median(shares[name][1:])), 3)
        seconds = round(float(np.median(one[:, 0])) / steps, 4)
        found[name] = {"seconds a step": seconds, "share of the peak": share}
    return found


def _steps(arm: Any, drawn: list[np.ndarray]) -> None:
    for rows in drawn:
        arm.take(rows)


def ways(rounds: int) -> dict[str, Any]:
    """Padded by unpadded, on texts of made-up lengths, beside what the rule says."""
    random = np.random.default_rng(1)
    cases: dict[str, np.ndarray] = {
        "15 and 16, 64 texts": np.array([15, 16] * 32),
        "14 to 16, 64 texts": random.integers(14, 17, 64),
        "12 to 18, 64 texts": random.integers(12, 19, 64),
        "6 to 40, 4 texts": random.integers(6, 41, 4),
        "6 to 40, 8 texts": random.integers(6, 41, 8),
        "6 to 40, 64 texts": random.integers(6, 41, 64),
        "6 to 40, 256 texts": random.integers(6, 41, 256),
        "10, one of 60, 32 texts": np.array([60] + [10] * 31),
        "64 to 256, 16 texts": random.integers(64, 257, 16),
    }
    one = {"left": ["a"], "right": ["b"]}
    found: dict[str, Any] = {}
    for precision in ("fp32", "bf16"):
        stepper = Ours(precision, one, np.zeros(1)).stepper
        for name, lengths in cases.items():
            half = len(lengths) // 2

            def view(own: np.ndarray) -> View:
                ids = torch.from_numpy(random.integers(1000, 30_000, int(own.sum())))  # (tokens,)
                return View(Tokens(ids, torch.from_numpy(own)), torch.arange(len(own)))

            views = {"left": view(lengths[:half]), "right": view(lengths[half:])}
            batch = Batch(views, {"score": torch.rand(half, dtype=torch.float64)}, np.arange(half))
            rule = transformer.worth_unpadding(lengths)
            ratios = []
            for _ in range(rounds + 1):
                spent = []
                for always in (False, True):
                    transformer.worth_unpadding = lambda lengths, answer=always: answer
                    spent.append(timed(partial(stepper.take, 1, 1, [batch]))[0])
                ratios.append(spent[0] / spent[1])
            transformer.worth_unpadding = RULE
            found[f"{precision}, {name}"] = {"processor": spread(np.array(ratios[1:])), "unpadded": rule}
    return found


RULE = transformer.worth_unpadding


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4, help="of a round")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ways", action="store_true", help="padded against unpadded, ours alone")
    parser.add_argument("--json", type=Path, help="write everything here")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    about = machine()
    print(json.dumps(about), flush=True)
    found = ways(asked.rounds) if asked.ways else against_the_peer(asked.rounds, asked.steps)
    for name, one in found.items():
        print(f"{name:32} {json.dumps(one)}")
    for name, bar in BARS.items():
        if name in found:
            met = found[name]["processor"]["median"] >= bar
            print(f"{'met   ' if met else 'MISSED'} {name} {bar} times sentence-transformers")
    if "random/ours, bf16 by fp32" in found:
        met = found["random/ours, bf16 by fp32"]["processor"]["median"] >= OWN_BAR
        print(f"{'met   ' if met else 'MISSED'} bf16 {OWN_BAR} times our fp32")
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"machine": about, "found": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
