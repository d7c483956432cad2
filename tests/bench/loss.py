"""Time and memory of the ranking losses, against all pairs, sentence-transformers and a fused cosine.

Run by `make bench-loss`, on one thread of a CPU. A time is of one forward and backward pass. What is compared
runs in turns, A B A B, so that a slow moment of the machine meets both; a ratio is the median over turns.
A turn is one pass that is not timed, because the other's turn has emptied the caches (a pass over all pairs
of 4096 rows makes the next sorted one take twice its time), and then passes for some milliseconds.
sentence-transformers has its own turns; the sorted time printed is from those with all pairs, where there are
any.

Memory is the peak of what torch allocates in one pass beyond what was there, as its profiler counts it: the
same in every run. It leaves out the scratch space inside a sort, which is linear too.

A fused cosine of the same vectors is the least that any such loss costs. Beside it, in turns, run every whole
term and mixes of them, on processor time. The C library is told to keep freed memory: else it gives some
tensors back after one pass and not after another, and new pages cost several times the pass.

sentence-transformers 6.2.0 sorts as well, in the type of the embeddings; here the sums are in float64.
"""

import argparse
import ctypes
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
from statistics import median, quantiles
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.profiler import ProfilerActivity, profile

from embedrun.loss.angle import Angle, complex_angle
from embedrun.loss.cosent import Cosent
from embedrun.loss.cosine import angle, cosine
from embedrun.loss.mix import Mix
from embedrun.loss.ordered_pairs import log_sum_over_ordered_pairs, ranks

ROWS = (512, 4096, 8192, 32768)
DENSE_UP_TO = 8192  # rows; 32768 would need 18 GiB
DIM = 384
SCALE = 20.0  # of all four losses, and of sentence-transformers
SECONDS = 4.0  # for the turns of one comparison
TURNS = (3, 101)  # at least and at most, whatever the time
TURN = 10.0  # milliseconds of one turn, about
FASTER_AT_4096 = {"cosent": 500, "angle": 500, "rank_margin": 500, "gated_angular": 150}
DIMS = (384, 768)  # of the whole terms beside a fused cosine
PAIRS_OF_TURNS = 15
TIMES_A_COSINE = 6.0  # at 4096 rows, at most: a term is plain torch, a step a thousand times as long
MIXES = {  # options of the terms, by the name that is printed
    "cosent": {"cosent": {"temperature": 1 / SCALE}},
    "angle": {"angle": {"temperature": 1 / SCALE}},
    "rank_margin": {"rank_margin": {"scale": SCALE}},
    "gated_angular": {"gated_angular": {"scale": SCALE}},
    "rank_margin + gated_angular": {"rank_margin": {"scale": SCALE}, "gated_angular": {"scale": SCALE}},
    "cosent + angle": {"cosent": {"temperature": 1 / SCALE}, "angle": {"temperature": 1 / SCALE}},
}
LINEAR = 9.0  # times the memory for 8 times the rows

Step = Callable[[], float]  # one forward and backward pass; returns the loss
Measured = dict[tuple[str, int], tuple[float, float]]  # by loss and rows: ratio to all pairs, MiB if sorted


class Batch(NamedTuple):
    left: Tensor  # (rows, DIM)
    right: Tensor  # (rows, DIM)
    score: Tensor  # (rows,); 0 to 5 by 0.2, with ties, as in STS-B
    label: Tensor  # (rows,); 0, 1 or 2


def random_batch(rows: int, dim: int = DIM) -> Batch:
    seeded = torch.Generator().manual_seed(rows)
    left = torch.randn(rows, dim, generator=seeded)
    right = left + 2 * torch.randn(rows, dim, generator=seeded)  # cosines about 0.45
    score = torch.randint(26, (rows,), generator=seeded) / 5
    return Batch(left, right, score, torch.randint(3, (rows,), generator=seeded))


def sums(loss: str, batch: Batch) -> tuple[Step, Step]:
    """The sum over pairs of rows, from one value for each row: sorted, and pair by pair."""
    left, right, score, label = batch
    unscaled = {"angle": complex_angle(left, right, "sum"), "gated_angular": -angle(left, right)}
    value = (SCALE * unscaled.get(loss, cosine(left, right))).detach().requires_grad_()  # (rows,)
    options: dict[str, Any] = {
        "rank_margin": {"interval": 2, "ties": "average"},
        "gated_angular": {"level": label},
    }.get(loss, {})

    def all_pairs() -> Tensor:
        rank = ranks(score, options.get("ties", "min"))  # (rows,)
        ordered = rank[:, None] - rank[None, :] > options.get("interval", 0)  # (rows, rows)
        if loss == "gated_angular":
            ordered &= label[:, None] < label[None, :]
        gap = (value[None, :] - value[:, None]).masked_fill(~ordered, -torch.inf)  # (rows, rows)
        return torch.logsumexp(nn.functional.pad(gap.flatten(), (1, 0)), dim=0)

    by_sorting = partial(log_sum_over_ordered_pairs, value, score, **options)
    return partial(forward_and_backward, by_sorting, value), partial(forward_and_backward, all_pairs, value)


def whole_term(loss: str, batch: Batch) -> Step:
    """The loss module, from embeddings."""
    module = {"cosent": Cosent, "angle": Angle}[loss](temperature=1 / SCALE)
    embeddings = batch.left.requires_grad_(), batch.right.requires_grad_()
    return partial(forward_and_backward, lambda: module(*embeddings, batch.score), *embeddings)


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


def measure() -> Measured:
    """Print the sums beside all pairs, and whole terms beside sentence-transformers."""
    measured: Measured = {}
    print_row("", "rows", "ours, ms", "other, ms", "ratio", "ours, MiB")
    for loss in FASTER_AT_4096:
        for rows in ROWS:
            ours, dense = sums(loss, random_batch(rows))
            turns = in_turns(ours, dense) if rows <= DENSE_UP_TO else (None, None, None)
            measured[loss, rows] = (turns[2] or 0, peak_memory(ours))
            print_row(loss, str(rows), *turns, measured[loss, rows][1])
    for loss in ("cosent", "angle"):
        for rows in ROWS:
            batch = random_batch(rows)
            ours = whole_term(loss, batch)
            turns = in_turns(ours, sentence_transformers(loss, batch))
            print_row(f"whole {loss}", str(rows), *turns, peak_memory(ours))
    return measured


class FusedCosine(torch.autograd.Function):
    """The cosine of each pair, written as short as it gets: no zero vector, no overflow is thought of."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        a, b = (torch.linalg.vector_norm(one, dim=1, keepdim=True).reciprocal_() for one in (left, right))
        value = (left * right).sum(dim=1, keepdim=True) * a * b  # (rows, 1)
        ctx.save_for_backward(left, right, a, b, value)
        return value.squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        left, right, a, b, value = ctx.saved_tensors
        across, along = grad[:, None] * a * b, -grad[:, None] * value  # (rows, 1) each
        return (right * across).addcmul_(left, along * a * a), (left * across).addcmul_(right, along * b * b)


def beside_a_cosine(rows: int, dim: int) -> dict[str, dict[str, float]]:
    """By term or mix: median ms, and the median and quartiles of its time over that of a fused cosine."""
    left, right, score, label = random_batch(rows, dim)
    views = {"left": left.requires_grad_(), "right": right.requires_grad_()}
    ones = torch.full((rows,), 1 / rows)

    def term(name: str) -> Callable[[], object]:
        mix = Mix(MIXES[name])
        loss = lambda: mix(views, {"score": score, "label": label})[0]  # noqa: E731
        return lambda: torch.autograd.grad(loss(), (left, right))

    cosine_alone = lambda: torch.autograd.grad(FusedCosine.apply(left, right), (left, right), ones)  # noqa: E731
    steps = {"fused cosine": cosine_alone, **{name: term(name) for name in MIXES}}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(PAIRS_OF_TURNS):
        for name, step in steps.items():
            step()
            start = time.process_time()
            for _ in range(3):
                step()
            times[name].append(1000 * (time.process_time() - start) / 3)
    found = {}
    for name, own in times.items():
        ratios = [one / other for one, other in zip(own, times["fused cosine"], strict=True)]
        low, middle, high = quantiles(ratios)
        found[name] = {"ms": median(own), "ratio": middle, "lower_quartile": low, "upper_quartile": high}
    return found


def keep_freed_memory() -> None:
    trim, mapped = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    if hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(trim, 2**31 - 1)
        library.mallopt(mapped, 2**25)


def print_row(loss: str, *cells: str | float | None) -> None:
    texts = (f"{cell:.2f}" if isinstance(cell, float) else cell or "" for cell in cells)
    print(f"{loss:14}" + "".join(f"{text:>10}" for text in texts), flush=True)


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def whole_terms(path: Path) -> list[tuple[bool, str]]:
    """Print the whole terms beside a fused cosine, write them to a file, and return the verdicts."""
    keep_freed_memory()
    beside = {dim: beside_a_cosine(4096, dim) for dim in DIMS}
    verdicts = []
    print("\nWhole terms at 4096 rows, forward and backward: time over that of a fused cosine (quartiles)")
    for dim, found in beside.items():
        for name, one in found.items():
            ratio = one["ratio"]
            spread = f"{one['lower_quartile']:.2f} to {one['upper_quartile']:.2f}"
            print(f"{dim:5}  {name:30}{one['ms']:8.2f} ms  {ratio:.2f} ({spread})")
            if name in FASTER_AT_4096:
                text = f"{name}: {ratio:.2f} times a fused cosine at {dim} dimensions, bar {TIMES_A_COSINE}"
                verdicts.append((ratio <= TIMES_A_COSINE, text))
    machine = {"processor": processor(), "torch": torch.__version__, "threads": 1, "rows": 4096}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(machine | {"dims": beside}, indent=1))
    return verdicts


def said(verdicts: list[tuple[bool, str]]) -> int:
    print("", *(f"{'met   ' if met else 'MISSED'} {text}" for met, text in verdicts), sep="\n")
    return 0 if all(met for met, _ in verdicts) else 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", type=Path, default="build/bench-loss.json", help="where the ratios to a fused cosine go"
    )
    parser.add_argument("--terms", action="store_true", help="the whole terms beside a fused cosine alone")
    arguments = parser.parse_args()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler reports each start and stop
    torch.set_num_threads(1)
    library = f"sentence-transformers (s-t) {version('sentence-transformers')}"
    print(f"1 thread, torch {torch.__version__}, {library}, {processor()}; ratio: time over that of sorted")
    verdicts = whole_terms(arguments.json)
    if arguments.terms:
        return said(verdicts)
    table = measure()
    for loss, bar in FASTER_AT_4096.items():
        ratio, _ = table[loss, 4096]
        text = f"{loss}: ranking sum of 4096 rows {ratio:.0f} times as fast as all pairs, bar {bar}"
        verdicts.append((ratio >= bar, text))
    growth = {loss: table[loss, 32768][1] / table[loss, 4096][1] for loss in FASTER_AT_4096}
    text = ", ".join(f"{loss} {factor:.2f}" for loss, factor in growth.items())
    verdicts.append((max(growth.values()) <= LINEAR, f"memory, 4096 to 32768 rows, linear is 8: {text}"))
    return said(verdicts)


if __name__ == "__main__":
    sys.exit(main())
