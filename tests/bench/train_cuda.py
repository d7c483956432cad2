"""Time and memory of a training step on a CUDA device: ours in each way, and sentence-transformers.

Run by `make bench-train-cuda`. A step is 512 pairs of a BERT-base shape with random weights and ids, about
19,500 real tokens with lengths as in NLI; AdamW, clipping, dropout 0.1, losses of RAOE. Against
sentence-transformers it is CoSENT in bf16; it pads each column of a batch to its longest text, as its
collator does, and both take turns on the same batches. Times are wall times with the device waited for.
"""

import argparse
import gc
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trials"))

import numpy as np
import torch
from bert_shaped import BASE, RAOE, TINY, batch, stepper
from sentence_transformers.sentence_transformer.losses import CoSENTLoss
from torch import Tensor, nn

from embedrun import gpu
from embedrun.batch import Batch, View
from embedrun.config import GpuConfig

WARM = 5  # steps before the clock
WAYS = {
    "without padding, bf16": ("bf16", {}),
    "without padding, fp16": ("fp16", {}),
    "padded, bf16": ("bf16", {}),
    "padded, tf32": ("tf32", {}),
    "padded, fp32": ("fp32", {}),
    "seeded dropout, bf16": ("bf16", {"seeded_dropout": True}),
    "in parts of 128, bf16": ("bf16", {"micro_batch_size": 128}),
}


def lengths(random: np.random.Generator, rows: int) -> np.ndarray:
    """Log-normal, as of NLI with both special tokens, ``(rows,)``."""
    return np.clip(np.round(np.exp(random.normal(2.75, 0.45, rows))) + 2, 5, 128).astype(np.int64)


def timed(step: Callable[[], object], device: str) -> float:
    """Milliseconds."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    begun = perf_counter()
    step()
    wait()
    return 1e3 * (perf_counter() - begun)


class Peer:
    """Steps of sentence-transformers' CoSENT loss on a BERT of the same shape."""

    def __init__(self, like: nn.Module, device: str) -> None:
        self._model, self._device = like, device
        self._loss = CoSENTLoss(self._forward)  # type: ignore[arg-type]
        self._optimizer = torch.optim.AdamW(like.parameters(), lr=5e-5, fused=device == "cuda")

    def _forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        hidden = self._model(**features).last_hidden_state  # (texts, width, dim)
        real = features["attention_mask"].unsqueeze(-1).to(hidden.dtype)  # (texts, width, 1)
        return {"sentence_embedding": (hidden * real).sum(1) / real.sum(1)}

    def _padded(self, view: View) -> dict[str, Tensor]:
        real = torch.arange(int(view.tokens.lengths.max()))[None] < view.tokens.lengths[:, None]
        ids = torch.zeros(real.shape, dtype=torch.long).masked_scatter(
            real, view.tokens.ids
        )  # (texts, width)
        return {"input_ids": ids.to(self._device), "attention_mask": real.long().to(self._device)}

    def take(self, of: Batch) -> None:
        sides = [self._padded(of.views[side]) for side in ("left", "right")]
        with torch.autocast(self._device, dtype=torch.bfloat16):
            loss = self._loss(sides, of.targets["score"].float().to(self._device))
        loss.backward()
        nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def main() -> None:
    """Print a line for each way, then the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a small shape: does it run")
    given = parser.parse_args()
    shape = TINY if given.tiny else BASE
    gpu.start(GpuConfig(device=given.device))
    cuda = given.device == "cuda"
    print(f"{torch.cuda.get_device_name() if cuda else 'CPU'}, torch {torch.__version__}, {given.rows} pairs")
    for name, (precision, options) in WAYS.items():
        if not cuda and precision in ("fp16", "tf32"):
            continue
        one = stepper(given.device, precision, shape=shape, terms=RAOE, **options)
        if name.startswith("padded"):
            one.trained["encoder"].backbone.attention = ""  # any but sdpa pads
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        times = []
        for step in range(1, given.steps + 1):
            rows = [batch(given.rows, step, lengths)]
            times.append(timed(partial(one.take, step, 1000, rows), given.device))
        most = f", {torch.cuda.max_memory_allocated() / 1e9:.1f} GB" if cuda else ""
        print(f"{name}: {statistics.median(times[WARM:]):.0f} ms a step{most}", flush=True)
        del one
        gc.collect()
    one = stepper(given.device, "bf16", shape=shape, terms={"cosent": {}})
    other = stepper(given.device, "bf16", shape=shape)
    peer = Peer(other.trained["encoder"].backbone.model, given.device)
    turns = []
    for step in range(1, 2 * given.steps + 1):
        rows = batch(given.rows, step, lengths)
        theirs = timed(partial(peer.take, rows), given.device)
        turns.append((theirs, timed(partial(one.take, step, 1000, [rows]), given.device)))
    low, middle, high = np.quantile([theirs / ours for theirs, ours in turns[WARM:]], [0.25, 0.5, 0.75])
    theirs, ours = (statistics.median(side) for side in zip(*turns[WARM:], strict=True))
    print(
        f"sentence-transformers {theirs:.0f} ms, ours {ours:.0f} ms: {middle:.2f} ({low:.2f} to {high:.2f})"
    )


if __name__ == "__main__":
    main()
