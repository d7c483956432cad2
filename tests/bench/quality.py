"""Whether training without padding, and batches by length, leave the held-out score where it was.

Run by `make bench-quality`; EMBEDRUN_DATA=DIR has STS-B, MINILM=DIR the model. One epoch of `angle_stsb`,
whose in-batch negatives depend on which rows meet, with several seeds a side; the score is Spearman x 100 on
STS-B test. A side differs from `padded` by its mean difference over seeds, with the 90 % interval of a
paired t. Runs stay in `outputs`; a finished one is not trained again.
"""

import json
import os
import sys
from functools import partialmethod
from pathlib import Path

import numpy as np
from measure import arguments, finish
from scipy.stats import t

from embedrun.cli import main as embedrun
from embedrun.training.gradient import Gradient

SIDES = {"padded": "random", "unpadded": "random", "by length": "length_grouped"}
SCORE = "sts/stsb/spearman"
ENCODE = Gradient.encode
DIFFERENCE, WITHIN = 0.3, 0.5  # Spearman x 100; of the mean at most, and of the whole interval
OPTIONS = (
    "+experiment=angle_stsb", "backbone=minilm", "pooling=auto", "training.lr=5e-5",
    "training.warmup_ratio=0.1", "training.epochs=1", "training.batch_size=32", "gpu.threads=1",
)  # fmt: skip


def score_of(side: str, seed: int) -> float:
    """Of one run, which is trained if it is not there."""
    name = f"{side.replace(' ', '_')}_{seed}"
    if not (done := list(Path("outputs", name).glob("*/results.json"))):
        Gradient.encode = partialmethod(ENCODE, unpadded=side != "padded")
        options = [f"training.batching={SIDES[side]}", f"seed={seed}", f"name={name}"]
        if code := embedrun(["train", *OPTIONS, *options, f"backbone.name={os.environ['MINILM']}"]):
            raise SystemExit(code)
        done = list(Path("outputs", name).glob("*/results.json"))
    return json.loads(done[0].read_text())["scores"][SCORE]


def main() -> int:
    asked = arguments(__doc__, rounds=5)  # seeds a side
    seeds = range(1, asked.rounds + 1)
    scores = {side: np.array([score_of(side, seed) for seed in seeds]) for side in SIDES}  # (seeds,)
    results, verdicts = {}, []
    for side, of_side in scores.items():
        gap = of_side - scores["padded"]  # (seeds,)
        half = float(t.ppf(0.95, len(gap) - 1) * gap.std(ddof=1) / len(gap) ** 0.5)
        mean = float(gap.mean())
        results[side] = {
            "scores": of_side.round(2).tolist(),
            "mean": round(of_side.mean(), 2),
            "sd": round(of_side.std(ddof=1), 2),
            "difference from padded": round(mean, 2),
            "interval": [round(mean - half, 2), round(mean + half, 2)],
        }
        verdicts.append((abs(mean) <= DIFFERENCE and max(abs(mean - half), abs(mean + half)) <= WITHIN, side))
    return finish(asked, {}, results, verdicts)


if __name__ == "__main__":
    sys.exit(main())
