"""What the benchmarks have in common: options, the machine, times and their spread, what is printed."""

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from embedrun.runs.directory import processor

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def machine() -> dict[str, Any]:
    """What every figure is named with: processor and its flags, threads, load, versions."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    words = set(text.split())
    return {
        "processor": processor(),
        "flags": [flag for flag in FLAGS if flag in words],
        "threads": torch.get_num_threads(),
        "load": [round(one, 1) for one in os.getloadavg()],
        "torch": torch.__version__,
        "sentence-transformers": version("sentence-transformers"),
    }


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the processor, and by the clock."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def peak(dtype: torch.dtype) -> float:
    """Operations a second of a processor's second, of a square product."""
    one = torch.ones(1024, 1024, dtype=dtype)  # (1024, 1024)
    torch.mm(one, one)
    return 2 * 1024**3 / min(timed(lambda: one @ one)[0] for _ in range(3))


def weights(model: nn.Module) -> int:
    """Numbers that every token meets: all but those of embeddings and a pooler."""
    named = model.named_parameters()
    return sum(one.numel() for name, one in named if "embeddings" not in name and "pooler" not in name)


def spread(values: np.ndarray) -> dict[str, float]:
    """Median and quartiles."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return {"median": round(middle, 3), "low": round(low, 3), "high": round(high, 3)}


def arguments(
    doc: str | None, *, rounds: int, threads: int | None = None, json: Path | None = None, **more: int
) -> argparse.Namespace:
    """What is typed: rounds, `--threads`, `--json`, and one whole number for each of `more`."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=rounds, help="turns of everything")
    parser.add_argument("--threads", type=int, default=threads or torch.get_num_threads())
    parser.add_argument("--json", type=Path, default=json, help="write everything here")
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    return asked


def finish(
    asked: argparse.Namespace,
    about: Mapping[str, Any],
    results: Mapping[str, Any],
    verdicts: Sequence[tuple[bool, str]] = (),
) -> int:
    """Print and write everything; the exit code says whether every bar is met."""
    head = {**machine(), **about}
    print(json.dumps(head))
    for name, result in results.items():
        print(f"{name:40} {json.dumps(result)}")
    for met, text in verdicts:
        print(f"{'met   ' if met else 'MISSED'} {text}")
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"machine": head, "found": dict(results)}, indent=1) + "\n")
    return 0 if all(met for met, _ in verdicts) else 1
