"""From the text of a file to typed columns: what a sentence, a score and a label may be."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedrun.errors import DataError

_SHOWN = 20  # faulty rows spelled out before they are only counted


class Fault(NamedTuple):
    """What is wrong with one row.

    Args:
        row: from 1; where the file has a header, that is row 1.
        column: as the file calls it, or empty where the whole row is meant.
        reason: in words.
    """

    row: int
    column: str
    reason: str

    def __str__(self) -> str:
        return f"{self.column}: {self.reason}" if self.column else self.reason


class LineFaults:
    """The faulty rows of one file, reported together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._faults: list[Fault] = []

    def __len__(self) -> int:
        return len(self._faults)

    def add(self, row: int, reason: str, column: str = "") -> None:
        """Note one fault; `column` is the name in the file."""
        self._faults.append(Fault(row, column, reason))

    def rows(self, first: int) -> set[int]:
        """The rows of the faults that were noted after the first so many."""
        return {fault.row for fault in self._faults[first:]}

    def ordered(self) -> list[Fault]:
        """The faults in row order."""
        return sorted(self._faults, key=lambda fault: (fault.row, str(fault)))

    def messages(self) -> list[str]:
        """Every fault in row order, with file and row."""
        return [f"{self.path}, row {fault.row}: {fault}" for fault in self.ordered()]

    def problems(self) -> list[str]:
        """The first 20 faults in row order and the number of the others, if any."""
        return shortened(self.path, self.messages())

    def check(self) -> None:
        """Raise a DataError with what `problems` gives, if anything."""
        if self._faults:
            raise DataError(self.problems())


def shortened(where: object, messages: Sequence[str]) -> list[str]:
    """The first 20 messages, and how many more there are at `where`."""
    rest = len(messages) - _SHOWN
    more = [f"{where}: and {rest} more faults like these"] if rest > 0 else []
    return [*messages[:_SHOWN], *more]


LABELS = ("entailment", "neutral", "contradiction")  # by label: 0, 1, 2
# float() alone would also take '1_000' and digits of other scripts. No two parts of the pattern can share
# a run of digits, so a refused text costs time in proportion to its length.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_LONGEST = 40  # characters of a refused value that a message shows

# Makes a value of a raw one, or raises ValueError with what is wrong with it.
Rule = Callable[[object], Any]


def sentence(value: object) -> str:
    """A text that is not blank and that UTF-8 can hold; else ValueError with the reason."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {_shown(value)}")
    if not value.strip():
        raise ValueError("the text is empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as fault:
        raise ValueError(f"half a surrogate pair at character {fault.start}, which is not text") from fault
    return value


def score(
    value: object, *, low: float = -math.inf, high: float = math.inf, option: str | None = None
) -> float:
    """A finite number, or its decimal text, from `low` to `high`; else ValueError with the reason.

    `option` is the one that gives the two, for the reason.
    """
    number = _number(value)
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {_shown(value)}")
    if not low <= number <= high:
        said = f" ({option})" if option else ""
        raise ValueError(f"expected a number from {low:g} to {high:g}{said}, got {_shown(value)}")
    return number


def _number(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text) or text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
            return float(text)
    raise ValueError(f"expected a number, got {_shown(value)}")


def label(value: object) -> int:
    """0 entailment, 1 neutral, 2 contradiction, or its text; else ValueError with the reason."""
    if isinstance(value, str) and value.strip() in ("0", "1", "2"):
        return int(value)
    if type(value) is int and value in (0, 1, 2):
        return value
    raise ValueError(f"expected 0 (entailment), 1 (neutral) or 2 (contradiction), got {_shown(value)}")


def convert(
    columns: Mapping[str, Sequence[object]],
    rules: Mapping[str, Rule],
    rows: Sequence[int],
    faults: LineFaults,
) -> dict[str, list[Any]]:
    """Every value by the rule of its column; the caller raises the faults.

    Args:
        columns: raw values by column, each ``(rows,)``.
        rules: by column; raises ValueError for what it refuses.
        rows: their numbers in the file, ``(rows,)``, for the messages.
        faults: where a refused value is noted; it is left out of the result.
    """
    typed: dict[str, list[Any]] = {name: [] for name in rules}
    for name, rule in rules.items():
        for row, value in zip(rows, columns[name], strict=True):
            try:
                typed[name].append(rule(value))
            except ValueError as fault:
                faults.add(row, str(fault), name)
    return typed


def as_scores(values: Sequence[float]) -> np.ndarray:
    """The `score` column of `Rows`, float64, ``(rows,)``."""
    return np.array(values, dtype=np.float64)


def as_labels(values: Sequence[int]) -> np.ndarray:
    """The `label` column of `Rows`, int64, ``(rows,)``."""
    return np.array(values, dtype=np.int64)


def _shown(value: object) -> str:
    try:
        text = "null" if value is None else repr(value)
    except ValueError:  # a whole number of more digits than Python prints
        return "a huge number"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
