"""From raw values to typed columns: what a sentence, a score and a label may be, and the faults of a file."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from embedrun.errors import DataError

_SHOWN = 20  # faulty rows spelled out before they are only counted
_LONGEST = 40  # characters of a refused value that a message shows
LABELS = ("entailment", "neutral", "contradiction")  # by label: 0, 1, 2

# Makes a value of a raw one, or raises ValueError with what is wrong with it.
Rule = Callable[[object], Any]


class Fault(NamedTuple):
    """What is wrong with one row."""

    row: int  # from 1; where the file has a header, that is row 1
    column: str  # as the file calls it, or empty where the whole row is meant
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
        if problems := self.problems():
            raise DataError(problems)


def shortened(where: object, messages: Sequence[str]) -> list[str]:
    """The first 20 messages, and how many more there are at `where`."""
    rest = len(messages) - _SHOWN
    return [*messages[:_SHOWN], *([f"{where}: and {rest} more faults like these"] if rest > 0 else [])]


def sentence(value: object) -> str:
    """A text that is not blank and that UTF-8 can hold; else ValueError with the reason."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {shown(value)}")
    if not value.strip():
        raise ValueError("the text is empty")
    value.encode()  # half a surrogate pair is a ValueError
    return value


def any_text(value: object) -> str:
    """A text, which may be blank; else as `sentence`."""
    return value if isinstance(value, str) and not value.strip() else sentence(value)


def score(value: object, *, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number, or its decimal text, from `low` to `high`; else ValueError with the reason."""
    text = str(value)
    try:
        number = float(text.replace("_", "?"))  # float("1_000") is 1000.0
    except ValueError:
        raise ValueError(f"expected a number, got {shown(value)}") from None
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {shown(value)}")
    if not low <= number <= high:
        raise ValueError(f"expected a number from {low:g} to {high:g}, got {shown(value)}")
    return number


def label(value: object) -> int:
    """0 entailment, 1 neutral, 2 contradiction, or its text; else ValueError with the reason."""
    if type(value) in (int, str) and (text := str(value).strip()) in ("0", "1", "2"):
        return int(text)
    raise ValueError(f"expected 0 (entailment), 1 (neutral) or 2 (contradiction), got {shown(value)}")


def relation(value: object) -> int:
    """The label of its name; else ValueError with the reason."""
    if value not in LABELS:
        raise ValueError(f"expected {', '.join(LABELS)}; got {shown(value)}")
    return LABELS.index(value)


def category(value: object, *, classes: int) -> int:
    """A class from 0, a whole number below `classes`; else ValueError with the reason."""
    if type(value) is not int or not 0 <= value < classes:
        raise ValueError(f"expected a whole number from 0 to {classes - 1}, got {shown(value)}")
    return value


def convert(
    columns: Mapping[str, Sequence[object]],
    rules: Mapping[str, Rule],
    rows: Sequence[int],
    faults: LineFaults,
) -> dict[str, list[Any]]:
    """The rows of which every value fits the rule of its column; the caller raises the faults.

    `columns` are raw values, each ``(rows,)``, `rows` their numbers in the file.
    """
    typed: dict[str, list[Any]] = {name: [] for name in rules}
    fits = [True] * len(rows)  # (rows,)
    for name, rule in rules.items():
        for place, value in enumerate(columns[name]):
            try:
                typed[name].append(rule(value))
            except ValueError as fault:
                typed[name].append(None)
                fits[place] = False
                faults.add(rows[place], str(fault), name)
    return {name: list(compress(values, fits)) for name, values in typed.items()}


def shown(value: object) -> str:
    """A refused value as messages show it."""
    text = "null" if value is None else repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
