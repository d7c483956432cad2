"""What the benchmarks measure with: the machine, the time of a piece of work, its spread, the limit."""

import os
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def machine() -> dict[str, Any]:
    """What every figure is named with: processor and its flags, threads, load, versions."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    name = next((line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line), "?")
    words = set(text.split())
    return {
        "processor": name,
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
