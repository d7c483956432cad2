"""The values of a run by step, and how fast it went, from its two files of lines."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from embedrun.console import number

_LONGEST = 10_000  # characters of a line; no run writes one as long


@dataclass(frozen=True)
class Metrics:
    """What `metrics.jsonl` holds.

    Args:
        series: points in order of step, by split and name; of two lines about one step the later counts.
        faults: lines that cannot be read.
    """

    series: dict[tuple[str, str], list[tuple[int, float | None]]] = field(default_factory=dict)
    faults: int = 0

    @classmethod
    def read(cls, path: Path) -> "Metrics":
        """The values of a run so far; none where there is no file."""
        found: dict[tuple[str, str], dict[int, float | None]] = {}
        faults = 0
        for row in _rows(path):
            try:
                step, key = row["step"], (str(row["split"]), str(row["name"]))
            except (KeyError, TypeError):
                faults += 1
                continue
            if isinstance(step, int) and 0 <= step < 10**12:
                found.setdefault(key, {})[step] = number(row.get("value"))
            else:
                faults += 1
        return cls({key: sorted(points.items()) for key, points in found.items()}, faults)

    def of(self, split: str) -> dict[str, list[tuple[int, float | None]]]:
        """The series of one split by name, in the order of the file."""
        return {name: points for (where, name), points in self.series.items() if where == split}


@dataclass(frozen=True)
class Speed:
    """What `speed.jsonl` says in short.

    Args:
        rows_per_second: of training, the median; None where it was not measured.
        memory: bytes on the device, the most; None where it was not measured.
    """

    rows_per_second: float | None
    memory: float | None

    @classmethod
    def read(cls, path: Path) -> "Speed":
        """Of the lines that can be read."""
        rows = [row for row in _rows(path) if isinstance(row, dict)]
        rates = [rate for row in rows if (rate := number(row.get("rows_per_second"))) is not None]
        memory = [most for row in rows if (most := number(row.get("memory"))) is not None]
        return cls(median(rates) if rates else None, max(memory, default=None))


def _rows(path: Path) -> Iterator[Any]:
    """What each line holds; None for one that is no JSON, as the last of a killed run may be."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                yield json.loads(line) if len(line) < _LONGEST else None
            except (ValueError, RecursionError):
                yield None
