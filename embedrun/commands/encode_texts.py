"""The texts of `embedrun encode`: read one by one from a file or standard input, faulty ones noted."""

import csv
import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from embedrun.config.check import nearest
from embedrun.dataset.columns import sentence
from embedrun.errors import ConfigError, DataError
from embedrun.store import KINDS, TEXT, LineFaults, kind, parse_object, require_columns

_ROWS_AT_ONCE = 8192  # of a Parquet file
_MOST_FAULTS = 1000  # noted; a file of another kind has one in every line
_STANDARD_INPUT = Path("standard input")


@dataclass(frozen=True)
class Texts:
    """Where texts come from, and which of them may be empty.

    Args:
        path: plain text, one text a line; JSON Lines, TSV or CSV, all of these also with ``.gz``; or Parquet.
            None: standard input, plain text, or JSON Lines where a field is named.
        field: of the text where records have several; None: ``text``.
        allow_empty: whether a text may be empty, or white space alone.
    """

    path: Path | None
    field: str | None
    allow_empty: bool

    def check(self) -> None:
        """Look at the file's name and at the options.

        Raises:
            ConfigError: for a field of plain text, or a file of no kind that is read.
            DataError: if there is no such file.
        """
        if self.path is None:
            return
        accepted = f"{', '.join((TEXT, *KINDS))}, those of text also with .gz"
        if not self.path.is_file():
            folder = self.path.parent
            there = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
            raise DataError(f"FILE: no file {str(self.path)!r}{nearest(self.path.name, there)}")
        if self._kind is None:
            raise ConfigError(
                f"FILE: {str(self.path)!r} must end in {accepted}; plain text of another name can come from "
                f"standard input: embedrun encode MODEL - < {self.path}"
            )
        if self._kind == TEXT and self.field is not None:
            raise ConfigError(f"--field: a {TEXT} file has no fields, got {self.field!r}; leave it out")

    def count(self) -> int:
        """The number of texts, each looked at.

        Raises:
            DataError: if there is none, or any is faulty: the first 20, and how many more there are.
        """
        faults = self.faults()
        found = sum(1 for _ in self.read(faults))
        self.refuse(faults)
        self.require(found)
        return found

    def require(self, count: int) -> None:
        """Raise a DataError where there was no text at all."""
        if not count:
            raise DataError(f"{self._where}: holds no text")

    def faults(self) -> LineFaults:
        """An empty list of faults, for `read`."""
        return LineFaults(self._where, "row" if self._kind == ".parquet" else "line")

    def refuse(self, faults: LineFaults) -> None:
        """Raise a DataError where there are faults; say how empty texts are let through."""
        problems = faults.problems()
        if any(fault.reason == "the text is empty" for fault in faults.ordered()):
            problems.append("an empty text has a vector too: --allow-empty encodes them")
        if problems:
            raise DataError(problems)

    def read(self, faults: LineFaults) -> Iterator[str]:
        """The texts, in order.

        Args:
            faults: where faulty ones are noted, which are left out; reading ends after 1,000.

        Raises:
            DataError: if the file cannot be read on.
        """
        noted = 0
        for number, value, reason in self._values():
            text = ""
            if not reason:
                try:
                    empty = self.allow_empty and isinstance(value, str) and not value.strip()
                    text = value if empty else sentence(value)
                except ValueError as fault:
                    reason = str(fault)
            if not reason:
                yield text
                continue
            faults.add(number, reason)
            noted += 1
            if noted == _MOST_FAULTS:
                return

    def _values(self) -> Iterator[tuple[int, Any, str]]:
        """Line, value and what is wrong with the line, or nothing."""
        if self._kind == ".parquet":
            yield from self._parquet()
        elif self._kind == ".jsonl":
            for number, line in self._lines():
                yield number, *self._of_object(line)
        elif self._kind == TEXT:
            for number, line in self._lines():
                yield number, line, ""
        else:
            yield from self._table()

    def _of_object(self, line: str) -> tuple[Any, str]:
        try:
            row = parse_object(line)
        except ValueError as fault:
            return None, str(fault)
        if self._field not in row:
            return None, f"no field {self._field!r}{nearest(self._field, row)} (fields: {', '.join(row)})"
        return row[self._field], ""

    def _table(self) -> Iterator[tuple[int, Any, str]]:
        """Records of TSV, which has no quoting, or of CSV, where one may take several lines."""
        lines = self._lines(ends=True)
        if self._kind == ".csv":
            reader = csv.reader((line for _, line in lines), strict=True)
            records = _csv_records(reader)
        else:
            records = ((number, line.rstrip("\r\n").split("\t"), "") for number, line in lines)
        header: list[str] | None = None
        for number, record, reason in records:
            if header is None:
                header = record
                require_columns(
                    f"{self._where}, line 1", [self._field], header, "; --field NAME names another"
                )
            elif reason or len(record) != len(header):
                yield number, None, reason or f"has {len(record)} fields, the header has {len(header)}"
            else:
                yield number, record[header.index(self._field)], ""

    def _parquet(self) -> Iterator[tuple[int, Any, str]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self._where) as file:
                names = file.schema_arrow.names
                require_columns(str(self._where), [self._field], names, "; --field NAME names another")
                number = 0
                for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[self._field]):
                    for value in batch.column(0).to_pylist():
                        number += 1
                        yield number, value, ""
        except pa.ArrowException as fault:
            first = (str(fault).strip() or type(fault).__name__).splitlines()[0]
            raise DataError(f"{self._where}: damaged or not a Parquet file ({first})") from fault

    def _lines(self, *, ends: bool = False) -> Iterator[tuple[int, str]]:
        """Lines and their numbers, from 1; without their ends, unless these are asked for."""
        number = 0
        try:
            with self._open() as file:
                for number, raw in enumerate(file, 1):
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                    yield number, line if ends else line.removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as fault:
            byte = f"0x{fault.object[fault.start]:02x}"
            raise DataError(
                f"{self._where}, line {number}: byte {byte} is not UTF-8; save it as UTF-8"
            ) from fault
        except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
            raise DataError(f"{self._where}: damaged or not a gzip file ({fault})") from fault
        except OSError as fault:
            raise DataError(f"{self._where}: cannot be read: {os.strerror(fault.errno or 0)}") from fault

    def _open(self) -> BinaryIO:
        if self.path is None:
            return os.fdopen(os.dup(sys.stdin.fileno()), "rb")  # closing it leaves standard input open
        packed = self.path.suffix.lower() == ".gz"
        return gzip.open(self.path, "rb") if packed else self.path.open("rb")  # type: ignore[return-value]

    @property
    def _kind(self) -> str | None:
        if self.path is None:
            return TEXT if self.field is None else ".jsonl"
        return kind(self.path)

    @property
    def _field(self) -> str:
        return self.field or "text"

    @property
    def _where(self) -> Path:
        return self.path or _STANDARD_INPUT


def _csv_records(reader: Any) -> Iterator[tuple[int, list[str], str]]:
    start = 1
    try:
        for record in reader:
            yield start, record, ""
            start = reader.line_num + 1
    except csv.Error as fault:  # nothing behind it can be told apart
        yield start, [], f"not CSV ({fault}); a field with a quote or comma must stand in quotes"
