"""Minutes per 1,000 steps and peak memory of training, beside what RAOE prints for one A100.

Run by `make bench-train`. On a CUDA device it trains a model of BERT-base's shape on batches of 512 pairs; on
a CPU a tiny one on batches of 64, which says nothing but that it runs. Texts are random token ids, as long as
those of NLI. RAOE (Table 4) trains BERT-base with batches of 512 on NLI, on an A100 of 80 GB; precision and
lengths of its texts are not given there.
"""

import argparse
import dataclasses
import platform
import sys
import time
from pathlib import Path
from statistics import median

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "trials"))

from bert_shaped import BASE, TINY, batch, stepper

from embedrun.errors import RunFailed

PRINTED = (("InfoNCE", 17.93, 21.17), ("RAOE", 18.04, 21.17))  # RAOE Table 4: minutes, GB
WARM_UP = 3  # steps that are not timed


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to train."""

    precision: str
    micro_batch_size: int | None = None
    optimizer: str = "adamw"
    compiled: bool = False
    gradient_checkpointing: bool = False

    @property
    def label(self) -> str:
        parts = "whole" if self.micro_batch_size is None else f"parts of {self.micro_batch_size}"
        more = [name for name in ("compiled", "gradient_checkpointing") if getattr(self, name)]
        return ", ".join([self.precision, parts, self.optimizer, *more])


ON_CUDA = (
    Case("bf16"),
    Case("bf16", 128),
    Case("bf16", 32),
    Case("bf16", gradient_checkpointing=True),
    Case("bf16", optimizer="sam"),
    Case("fp16"),
    Case("fp16", 128),
    Case("tf32"),
    Case("fp32"),
    Case("fp32", 128),
    Case("bf16", compiled=True),  # takes longest, and ends the others with it where nothing here compiles
)
ON_CPU = (Case("fp32"), Case("fp32", 16), Case("fp32", optimizer="sam"), Case("bf16"))


def measure(case: Case, device: str, rows: int, steps: int) -> tuple[float, float | None]:
    """Seconds a step, the median, and GB at the highest point; None on a CPU."""
    options = {key: value for key, value in dataclasses.asdict(case).items() if key != "precision"}
    one = stepper(device, case.precision, shape=BASE if device == "cuda" else TINY, **options)
    batches = [batch(rows, number) for number in range(WARM_UP + steps)]
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    taken = []
    for step, drawn in enumerate(batches, 1):
        start = time.perf_counter()
        one.take(step, len(batches), [drawn])
        if device == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else None
    return median(taken[WARM_UP:]), peak


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=512 if device == "cuda" else 64, help="of a batch")
    parser.add_argument("--steps", type=int, default=30, help="that are timed")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    name = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, tiny model"
    print(f"torch {torch.__version__}, {name}, {arguments.rows} pairs a batch, RAOE\n")
    print(f"{'':<40} {'min / 1000 steps':>17} {'GB':>7}")
    for case in ON_CUDA if device == "cuda" else ON_CPU:
        try:
            seconds, peak = measure(case, device, arguments.rows, arguments.steps)
        except RunFailed as fault:  # out of memory
            print(f"{case.label:<40} {str(fault).partition('.')[0]}")
            continue
        memory = "-" if peak is None else f"{peak:.2f}"
        print(f"{case.label:<40} {seconds * 1000 / 60:>17.2f} {memory:>7}", flush=True)
    for label, minutes, gigabytes in PRINTED:
        print(f"{f'{label} as printed, A100':<40} {minutes:>17.2f} {gigabytes:>7.2f}")


if __name__ == "__main__":
    main()
