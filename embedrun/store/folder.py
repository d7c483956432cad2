"""The data folder: where it is, what is in it, and its columns."""

import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from embedrun.errors import DataError
from embedrun.store.text import LineFaults, parse_object, read_text, require_columns, sha256

_MANIFEST = {"path": str, "bytes": int, "sha256": str, "rows": int}
_NEXT = (
    "set EMBEDRUN_DATA=DIR or data_dir=DIR to a folder in the store layout, "
    "or use +experiment=quickstart, which needs no data"
)


class Store:
    """One folder of data, read only.

    Args:
        root: the folder; it need not exist, then every file is missing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @staticmethod
    def find(data_dir: str | None = None) -> "Store":
        """The store that `data_dir` names, else EMBEDRUN_DATA, else `embedrun/data` in the user's cache."""
        named = data_dir or os.environ.get("EMBEDRUN_DATA")
        if named:
            return Store(Path(named).expanduser())
        # The XDG base directory specification has a relative path ignored.
        cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
        return Store((cache if cache.is_absolute() else Path.home() / ".cache") / "embedrun" / "data")

    def path(self, relative: str) -> Path:
        """Where a file of the store is or would be.

        Raises:
            DataError: if the name leads out of the store.
        """
        pure = PurePosixPath(relative)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            raise DataError(f"{relative!r}: leads out of the data folder {self.root}; give a path inside it")
        return self.root / pure

    def has(self, relative: str) -> bool:
        """Whether the file is there."""
        return self.path(relative).is_file()

    def missing(self, relatives: Sequence[str]) -> list[str]:
        """One problem that names every missing file, the folder and the ways on; none if all are there."""
        absent = [name for name in dict.fromkeys(relatives) if not self.has(name)]
        if not absent:
            return []
        where = "the data folder" if self.root.is_dir() else "the data folder (which does not exist)"
        return [f"{', '.join(absent)}: not in {where} {self.root}; {_NEXT}"]

    def fingerprint(self, relative: str) -> str:
        """SHA-256 of the packed file, hexadecimal."""
        self._require(relative)
        return sha256(self.path(relative))

    @cached_property
    def manifest(self) -> list[dict[str, Any]]:
        """MANIFEST.json: one entry a file, with `path`, `bytes`, `sha256` and `rows` at the least.

        Raises:
            DataError: if it is missing, is not JSON or lacks a field.
        """
        self._require("MANIFEST.json")
        path = self.path("MANIFEST.json")
        try:
            entries = json.loads(read_text(path))
        except (ValueError, RecursionError) as fault:
            raise DataError(f"{path}: not JSON ({fault})") from fault
        if not isinstance(entries, list):
            raise DataError(f"{path}: expected a list of files, got {type(entries).__name__}")
        needs = ", ".join(f"{key} ({kind.__name__})" for key, kind in _MANIFEST.items())
        problems = [
            f"{path}, entry {number}: needs {needs}"
            for number, entry in enumerate(entries, 1)
            if not isinstance(entry, dict)
            or not all(type(entry.get(key)) is kind for key, kind in _MANIFEST.items())
        ]
        if problems:
            raise DataError(problems)
        return entries

    def lines(self, relative: str) -> list[str]:
        """The lines of a packed text file, without their ends; only `\\n` ends a line.

        Raises:
            DataError: if the file is missing, damaged, not UTF-8, empty, or has lines that end in `\\r\\n`.
        """
        self._require(relative)
        path = self.path(relative)
        lines = read_text(path).removesuffix("\n").split("\n")
        if lines == [""]:
            raise DataError(f"{path}: the file is empty")
        faults = LineFaults(path)
        for number, line in enumerate(lines, 1):
            if line.endswith("\r"):
                faults.add(number, "ends in a carriage return; the store's lines end in a line feed alone")
        faults.check()
        return lines

    def read_tsv(self, relative: str, columns: Sequence[str]) -> dict[str, list[str]]:
        """The named columns of a `*.tsv.gz` file; row `i` stands in line `i + 2`.

        Args:
            relative: path inside the store.
            columns: wanted; the file may have others.

        Raises:
            DataError: as `lines`; or a column is not in the header, a row has more or fewer fields than it,
                or there is no row.
        """
        lines = self.lines(relative)
        path = self.path(relative)
        header = lines[0].split("\t")
        require_columns(f"{path}, line 1", columns, header)
        rows = [line.split("\t") for line in lines[1:]]
        faults = LineFaults(path)
        for number, row in enumerate(rows, 2):
            if len(row) != len(header):
                faults.add(number, f"has {len(row)} fields, the header has {len(header)}")
        faults.check()
        if not rows:
            raise DataError(f"{path}: has a header and no rows")
        return {column: [row[header.index(column)] for row in rows] for column in columns}

    def read_jsonl(self, relative: str, fields: Sequence[str]) -> dict[str, list[Any]]:
        """The named fields of a `*.jsonl.gz` file; row `i` stands in line `i + 1`.

        Args:
            relative: path inside the store.
            fields: wanted; every row has them all, and may have others.

        Raises:
            DataError: as `lines`; or a line is not a JSON object, or lacks a field.
        """
        faults = LineFaults(self.path(relative))
        values: dict[str, list[Any]] = {name: [] for name in fields}
        for number, line in enumerate(self.lines(relative), 1):
            try:
                row = parse_object(line)
            except ValueError as fault:
                faults.add(number, str(fault))
                continue
            absent = [name for name in fields if name not in row]
            if absent:
                faults.add(number, f"has no field {', '.join(map(repr, absent))} (fields: {', '.join(row)})")
            for name in fields:
                values[name].append(row.get(name))
        faults.check()
        return values

    def _require(self, relative: str) -> None:
        problems = self.missing([relative])
        if problems:
            raise DataError(problems)
