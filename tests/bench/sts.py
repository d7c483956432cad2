"""Time of scoring the seven STS test sets: sentence-transformers, and ours in float32 and bfloat16.

Run by `make bench-eval`; EMBEDRUN_DATA=DIR has the sets, MINILM=DIR the model. Reading rows and loading the
models is not timed, tokenising and scoring is. sentence-transformers encodes 32 sentences a pass, at which it
is fastest, in float32. The three take turns, A B C A B C, so that a slow moment of the machine meets all of
them; a ratio has its median and quartiles over rounds. Our intervals, which the other does not compute, are
timed by themselves. The share of the peak is twice the weights outside the embeddings times the tokens of the
distinct sentences, by that of a square matrix product in the same type, measured after each turn.

With `--sample K` every K-th pair is scored: a fast look, with fewer repeated sentences than the whole sets
and so a lower ratio. The verdict is for whole sets.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from measure import TYPES, arguments, finish, machine, peak, spread, timed, weights
from scipy.stats import spearmanr

from embedrun.encoder import Encoder
from embedrun.evaluation.scores import score_all
from embedrun.evaluation.sts import SETS, Sts
from embedrun.experiment.scoring import dataset_of
from embedrun.rows import Rows
from embedrun.store import Store

OTHER = "sentence-transformers"
BARS = {"fp32": 2.2, "bf16": 4.5}  # times the speed of sentence-transformers in float32
EQUAL = {"fp32": 0.0015, "bf16": 0.02}  # Spearman × 100, of each set, against the other's
GAINS = {"avx512_bf16", "amx_bf16"}  # flags of a processor that gains from bfloat16

Found = dict[str, float]  # Spearman × 100, by set


def read() -> dict[str, Rows]:
    """The pairs of each set."""
    sources, store = Sts().sources(), Store.find()
    return {name: dataset_of(source, None).read(source.split, store) for name, source in sources.items()}


def thinned(rows: dict[str, Rows], step: int) -> dict[str, Rows]:
    """Every so many of the pairs of each set."""
    return {
        name: Rows(
            one.name,
            one.split,
            one.form,
            {view: texts[::step] for view, texts in one.texts.items()},
            {"score": one.targets["score"][::step]},
            one.subset[::step],
        )
        for name, one in rows.items()
    }


def ours(encoder: Encoder, precision: Any, rows: dict[str, Rows], draws: int = 0) -> Found:
    def encode(texts: list[str]) -> torch.Tensor:
        return torch.from_numpy(encoder.encode(texts, precision=precision))

    found = score_all({"sts": Sts(interval_draws=draws)}, {"sts": rows}, encode)["sts"].scores
    return {name: found[f"sts/{name}/spearman"] for name in SETS}


def theirs(model: Any, rows: dict[str, Rows]) -> Found:
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    found = {}
    for name, one in rows.items():
        left, right, gold = list(one.texts["left"]), list(one.texts["right"]), one.targets["score"].tolist()
        judge = EmbeddingSimilarityEvaluator(
            left, right, gold, batch_size=32, main_similarity="cosine", write_csv=False
        )
        found[name] = 100 * judge(model)["spearman_cosine"]
    return found


def seconds_of_intervals(rows: dict[str, Rows]) -> float:
    """What the default of 1000 resamples adds, in seconds of all processors."""
    vectors = {text: torch.randn(4) for one in rows.values() for text in one.sentences()}

    def score(draws: int) -> Found:
        task = Sts(interval_draws=draws)
        score_all({"sts": task}, {"sts": rows}, lambda texts: torch.stack([vectors[text] for text in texts]))
        return {}

    return timed(partial(score, 1000))[0] - timed(partial(score, 0))[0]


def main() -> int:
    asked = arguments(__doc__, rounds=3, sample=1)
    from sentence_transformers import SentenceTransformer  # takes seconds

    spearmanr([0, 1], [0, 1])  # what it imports at its first use is nobody's time
    model = SentenceTransformer(os.environ["MINILM"], device="cpu")
    encoder = Encoder.load(os.environ["MINILM"])
    rows = thinned(read(), asked.sample)
    arms: dict[str, Callable[[dict[str, Rows]], Found]] = {
        OTHER: partial(theirs, model),
        "fp32": partial(ours, encoder, "fp32"),
        "bf16": partial(ours, encoder, "bf16"),
    }
    for arm in arms.values():
        arm(thinned(rows, 20))  # warms up
    distinct = dict.fromkeys(text for pairs in rows.values() for text in pairs.sentences())
    work = 2 * weights(encoder.backbone.encoding) * len(encoder.tokenize(list(distinct)).ids)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    shares: dict[str, list[float]] = {name: [] for name in arms}
    scores: dict[str, Found] = {}
    for _ in range(asked.rounds):
        for name, arm in arms.items():
            spent = timed(lambda name=name, arm=arm: scores.update({name: arm(rows)}))
            seconds[name].append(spent)
            shares[name].append(work / spent[0] / peak(TYPES.get(name, torch.float32)))
    times = {name: np.array(each) for name, each in seconds.items()}  # (rounds, 2) each: processor, wall
    results: dict[str, Any] = {}
    for name, each in times.items():
        ratio, middle = times[OTHER] / each, np.median(each, axis=0)  # (rounds, 2), (2,)
        results[name] = {
            "processor": spread(ratio[:, 0]),
            "wall": spread(ratio[:, 1]),
            "seconds": {"processor": round(middle[0], 2), "wall": round(middle[1], 2)},
            "share of the peak": round(float(np.median(shares[name])), 3),
            "farthest score": max(abs(scores[name][key] - scores[OTHER][key]) for key in SETS),
            "scores": scores[name],
        }
    verdicts = []
    for name, bar in BARS.items() if asked.sample == 1 else ():
        far, ratio = results[name]["farthest score"], results[name]["processor"]["median"]
        verdicts.append((far <= EQUAL[name], f"{name} scores within {far:.4f}, bar {EQUAL[name]}"))
        if name == "fp32" or GAINS & {*machine()["flags"]}:
            verdicts.append((ratio >= bar, f"{name} {ratio:.2f} times as fast, bar {bar}"))
    about = {"pairs": sum(map(len, rows.values())), "intervals, seconds": seconds_of_intervals(rows)}
    return finish(asked, about, results, verdicts)


if __name__ == "__main__":
    sys.exit(main())
