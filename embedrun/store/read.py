"""Records of TSV, CSV, JSON Lines, Parquet and text files, whole or streamed, with faults by line."""

import csv
import gzip
import hashlib
import io
import json
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from embedrun.config.check import nearest
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain
from embedrun.store.columns import LineFaults, sentence

if TYPE_CHECKING:
    import pyarrow as pa


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes as they are on disk, read in pieces."""
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


def parse_object(line: str) -> Plain:
    """The object in one line of JSON Lines; ValueError with the reason if it holds none."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"not JSON ({fault})") from fault
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object, got {type(row).__name__}")
    return row


def require_columns(where: str, wanted: Sequence[str], found: Sequence[str], way_on: str = "") -> None:
    """Raise a DataError that names every missing column, the nearest one and all there are.

    `where`, file and line, begins the message; `way_on`, what to do about it, ends it.
    """
    problems = [
        f"{where}: no column {name!r}{nearest(name, found)} (columns: {', '.join(found)}){way_on}"
        for name in wanted
        if name not in found
    ]
    if problems:
        raise DataError(problems)


def require_once(where: str, wanted: Sequence[str], found: Sequence[str]) -> None:
    """Raise a DataError, about `where`, file and line, if a wanted column is there more than once."""
    twice = [name for name in wanted if found.count(name) > 1]
    if twice:
        raise DataError(f"{where}: more than one column is named {', '.join(map(repr, twice))}")


def read_parquet(path: Path, wanted: Sequence[str], way_on: str = "") -> dict[str, list[Any]]:
    """The wanted columns, each ``(rows,)``: text, whole numbers and numbers as such, a missing value as None.

    `wanted` are top-level columns, one at least. `way_on`, what to do about a missing column, ends the
    message.

    Raises:
        DataError: if the file cannot be read, has no row, or lacks a wanted column or has it twice.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Not read_table, which takes folders named `key=value` for columns.
        with pq.ParquetFile(path) as file:
            found = file.schema_arrow.names
            require_columns(str(path), wanted, found, way_on)
            require_once(str(path), wanted, found)
            table = file.read(columns=list(wanted))
    except OSError as fault:
        if fault.errno is None:  # not from the system: the bytes themselves do not fit
            raise _damaged(path, fault) from fault
        raise DataError(f"{path}: cannot be read: {os.strerror(fault.errno)}") from fault
    except pa.ArrowException as fault:
        raise _damaged(path, fault) from fault
    if not table.num_rows:
        raise DataError(f"{path}: has columns and no rows")
    return {name: _values(path, name, table.column(name)) for name in wanted}


def _values(path: Path, name: str, column: "pa.ChunkedArray") -> list[Any]:
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    try:
        return column.to_pylist()
    except UnicodeDecodeError as fault:
        raise DataError(f"{path}, column {name!r}: holds text that is not UTF-8 ({fault.reason})") from fault


def _damaged(path: Path, fault: Exception) -> DataError:
    first = (str(fault).strip() or type(fault).__name__).splitlines()[0]
    return DataError(f"{path}: damaged or not a Parquet file ({first}); write or fetch it again")


KINDS = (".tsv", ".csv", ".jsonl", ".parquet")  # with named columns
TEXT = ".txt"  # without: one text a line
_PACKED = (".tsv", ".csv", ".jsonl", TEXT)  # also with .gz
_BYTE_ORDER_MARK = "\ufeff"  # that some spreadsheets put before the first column's name


@dataclass(frozen=True)
class Table:
    """Raw values by column.

    Args:
        columns: each ``(rows,)``; text from TSV, CSV and plain text, any JSON value from JSON Lines, typed
            values from Parquet.
        lines: where each record begins in the file, from 1, ``(rows,)``; of a Parquet file its row.
        faults: of the records that were left out; the caller adds its own and raises them together.
    """

    columns: dict[str, list[Any]]
    lines: list[int]
    faults: LineFaults


def kind(path: Path) -> str | None:
    """One of `KINDS` or `TEXT` by the file's name, text files with or without `.gz`; None for any other."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] == ".gz"
    if packed:
        suffixes.pop()
    accepted = _PACKED if packed else (*KINDS, TEXT)
    return suffixes[-1] if suffixes and suffixes[-1] in accepted else None


def read_table(path: Path, wanted: Sequence[str], *, way_on: str = "") -> Table:
    """The wanted columns, or fields, of a file of one of `KINDS` or of `TEXT`; text files also with `.gz`.

    TSV has no quoting, CSV has (RFC 4180); both begin with a header. A plain text file has one column, its
    lines, whatever it is called. Blank lines at the end of the file hold no record and are ignored;
    anywhere else they are faults. `way_on`, what to do about a missing column, ends the message.

    Raises:
        DataError: if the file cannot be read, has no record, or lacks a wanted column altogether.
    """
    if kind(path) == ".parquet":
        columns = read_parquet(path, wanted, way_on)
        rows = len(next(iter(columns.values())))
        return Table(columns, list(range(1, rows + 1)), LineFaults(path, "row"))
    text = read_text(path).removeprefix(_BYTE_ORDER_MARK).rstrip("\r\n")
    if not text.strip():
        raise DataError(f"{path}: the file is empty")
    faults = LineFaults(path)
    if kind(path) == ".jsonl":
        table = _objects(path, text, wanted, faults, way_on)
    elif kind(path) == TEXT:
        table = _lines(text, wanted, faults)
    else:
        records = _tsv(text) if kind(path) == ".tsv" else _csv(text, faults)
        table = _fields(path, records, wanted, faults, way_on)
    if not table.lines:
        faults.check()
        raise DataError(f"{path}: has a header and no rows")
    return table


def _lines(text: str, wanted: Sequence[str], faults: LineFaults) -> Table:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    kept = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            kept.append(number)
        else:
            faults.add(number, "blank line")
    (column,) = wanted
    return Table({column: [lines[number - 1] for number in kept]}, kept, faults)


def _tsv(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.split("\n"), 1):
        yield number, line.removesuffix("\r").split("\t")


def _csv(text: str, faults: LineFaults) -> Iterator[tuple[int, list[str]]]:
    # strict: a stray or unclosed quote is a fault, not a guess. A record may span several lines.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    start = 1
    try:
        for record in reader:
            yield start, record
            start = reader.line_num + 1
    except csv.Error as fault:
        reason = f"not CSV ({fault}); a field with a quote or comma must stand in quotes"
        faults.add(start, reason, ends=True)


def _fields(
    path: Path,
    records: Iterator[tuple[int, list[str]]],
    wanted: Sequence[str],
    faults: LineFaults,
    way_on: str,
) -> Table:
    header = next(records, (1, []))[1]
    faults.check()  # a header that is not CSV
    require_columns(f"{path}, line 1", wanted, header, way_on)
    require_once(f"{path}, line 1", wanted, header)
    places = {name: header.index(name) for name in wanted}
    columns: dict[str, list[Any]] = {name: [] for name in wanted}
    lines = []
    for number, record in records:
        if record in ([], [""]):
            faults.add(number, "blank line")
        elif len(record) != len(header):
            faults.add(number, f"has {len(record)} fields, the header has {len(header)}")
        else:
            lines.append(number)
            for name, place in places.items():
                columns[name].append(record[place])
    return Table(columns, lines, faults)


def _objects(path: Path, text: str, wanted: Sequence[str], faults: LineFaults, way_on: str) -> Table:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if not line.strip():
                raise ValueError("blank line")
            rows.append((number, parse_object(line)))
        except ValueError as fault:
            faults.add(number, str(fault))
    if rows:
        found = list(dict.fromkeys(name for _, row in rows for name in row))
        require_columns(str(path), wanted, found, way_on)
    complete = []
    for number, row in rows:
        absent = [name for name in wanted if name not in row]
        if absent:
            faults.add(number, f"has no field {', '.join(map(repr, absent))} (fields: {', '.join(row)})")
        else:
            complete.append((number, row))
    columns = {name: [row[name] for _, row in complete] for name in wanted}
    return Table(columns, [number for number, _ in complete], faults)


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
        """Check the file's name and the options.

        Raises:
            ConfigError: for a field of plain text, or an unsupported kind of file.
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
        """Raise a DataError where there are faults; it says how to allow empty texts."""
        problems = faults.problems()
        if any(fault.reason == "the text is empty" for fault in faults.ordered()):
            problems.append("an empty text has a vector too: --allow-empty encodes them")
        if problems:
            raise DataError(problems)

    def read(self, faults: LineFaults) -> Iterator[str]:
        """The texts, in order; faulty ones are left out and noted in `faults`, and reading ends after 1,000.

        Raises:
            DataError: if reading fails midway.
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
