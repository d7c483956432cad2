"""Packed and plain text files: read, unpack, decode, and say which lines are faulty."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from embedrun.config.check import nearest
from embedrun.errors import DataError

_SHOWN = 20  # faulty lines spelled out before they are only counted


class Fault(NamedTuple):
    """What is wrong with one line.

    Args:
        line: from 1; of a Parquet file the row.
        column: as the file calls it, or empty where the whole line is meant.
        reason: in words.
    """

    line: int
    column: str
    reason: str

    def __str__(self) -> str:
        return f"{self.column}: {self.reason}" if self.column else self.reason


class LineFaults:
    """The faulty lines of one file, reported together.

    Args:
        path: of the file, as the message names it.
        unit: what is counted: `line`, or `row` of a Parquet file.
    """

    def __init__(self, path: Path, unit: str = "line") -> None:
        self.path = path
        self._unit = unit
        self._faults: list[Fault] = []
        self.cut_short = False  # whether what follows the last fault could not be read

    def add(self, line: int, reason: str, column: str = "", *, ends: bool = False) -> None:
        """Note one fault.

        Args:
            line: counts from 1.
            reason: in words.
            column: the faulty value's, as the file calls it.
            ends: nothing after it can be read.
        """
        self._faults.append(Fault(line, column, reason))
        self.cut_short = self.cut_short or ends

    def ordered(self) -> list[Fault]:
        """The faults in line order."""
        return sorted(self._faults, key=lambda fault: (fault.line, str(fault)))

    def messages(self) -> list[str]:
        """Every fault in line order, with file and line."""
        return [f"{self.path}, {self._unit} {fault.line}: {fault}" for fault in self.ordered()]

    def problems(self) -> list[str]:
        """The first 20 faults in line order and the number of the others, if any."""
        return shortened(self.path, self.messages())

    def check(self) -> None:
        """Raise a DataError with what `problems` gives, if anything."""
        if self._faults:
            raise DataError(self.problems())


def shortened(where: Path, messages: Sequence[str]) -> list[str]:
    """The first 20 messages, and how many more there are at `where`."""
    rest = len(messages) - _SHOWN
    more = [f"{where}: and {rest} more faults like these"] if rest > 0 else []
    return [*messages[:_SHOWN], *more]


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes as they lie on the disk, read in pieces."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror}") from fault


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, unpacked if its name ends in `.gz`.

    Raises:
        DataError: if it cannot be read or unpacked, or is not UTF-8 (the line is named).
    """
    try:
        content = path.read_bytes()
        raw = gzip.decompress(content) if path.suffix.lower() == ".gz" else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        raise DataError(f"{path}: damaged or not a gzip file ({fault}); fetch or pack it again") from fault
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror}") from fault
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        byte = f"0x{raw[fault.start]:02x}"
        raise DataError(f"{path}, line {line}: byte {byte} is not UTF-8; save the file as UTF-8") from fault


def parse_object(line: str) -> Mapping[str, Any]:
    """One line of JSON Lines.

    Raises:
        ValueError: with the reason, if the line is not a JSON object.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"not JSON ({fault})") from fault
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object, got {type(row).__name__}")
    return row


def require_columns(where: str, wanted: Sequence[str], found: Sequence[str], way_on: str = "") -> None:
    """Raise a DataError that names every wanted column that is not found, the nearest one and all there are.

    Args:
        where: file and line, for the message.
        wanted: columns.
        found: columns.
        way_on: what to do about it, after the list of columns.
    """
    problems = [
        f"{where}: no column {name!r}{nearest(name, found)} (columns: {', '.join(found)}){way_on}"
        for name in wanted
        if name not in found
    ]
    if problems:
        raise DataError(problems)


def require_once(where: str, wanted: Sequence[str], found: Sequence[str]) -> None:
    """Raise a DataError if a wanted column is there more than once.

    Args:
        where: file and line, for the message.
        wanted: columns.
        found: columns.
    """
    twice = [name for name in wanted if found.count(name) > 1]
    if twice:
        raise DataError(f"{where}: more than one column is named {', '.join(map(repr, twice))}")
