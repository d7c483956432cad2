"""How fast a run trained, and in how much memory, from the lines of its `speed.jsonl`."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeGuard

_GB = 1e9  # bytes
_MOST = 1e18  # neither steps nor bytes come near it


def speeds(lines: Sequence[Mapping[str, Any]], rows_per_step: int) -> dict[str, float]:
    """Numbers by the names of `embedrun.table.preset.SPEEDS`; without those that the lines do not say.

    `minutes_per_1000_steps` has no pauses for dev scores in it, since the rates of the lines have none, and
    is without the first line, which has the start of everything in it, where there are others.
    `peak_memory_gb` is the most that the device had allocated, in units of 10^9 bytes.

    Args:
        lines: in the order of the file; of a run that went on after a stop, steps come back. One without a
            step says nothing.
        rows_per_step: of one optimizer step.
    """
    found: dict[str, float] = {}
    lines = [line for line in lines if _is_number(line.get("step"))]
    memory = [line["memory"] for line in lines if _is_number(line.get("memory"))]
    if memory:
        found["peak_memory_gb"] = max(memory) / _GB
    seconds, steps = 0.0, 0
    for before, line in pairwise([{"step": 0}, *lines] if len(lines) == 1 else lines):
        gone, rate = line["step"] - before["step"], line.get("rows_per_second")
        if gone > 0 and _is_number(rate) and rate > 0:
            seconds += gone * rows_per_step / rate
            steps += gone
    if steps:
        found["minutes_per_1000_steps"] = 1000 * seconds / steps / 60
    return found


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
