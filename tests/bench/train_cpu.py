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
"""

import os
import sys
from functools import partial
from typing import Any

import numpy as np
import torch
from measure import TYPES, arguments, finish, peak, spread, timed, weights
from torch import nn

from embedrun.batch import Batch, View
from embedrun.config import BackboneConfig, PoolingConfig, TrainingConfig
from embedrun.dataset.published import Stsb
from embedrun.encoder import Encoder
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.store import Store
from embedrun.training.order import Order
from embedrun.training.step import Stepper

PAIRS, LR, SCALE = 32, 2e-5, 20.0
BARS = {"random/fp32": 1.85, "random/bf16": 1.4, "grouped/fp32": 2.3, "random/ours, bf16 by fp32": 1.3}


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


def main() -> int:
    asked = arguments(__doc__, rounds=7, threads=1, steps=4)
    results = against_the_peer(asked.rounds, asked.steps)
    verdicts = []
    for name, bar in BARS.items():
        ratio = results[name]["processor"]["median"]
        verdicts.append((ratio >= bar, f"{name} {ratio} times as fast, bar {bar}"))
    return finish(asked, {"steps": asked.steps}, results, verdicts)


if __name__ == "__main__":
    sys.exit(main())
