"""Memory and time of a RAN against the length of a text, beside one window around the whole text.

Run by `make bench-ran`, on one thread of a CPU. A pass is forward and backward over one text, with dropout,
at a width of 128 and two layers. Memory is the peak of what torch allocates in it beyond what was there, as
its profiler counts it, gradients included: the same in every run. Times are medians over turns A B A B of
both models, so that a slow moment of the machine meets both.
"""

import json
import platform
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median

import torch
from torch.profiler import ProfilerActivity, profile

from embedrun.backbone.ran import RanConfig, RanModel

LENGTHS = (512, 1024, 2048, 4096, 8192)  # tokens
PLAIN_UP_TO = 2048  # tokens; one window of more takes too long here
TURNS = 5
LINEAR = (1.7, 2.3)  # times the memory for twice the tokens

Pass = Callable[[], None]


def model(window: int) -> RanModel:
    torch.manual_seed(0)
    config = RanConfig(
        vocab_size=1000,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        head_size=64,
        window=window,
    )
    return RanModel(config).train()


def forward_and_backward(ran: RanModel, tokens: int) -> None:
    ids = torch.arange(tokens)[None] % 1000  # (1, tokens)
    ran(ids, return_dict=False)[0].square().sum().backward()
    ran.zero_grad(set_to_none=True)


def peak_memory(step: Pass) -> float:
    """MiB at the highest point of one pass, beyond what was allocated before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    with tempfile.NamedTemporaryFile(suffix=".json") as trace:
        profiler.export_chrome_trace(trace.name)
        events = json.loads(Path(trace.name).read_text())["traceEvents"]
    memory = sorted((event for event in events if event["name"] == "[memory]"), key=lambda event: event["ts"])
    return max(accumulate(event["args"]["Bytes"] for event in memory)) / 2**20


def seconds(step: Pass) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    torch.set_num_threads(1)
    windowed, whole = model(256), model(LENGTHS[-1])
    print(f"torch {torch.__version__}, {platform.machine()}, one thread; window 256 against one window\n")
    print(f"{'tokens':>7} {'MiB':>8} {'tokens/s':>9} {'MiB, one window':>16} {'tokens/s':>9}")
    peaks = []
    for tokens in LENGTHS:
        steps = [partial(forward_and_backward, windowed, tokens)]
        if tokens <= PLAIN_UP_TO:
            steps.append(partial(forward_and_backward, whole, tokens))
        memory = [peak_memory(step) for step in steps]
        times = zip(*[[seconds(step) for step in steps] for _ in range(TURNS)], strict=True)
        rates = [tokens / median(taken) for taken in times]
        cells = [
            f"{mib:{width}.1f} {rate:9.0f}" for mib, rate, width in zip(memory, rates, (8, 16), strict=False)
        ]
        print(f"{tokens:7}", *cells, flush=True)
        peaks.append(memory[0])
    ratios = [after / before for before, after in pairwise(peaks)]
    print("\nmemory for twice the tokens:", ", ".join(f"{ratio:.2f} times" for ratio in ratios))
    if not all(LINEAR[0] <= ratio <= LINEAR[1] for ratio in ratios):
        raise SystemExit(f"not linear: expected {LINEAR[0]} to {LINEAR[1]}")


if __name__ == "__main__":
    main()
