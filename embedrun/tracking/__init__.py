"""Where metrics go: the run's own files, independent of the clock, and mirrors in other trackers."""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from embedrun.errors import NO_CHECKPOINT, RunFailed
from embedrun.files import Plain
from embedrun.tracking.trackers import Mirror, mirrors, problems

__all__ = ["Mirror", "Tracker", "cut", "mirrors", "problems"]

_METRICS, _SPEED = "metrics.jsonl", "speed.jsonl"


class Tracker:
    """Writes `metrics.jsonl` and `speed.jsonl` of a run directory, and tells its mirrors.

    `metrics.jsonl` holds nothing that depends on the clock, so that two runs of one configuration
    and seed give the same bytes; times and memory are in `speed.jsonl`.

    As a context manager it is closed at the end of the block, as not finished if that raises. The mirrors get
    every value; they cannot fail a call, nor delay any but `close`.
    """

    def __init__(self, folder: Path, mirrors: Sequence[Mirror] = ()) -> None:
        self._metrics, self._speed = (
            (folder / name).open("a", encoding="utf-8")  # closed by `close`
            for name in (_METRICS, _SPEED)
        )
        self._mirrors = mirrors

    def metric(self, *, step: int, epoch: float, split: str, name: str, value: float) -> None:
        """One measured value, `split` being `train`, `dev` or `test`; an undefined one is written as null."""
        row = {"step": step, "epoch": round(epoch, 6), "split": split, "name": name}
        _write(self._metrics, {**row, "value": value if math.isfinite(value) else None})
        for mirror in self._mirrors:
            mirror.add(step=step, name=f"{split}/{name}", value=value)

    def speed(
        self, *, step: int, time: float, rows_per_second: float, tokens_per_second: float, memory: int | None
    ) -> None:
        """How fast training went since the last call; `time` in seconds since the start, memory in bytes."""
        row = {
            "step": step,
            "time": round(time, 3),
            "rows_per_second": round(rows_per_second, 2),
            "tokens_per_second": round(tokens_per_second, 1),
            "memory": memory,
        }
        _write(self._speed, row)
        for mirror in self._mirrors:
            for name, value in row.items():
                if name != "step" and value is not None:
                    mirror.add(step=step, name=f"speed/{name}", value=value)

    def sync(self) -> int:
        """Bring `metrics.jsonl` to the disk; returns its size in bytes, which `cut` takes."""
        self._metrics.flush()
        os.fsync(self._metrics.fileno())
        return os.fstat(self._metrics.fileno()).st_size

    def close(self, *, finished: bool = True) -> None:
        """Close both files, and wait for the mirrors as long as `tracking.patience` allows.

        `finished` says whether the run reached its end, which W&B shows.
        """
        for mirror in self._mirrors:
            mirror.end(finished=finished)
        try:
            self._metrics.close()
            self._speed.close()
        finally:
            for mirror in self._mirrors:
                mirror.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(finished=kind is None)


def cut(folder: Path, size: int) -> None:
    """Remove what `metrics.jsonl` got after a checkpoint, so that a resumed run duplicates nothing.

    An incomplete last line of `speed.jsonl` is removed too. `size`, in bytes, is that of `metrics.jsonl` when
    the checkpoint was made, from `Tracker.sync`.

    Raises:
        RunFailed: exit 7, if lines from before the checkpoint are missing.
    """
    path, speed = folder / _METRICS, folder / _SPEED
    written = path.read_bytes() if path.exists() else b""
    if len(written) < size or not written[:size].endswith(b"\n" if size else b""):
        raise RunFailed(
            f"{path}: is not the file that the checkpoint was made with: expected a line to end at byte "
            f"{size}, the file has {len(written)}; restore it, or start a new run",
            exit_code=NO_CHECKPOINT,
        )
    if path.exists():
        _truncate(path, size)
    if speed.exists():
        _truncate(speed, speed.read_bytes().rfind(b"\n") + 1)


def _truncate(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def _write(file: IO[str], row: Plain) -> None:
    file.write(json.dumps(row) + "\n")
    file.flush()
