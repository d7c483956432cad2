"""Time and memory of the ranking losses: sorted, against all pairs and against sentence-transformers.

Run by `make bench-loss`, on one thread of a CPU. A time is of one forward and backward pass. What is compared
runs in turns, A B A B, so that a slow moment of the machine meets both; a ratio is the median over turns.
A turn is one pass that is not timed, because the other's turn has emptied the caches (a pass over all pairs
of 4096 rows makes the next sorted one take twice its time), and then passes for some milliseconds.
sentence-transformers has its own turns; the sorted time printed is from those with all pairs, where there are
any.

Memory is the peak of what torch allocates in one pass beyond what was there, as its profiler counts it: the
same in every run. It leaves out the scratch space inside a sort, which is linear too.

sentence-transformers 6.2.0 sorts as well, in the type of the embeddings; here the sums are in float64.
"""

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from embedrun.loss import ordered_pairs
from embedrun.loss.angle import Angle, complex_angle
from embedrun.loss.cosent import Cosent
from embedrun.loss.cosine import angle, cosine
from embedrun.loss.gated_angular import GatedAngular
from embedrun.loss.rank_margin import RankMargin

ROWS = (512, 4096, 8192, 32768)
DENSE_UP_TO = 8192  # rows; 32768 would need 18 GiB
DIM = 384
SCALE = 20.0  # of all four losses, and of sentence-transformers
SECONDS = 4.0  # for the turns of one comparison
TURNS = (3, 101)  # at least and at most, whatever the time
TURN = 10.0  # milliseconds of one turn, about
FASTER_AT_4096 = {"cosent": 500, "angle": 500, "rank_margin": 500, "gated_angular": 150}
LINEAR = 9.0  # times the memory for 8 times the rows

Step = Callable[[], float]  # one forward and backward pass; returns the loss
Measured = dict[tuple[str, int], tuple[float, float]]  # by loss and rows: ratio to all pairs, MiB if sorted


class Batch(NamedTuple):
    left: Tensor  # (rows, DIM)
    right: Tensor  # (rows, DIM)
    score: Tensor  # (rows,); 0 to 5 by 0.2, with ties, as in STS-B
    label: Tensor  # (rows,); 0, 1 or 2


def random_batch(rows: int) -> Batch:
    seeded = torch.Generator().manual_seed(rows)
    left = torch.randn(rows, DIM, generator=seeded)
    right = left + 2 * torch.randn(rows, DIM, generator=seeded)  # cosines about 0.45
    score = torch.randint(26, (rows,), generator=seeded) / 5
    return Batch(left, right, score, torch.randint(3, (rows,), generator=seeded))


def sum_alone(loss: str, batch: Batch) -> Step:
    """The sum over pairs of rows, from one value for each row."""
    left, right, score, label = batch
    unscaled = {"angle": complex_angle(left, right, "sum"), "gated_angular": angle(left, right)}
    value = (SCALE * unscaled.get(loss, cosine(left, right))).requires_grad_()  # (rows,)
    ranked = partial(ordered_pairs.log_sum_over_ranked_pairs, interval=2, ties="average")
    sums: dict[str, Callable[[], Tensor]] = {
        "cosent": lambda: ordered_pairs.log_sum_over_ordered_pairs(value, score),
        "angle": lambda: ordered_pairs.log_sum_over_ordered_pairs(value, score),
        "rank_margin": lambda: ranked(value, score),
        "gated_angular": lambda: ordered_pairs.log_sum_over_agreeing_pairs(value, label, score),
    }
    return partial(forward_and_backward, sums[loss], value)


def whole_term(loss: str, batch: Batch) -> Step:
    """The loss module, from embeddings."""
    left, right, score, label = batch
    terms: dict[str, Callable[[], Tensor]] = {
        "cosent": lambda: Cosent(temperature=1 / SCALE)(left, right, score),
        "angle": lambda: Angle(temperature=1 / SCALE)(left, right, score),
        "rank_margin": lambda: RankMargin(scale=SCALE)(left, right, score),
        "gated_angular": lambda: GatedAngular(scale=SCALE)(left, right, label, score),
    }
    return partial(forward_and_backward, terms[loss], left.requires_grad_(), right.requires_grad_())


def sentence_transformers(loss: str, batch: Batch) -> Step:
    """The loss of that library on the same embeddings, past its model."""
    from sentence_transformers.sentence_transformer.losses import AnglELoss, CoSENTLoss  # takes seconds

    module = {"cosent": CoSENTLoss, "angle": AnglELoss}[loss](nn.Identity(), scale=SCALE)  # type: ignore[arg-type]
    embeddings = [batch.left.requires_grad_(), batch.right.requires_grad_()]  # (rows, DIM) each
    loss_of = module.compute_loss_from_embeddings
    return partial(forward_and_backward, lambda: loss_of(embeddings, batch.score), *embeddings)


def forward_and_backward(loss: Callable[[], Tensor], *inputs: Tensor) -> float:
    value = loss()
    torch.autograd.grad(value, inputs)
    return value.item()


def with_sorting_from(rows: int, step: Step) -> float:
    ordered_pairs.SORTED_FROM["cpu"] = rows
    return step()


def milliseconds(step: Step, passes: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(passes):
        step()
    return 1000 * (time.perf_counter() - start) / passes


def turn(step: Step) -> float:
    """Milliseconds of a pass among others like it."""
    return milliseconds(step, max(1, round(TURN / milliseconds(step))))


def in_turns(ours: Step, other: Step) -> tuple[float, float, float]:
    """Median ms of both, and the median of the other's time over ours."""
    torch.testing.assert_close(ours(), other(), rtol=1e-4, atol=1e-4)  # or they do different work
    turns = []
    start = time.perf_counter()
    while len(turns) < TURNS[0] or (len(turns) < TURNS[1] and time.perf_counter() - start < SECONDS):
        turns.append((turn(ours), turn(other)))
    mine, others = zip(*turns, strict=True)
    return median(mine), median(others), median(b / a for a, b in turns)


def peak_memory(step: Step) -> float:
    """MiB at the highest point of one pass, beyond what was allocated before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    with tempfile.NamedTemporaryFile(suffix=".json") as trace:
        profiler.export_chrome_trace(trace.name)
        events = json.loads(Path(trace.name).read_text())["traceEvents"]  # a new file by that name
    memory = sorted((event for event in events if event["name"] == "[memory]"), key=lambda event: event["ts"])
    changes = [event["args"]["Bytes"] for event in memory]  # negative where memory is given back
    return max(accumulate(changes)) / 2**20


def measure(title: str, work: Callable[[str, Batch], Step], theirs: tuple[str, ...]) -> Measured:
    """Print one table and return what the verdicts need of it."""
    print(f"\n{title}")
    print_row("", "rows", "sorted", "all pairs", "ratio", "s-t", "ratio", "sorted", "all pairs", "s-t")
    print_row("", "", "ms", "ms", "", "ms", "", "MiB", "MiB", "MiB")
    measured: Measured = {}
    for loss in FASTER_AT_4096:
        for rows in ROWS:
            batch = random_batch(rows)
            step = work(loss, batch)
            ours, dense = (partial(with_sorting_from, first, step) for first in (0, sys.maxsize))
            other = sentence_transformers(loss, batch) if loss in theirs else None
            runs = (dense if rows <= DENSE_UP_TO else None, other)
            turns = [in_turns(ours, run) if run else (None, None, None) for run in runs]
            alone = turns[0][0] or turns[1][0] or in_turns(ours, ours)[0]
            memory = [run and peak_memory(run) for run in (ours, *runs)]
            print_row(loss, str(rows), alone, *turns[0][1:], *turns[1][1:], *memory)
            measured[loss, rows] = (turns[0][2] or 0, memory[0] or 0)
    return measured


def print_row(loss: str, *cells: str | float | None) -> None:
    texts = (f"{cell:.2f}" if isinstance(cell, float) else cell or "" for cell in cells)
    print(f"{loss:14}" + "".join(f"{text:>10}" for text in texts), flush=True)


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def main() -> int:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler reports each start and stop
    torch.set_num_threads(1)
    library = f"sentence-transformers (s-t) {version('sentence-transformers')}"
    print(f"1 thread, torch {torch.__version__}, {library}, {processor()}; ratio: time over that of sorted")
    sums = measure("The ranking sum alone, from one value for each row", sum_alone, theirs=())
    terms = measure(f"The whole term, from embeddings of width {DIM}", whole_term, theirs=("cosent", "angle"))
    verdicts = []
    for loss, bar in FASTER_AT_4096.items():
        ratio, _ = sums[loss, 4096]
        verdicts.append(
            (
                ratio >= bar,
                f"{loss}: ranking sum of 4096 rows {ratio:.0f} times as fast, bar {bar} "
                f"(whole term {terms[loss, 4096][0]:.0f})",
            )
        )
    for name, table in (("sum", sums), ("term", terms)):
        growth = {loss: table[loss, 32768][1] / table[loss, 4096][1] for loss in FASTER_AT_4096}
        text = ", ".join(f"{loss} {factor:.2f}" for loss, factor in growth.items())
        linear = max(growth.values()) <= LINEAR
        verdicts.append((linear, f"memory of the {name}, 4096 to 32768 rows, linear is 8: {text}"))
    print("", *(f"{'met   ' if met else 'MISSED'} {text}" for met, text in verdicts), sep="\n")
    return 0 if all(met for met, _ in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
