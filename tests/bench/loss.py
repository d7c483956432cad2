"""Time of the ranking terms, from vectors to gradients, beside a fused cosine of the same vectors.

Run by `make bench-loss`, on one thread. A fused cosine is the least that any such loss costs. All take turns,
on processor time; a ratio is the median over turns, with its quartiles. The C library is told to keep freed
memory: else it gives some tensors back after one pass and not after another, and new pages cost several times
the pass.
"""

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import arguments, finish, spread
from torch import Tensor
from torch.autograd.function import once_differentiable

from embedrun.loss.mix import Mix

ROWS, DIMS = 4096, (384, 768)
BAR = 6.0  # times a cosine, of a single term: it is plain torch, and a step takes a thousand times as long
COSINE = "fused cosine"
MIXES: dict[str, dict[str, dict[str, float]]] = {  # options of the terms, by the name that is printed
    "cosent": {"cosent": {"temperature": 0.05}},
    "angle": {"angle": {"temperature": 0.05}},
    "rank_margin": {"rank_margin": {"scale": 20.0}},
    "gated_angular": {"gated_angular": {"scale": 20.0}},
    "rank_margin + gated_angular": {"rank_margin": {"scale": 20.0}, "gated_angular": {"scale": 20.0}},
    "cosent + angle": {"cosent": {"temperature": 0.05}, "angle": {"temperature": 0.05}},
}


class FusedCosine(torch.autograd.Function):
    """The cosine of each pair, written as short as it gets: no zero vector, no overflow is thought of."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        a, b = (torch.linalg.vector_norm(side, dim=1, keepdim=True).reciprocal_() for side in (left, right))
        value = (left * right).sum(dim=1, keepdim=True) * a * b  # (rows, 1)
        ctx.save_for_backward(left, right, a, b, value)
        return value.squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        left, right, a, b, value = ctx.saved_tensors
        across, along = grad[:, None] * a * b, -grad[:, None] * value  # (rows, 1) each
        return (right * across).addcmul_(left, along * a * a), (left * across).addcmul_(right, along * b * b)


def milliseconds(dim: int, rounds: int) -> dict[str, np.ndarray]:
    """Of a forward and backward pass, ``(rounds,)``, by term or mix; the cosines are near 0.45."""
    seeded = torch.Generator().manual_seed(ROWS)
    left = torch.randn(ROWS, dim, generator=seeded).requires_grad_()
    right = (left.detach() + 2 * torch.randn(ROWS, dim, generator=seeded)).requires_grad_()
    score = torch.randint(26, (ROWS,), generator=seeded) / 5  # 0 to 5 by 0.2, with ties, as in STS-B
    targets = {"score": score, "label": torch.randint(3, (ROWS,), generator=seeded)}

    def term(options: dict[str, dict[str, float]]) -> Callable[[], object]:
        mix = Mix(options)
        return lambda: torch.autograd.grad(mix({"left": left, "right": right}, targets)[0], (left, right))

    ones = torch.full((ROWS,), 1 / ROWS)
    steps: dict[str, Callable[[], object]] = {name: term(options) for name, options in MIXES.items()}
    steps[COSINE] = lambda: torch.autograd.grad(FusedCosine.apply(left, right), (left, right), ones)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            step()  # the turn of the one before has emptied the caches
            start = time.process_time()
            for _ in range(3):
                step()
            times[name].append(1000 * (time.process_time() - start) / 3)
    return {name: np.array(each) for name, each in times.items()}


def keep_freed_memory() -> None:
    trim, mapped = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    if hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(trim, 2**31 - 1)
        library.mallopt(mapped, 2**25)


def main() -> int:
    asked = arguments(__doc__, rounds=15, threads=1, json=Path("build/bench-loss.json"))
    keep_freed_memory()
    results: dict[str, Any] = {}
    verdicts = []
    for dim in DIMS:
        times = milliseconds(dim, asked.rounds)
        for name in MIXES:
            ratio = spread(times[name] / times[COSINE])
            results[f"{dim} dimensions, {name}"] = {"ms": float(np.median(times[name])), "ratio": ratio}
            if len(MIXES[name]) == 1:
                text = f"{name}: {ratio['median']} times a fused cosine at {dim} dimensions, bar {BAR}"
                verdicts.append((ratio["median"] <= BAR, text))
    return finish(asked, {"rows": ROWS}, results, verdicts)


if __name__ == "__main__":
    sys.exit(main())
