"""Metrics out: two local files, one free of the clock."""

import json
from pathlib import Path
from typing import Any


class Tracker:
    """Writes `metrics.jsonl` and `speed.jsonl` of a run directory.

    `metrics.jsonl` holds nothing that depends on the clock, so that two runs of one configuration
    and seed give the same bytes; times and memory stand in `speed.jsonl`.

    Args:
        folder: the run directory.
    """

    def __init__(self, folder: Path) -> None:
        self._metrics = (folder / "metrics.jsonl").open("a", encoding="utf-8")
        self._speed = (folder / "speed.jsonl").open("a", encoding="utf-8")

    def metric(self, *, step: int, epoch: float, split: str, name: str, value: float) -> None:
        """One measured value, `split` being `train`, `dev` or `test`; an undefined one is written as null."""
        row = {"step": step, "epoch": round(epoch, 6), "split": split, "name": name}
        self._write(
            self._metrics, {**row, "value": value if value == value and abs(value) != float("inf") else None}
        )

    def speed(
        self, *, step: int, time: float, rows_per_second: float, tokens_per_second: float, memory: int | None
    ) -> None:
        """How fast training went since the last call; `time` in seconds since the start, memory in bytes."""
        row = {"step": step, "time": round(time, 3), "rows_per_second": round(rows_per_second, 2)}
        self._write(self._speed, {**row, "tokens_per_second": round(tokens_per_second, 1), "memory": memory})

    def close(self) -> None:
        """Close both files."""
        self._metrics.close()
        self._speed.close()

    @staticmethod
    def _write(file: Any, row: dict[str, Any]) -> None:
        file.write(json.dumps(row) + "\n")
        file.flush()
