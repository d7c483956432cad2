"""Packed and plain text files: read, unpack, decode, and say which lines are faulty."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun.config.spelling import nearest
from embedrun.errors import DataError

_SHOWN = 20  # faulty lines spelled out before they are only counted


class LineFaults:
    """The faulty lines of one file, reported together.

    Args:
        path: of the file, as the message names it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._faults: list[tuple[int, str]] = []

    def add(self, line: int, reason: str) -> None:
        """Note one fault; `line` counts from 1."""
        self._faults.append((line, reason))

    def check(self) -> None:
        """Raise a DataError with the first 20 faults in line order and the number of the others, if any."""
        if not self._faults:
            return
        ordered = sorted(self._faults)
        problems = [f"{self._path}, line {line}: {reason}" for line, reason in ordered[:_SHOWN]]
        if len(ordered) > _SHOWN:
            problems.append(f"{self._path}: and {len(ordered) - _SHOWN} more faults like these")
        raise DataError(problems)


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
