"""Time of scoring the seven STS test sets: sentence-transformers, and ours in float32 and bfloat16.

Run by `make bench-eval`; EMBEDRUN_DATA=DIR has the sets, MINILM=DIR the model. Reading rows and loading the
models is not timed, tokenising and scoring is. sentence-transformers encodes 32 sentences a pass, at which it
is fastest. The three take turns, A B C A B C, so that a slow moment of the machine meets all of them; a ratio
is the median over rounds. Our intervals, which the other does not compute, are timed by themselves.

With `--sample K` every K-th pair is scored: a fast look, with fewer repeated sentences than the whole sets
and so a lower ratio. The verdict is for whole sets.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from statistics import median
from typing import Any

import torch
from scipy.stats import spearmanr

from embedrun.encoder import Encoder
from embedrun.evaluation.scores import score_all
from embedrun.evaluation.sts import SETS, Sts
from embedrun.experiment.scoring import dataset_of
from embedrun.rows import Rows
from embedrun.store import Store

BAR = 2.2  # times the speed of sentence-transformers, in float32
EQUAL = 0.01  # Spearman × 100, of each set

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
        left, right, gold = one.texts["left"], one.texts["right"], one.targets["score"].tolist()
        judge = EmbeddingSimilarityEvaluator(
            left, right, gold, batch_size=32, main_similarity="cosine", write_csv=False
        )
        found[name] = 100 * judge(model)["spearman_cosine"]
    return found


def timed(work: Callable[[], Found]) -> tuple[float, float, Found]:
    """Seconds by the clock, seconds of all processors, and the scores."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return time.perf_counter() - wall, time.process_time() - cpu, found


def seconds_of_intervals(rows: dict[str, Rows]) -> float:
    """What the default of 1000 resamples adds, in seconds of all processors."""
    vectors = {text: torch.randn(4) for one in rows.values() for text in one.sentences()}

    def score(draws: int) -> Found:
        task = Sts(interval_draws=draws)
        score_all({"sts": task}, {"sts": rows}, lambda texts: torch.stack([vectors[text] for text in texts]))
        return {}

    return timed(partial(score, 1000))[1] - timed(partial(score, 0))[1]


def main() -> int:
    parser = argparse.ArgumentParser(description="Time of scoring the seven STS test sets.")
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    parser.add_argument("--sample", type=int, default=1, metavar="K", help="every K-th pair")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    from sentence_transformers import SentenceTransformer  # takes seconds

    spearmanr([0, 1], [0, 1])  # what it imports at its first use is nobody's time
    model = SentenceTransformer(os.environ["MINILM"], device="cpu")
    encoder = Encoder.load(os.environ["MINILM"])
    rows = thinned(read(), asked.sample)
    arms: dict[str, Callable[[dict[str, Rows]], Found]] = {
        "sentence-transformers": partial(theirs, model),
        "fp32": partial(ours, encoder, "fp32"),
        "bf16": partial(ours, encoder, "bf16"),
    }
    print(
        f"{sum(map(len, rows.values())):,} pairs, {asked.threads} threads, torch {torch.__version__}, "
        f"sentence-transformers {version('sentence-transformers')}; ratio: its CPU time over ours",
        flush=True,
    )
    for arm in arms.values():
        arm(thinned(rows, 20))  # warms up
    turns: dict[str, list[tuple[float, float, Found]]] = {name: [] for name in arms}
    for number in range(1, asked.rounds + 1):
        for name, arm in arms.items():
            turns[name].append(timed(partial(arm, rows)))
            wall, cpu, _ = turns[name][-1]
            print(f"round {number}  {name:22} {wall:8.1f} s, {cpu:8.1f} s of CPU", flush=True)
    return report(turns, seconds_of_intervals(rows), whole=asked.sample == 1)


def report(turns: dict[str, list[tuple[float, float, Found]]], intervals: float, *, whole: bool) -> int:
    """Print medians, scores and verdicts; 1 if a bar is missed."""
    other = turns["sentence-transformers"]
    ratios = {}
    for name, own in turns.items():
        wall, cpu = median(turn[0] for turn in own), median(turn[1] for turn in own)
        by_wall = median(a[0] / b[0] for a, b in zip(other, own, strict=True))
        ratios[name] = median(a[1] / b[1] for a, b in zip(other, own, strict=True))
        print(f"{name:22} {wall:8.1f} s ({by_wall:.2f}), {cpu:8.1f} s of CPU ({ratios[name]:.2f})")
    print(f"our intervals, not in these times: {intervals:.1f} s of CPU\n")
    print(f"{'':8}" + "".join(f"{name:>23}" for name in turns))
    scores = {name: own[0][2] for name, own in turns.items()}
    for one in SETS:
        print(f"{one:8}" + "".join(f"{found[one]:23.4f}" for found in scores.values()))
    peer, exact, rounded = scores.values()
    apart = max(abs(exact[one] - peer[one]) for one in SETS)
    moved = max(abs(rounded[one] - exact[one]) for one in SETS)
    print(f"bf16 moves a set by at most {moved:.4f}\n")
    verdicts = [(apart <= EQUAL, f"scores of fp32 within {apart:.4f} of the other's, bar {EQUAL}")]
    if whole:
        verdicts.append((ratios["fp32"] >= BAR, f"fp32 {ratios['fp32']:.2f} times as fast, bar {BAR}"))
    print(*(f"{'met   ' if met else 'MISSED'} {text}" for met, text in verdicts), sep="\n")
    return 0 if all(met for met, _ in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
