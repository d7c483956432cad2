"""What several gloo processes tell each other, one file a process."""

import json
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from whole_step import join

from embedrun import signals
from embedrun.training.processes import LostContact, Processes
from embedrun.training.together import Together


def join_and_talk(rank: int, size: int, meeting: str, folder: str) -> None:
    """The gradient of every mix, as `join`; then what the processes answer each other; then one leaves."""
    join(rank, size, meeting, folder)
    _meet(rank, size, f"{meeting}-2")
    one = Processes()
    said = {
        "any": [one.any(rank == 1), one.any(False), one.any(True)],
        "share": [one.share([1.5, -0.1, float("inf")] if rank == 0 else [0.0, 1.0, 2.0]), one.share([])],
        "differ": [one.differ("same"), one.differ(f"rank {rank}"), one.differ(str(rank == 0))],
    }
    said["together"] = _encode_together(rank)
    one.part()
    said["alone"] = [one.size, one.any(rank == 1), Processes().size]
    _meet(rank, size, f"{meeting}-3")
    if rank == 0:
        said["lost"] = _left_alone()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(said))


def _meet(rank: int, size: int, meeting: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)


class Lengths:
    """An encoder whose vector is the length of a text, and that counts the texts it has seen."""

    dim, seen, divide = 1, 0, None
    backbone = SimpleNamespace(one_pass=False)  # no weights in shards
    signal: int | None = None  # sent amid the work

    def encode(self, texts: list[str], *, progress=None, **options) -> np.ndarray:
        if self.divide is not None:
            return self.divide(texts, progress, **options)
        self.seen += len(texts)
        if self.signal is not None:
            signal.raise_signal(self.signal)
        progress(len(texts), len(texts))
        return np.array([[len(text)] for text in texts], dtype=np.float32).reshape(-1, 1)  # (texts, 1)


def _encode_together(rank: int) -> list[object]:
    """Vectors of 201 texts, whether a signal amid the next ones was raised, vectors again; texts seen."""
    encoder = Lengths()
    together = Together(encoder, Processes())  # type: ignore[arg-type]
    texts = ["x" * (number * 7 % 201) for number in range(201)]
    if rank > 0:
        together.serve()
        together.serve()
        return [encoder.seen]
    interrupted = False
    try:
        with signals.raised(), together.asking():
            first = encoder.encode(texts, role="query")
            encoder.signal = signal.SIGTERM
            encoder.encode(texts)
    except KeyboardInterrupt:
        interrupted = True
    encoder.signal = None
    with together.asking():
        last = encoder.encode(texts)
    lengths = [len(text) for text in texts]
    return [first.ravel().tolist() == last.ravel().tolist() == lengths, interrupted, encoder.seen]


def _left_alone() -> str:
    try:
        Processes().any(False)
    except LostContact as fault:
        return str(fault)
    return ""
