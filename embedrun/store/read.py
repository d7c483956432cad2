"""Raw records of TSV, CSV, JSON Lines, Parquet and text files, in blocks, with faults by line."""

import csv
import gzip
import json
import os
import re
import sys
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from embedrun import files
from embedrun.config.check import nearest
from embedrun.console import size
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, unpacked
from embedrun.store.columns import LineFaults, sentence


def sha256(path: Path) -> str:
    """As `files.sha256`, of a file of data.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        return files.sha256(path)
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror}") from fault


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, unpacked if its name ends in `.gz`.

    Raises:
        DataError: if it cannot be read or unpacked, or is not UTF-8 (the line is named).
    """
    return "".join(text for _, text in _decoded(path, _open(path)))


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


def _require_once(where: str, wanted: Sequence[str], found: Sequence[str]) -> None:
    twice = [name for name in wanted if found.count(name) > 1]
    if twice:
        raise DataError(f"{where}: more than one column is named {', '.join(map(repr, twice))}")


KINDS = (".tsv", ".csv", ".jsonl", ".parquet")  # with named columns
TEXT = ".txt"  # without: one text a line
_PACKED = (".tsv", ".csv", ".jsonl", TEXT)  # also with .gz
_SEPARATORS = {".tsv": "\t", ".csv": ","}
AT_ONCE = 8192  # records of a block


def kind(path: Path) -> str | None:
    """One of `KINDS` or `TEXT` by the file's name, text files with or without `.gz`; None for any other."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] == ".gz"
    if packed:
        suffixes.pop()
    accepted = _PACKED if packed else (*KINDS, TEXT)
    return suffixes[-1] if suffixes and suffixes[-1] in accepted else None


def unit(path: Path) -> str:
    """What the records of a file are counted in, for :class:`~embedrun.store.columns.LineFaults`."""
    return "row" if kind(path) == ".parquet" else "line"


@dataclass(frozen=True)
class Block:
    """Neighbouring records of one file.

    Args:
        columns: raw values, each ``(records,)``; text from TSV, CSV and plain text, any JSON value from JSON
            Lines, typed values from Parquet.
        lines: where each record begins in the file, from 1, ``(records,)``; of a Parquet file its row.
    """

    columns: dict[str, list[Any]]
    lines: list[int]


def blocks(
    path: Path,
    wanted: Sequence[str],
    faults: LineFaults,
    *,
    separator: str | None = None,
    ask: bool = False,
    way_on: str = "",
    stream: BinaryIO | None = None,
    plain: bool = True,
    blank: bool = False,
) -> Iterator[Block]:
    """The wanted columns, or fields, of a file of one of `KINDS` or of `TEXT`, without its faulty records.

    TSV has no quoting, CSV has (RFC 4180); both begin with a header. No type is inferred: text files give
    texts, `NA`, `007` and `true` among them. A plain text file has one column, its lines, whatever it is
    called. Blank lines at the end of the file hold no record and are ignored; anywhere else they are faults.

    Args:
        faults: where the records that are left out are noted; the caller adds its own and raises them.
        separator: of the fields of TSV or CSV; None for a tab or a comma.
        ask: whether a message may ask for `dataset.separator`.
        way_on: what to do about a missing column; ends the message.
        stream: to be read in place of a file: plain text, or else JSON Lines; `path` stands in the messages.
        plain: which of the two the stream is.
        blank: whether a blank line of plain text is a record, even at the end of the file.

    Raises:
        DataError: if the file cannot be read, has no record, or lacks a wanted column altogether. Midway, if
            what follows is damaged.
    """
    what = kind(path) if stream is None else TEXT if plain else ".jsonl"
    if what == ".parquet":
        yield from _parquet(path, wanted, way_on)
        return
    lines = _lines(path, stream or _open(path), every=blank and what == TEXT)
    if what == ".jsonl":
        records = _objects(path, lines, wanted, faults, way_on)
    elif what == TEXT:
        records = _texts(lines, faults, blank=blank)
    else:
        mark = separator or _SEPARATORS[what or ".csv"]
        parsed = _tsv(lines, mark) if what == ".tsv" else _csv(lines, mark, faults)
        records = _fields(path, parsed, wanted, faults, way_on, ask=ask)
    there = False
    while some := list(islice(records, AT_ONCE)):
        there = True
        numbers, values = zip(*some, strict=True)
        columns = map(list, zip(*values, strict=True))  # each (records,)
        yield Block(dict(zip(wanted, columns, strict=True)), list(numbers))
    if not there and not blank:
        faults.check()
        raise DataError(f"{path}: has a header and no rows")


_Records = Iterator[tuple[int, Sequence[Any]]]  # line, and a value for each wanted column


def _texts(lines: Iterator[tuple[int, str]], faults: LineFaults, *, blank: bool) -> _Records:
    for number, line in lines:
        if blank or line.strip():
            yield number, (line.removesuffix("\n").removesuffix("\r"),)
        else:
            faults.add(number, "blank line")


def _tsv(lines: Iterator[tuple[int, str]], separator: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines:
        yield number, line.removesuffix("\n").removesuffix("\r").split(separator)


_CARRIAGE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def _csv(
    lines: Iterator[tuple[int, str]], separator: str, faults: LineFaults
) -> Iterator[tuple[int, list[str]]]:
    # strict: a stray or unclosed quote is a fault, not a guess. A record may span several lines, and a lone
    # carriage return ends a line, too.
    every = (part for _, line in lines for part in (_CARRIAGE.findall(line) if "\r" in line else [line]))
    reader = csv.reader(every, strict=True, delimiter=separator)
    start = 1
    try:
        for record in reader:
            yield start, record
            start = reader.line_num + 1
    except csv.Error as fault:
        reason = f"not CSV ({fault}); a field with a quote or {_NAMES.get(separator, repr(separator))} "
        faults.add(start, f"{reason}must stand in quotes", ends=True)


_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


def _fields(
    path: Path,
    records: Iterator[tuple[int, list[str]]],
    wanted: Sequence[str],
    faults: LineFaults,
    way_on: str,
    *,
    ask: bool,
) -> _Records:
    header = next(records, (1, []))[1]
    faults.check()  # a header that is not CSV
    if ask and not set(wanted) <= set(header):
        _ask_for_separator(path, header)
    require_columns(f"{path}, line 1", wanted, header, way_on)
    _require_once(f"{path}, line 1", wanted, header)
    places = [header.index(name) for name in wanted]
    for number, record in records:
        if len(record) == len(header) and record != [""]:
            yield number, [record[place] for place in places]
        elif record in ([], [""]):
            faults.add(number, "blank line")
        else:
            faults.add(number, f"has {len(record)} fields, the header has {len(header)}")


def _ask_for_separator(path: Path, header: Sequence[str]) -> None:
    """Raise a DataError where the header is one name that looks like several with another mark between."""
    marks = {mark: header[0].count(mark) for mark in (";", "\t", ",", "|")} if len(header) == 1 else {}
    mark = max(marks, key=lambda one: marks[one], default="")
    if marks.get(mark):
        raise DataError(
            f"{path}, line 1: one column, {header[0]!r}; its fields look separated by {mark!r}: pass "
            f"'dataset.separator={json.dumps(mark)}'"
        )


def _objects(
    path: Path, lines: Iterator[tuple[int, str]], wanted: Sequence[str], faults: LineFaults, way_on: str
) -> _Records:
    found: dict[str, None] = {}  # fields of the objects that lack one
    whole = False
    for number, line in lines:
        try:
            row = parse_object(line.removesuffix("\n"))
        except ValueError as fault:
            faults.add(number, str(fault) if line.strip() else "blank line")
            continue
        absent = [name for name in wanted if name not in row]
        if absent:
            found.update(dict.fromkeys(row))
            faults.add(number, f"has no field {', '.join(map(repr, absent))} (fields: {', '.join(row)})")
        else:
            whole = True
            yield number, [row[name] for name in wanted]
    if found and not whole:
        require_columns(str(path), wanted, list(found), way_on)


_LONGEST_LINE = 64 << 20  # bytes; a line is held in memory
_BYTE_ORDER_MARK = "\ufeff"  # that some spreadsheets put before the first column's name


def _lines(path: Path, stream: BinaryIO, *, every: bool) -> Iterator[tuple[int, str]]:
    """Lines with their ends, and their numbers from 1; `every`, or none of the blank ones at the end."""
    started, waiting = False, []  # lines that nothing but line ends may follow
    for number, line in _decoded(path, stream):
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if every:
            yield number, line
            continue
        started = started or not (not line or line.isspace())
        if started and line.strip("\r\n"):
            yield from waiting
            waiting = []
        waiting.append((number, line))
    if every:
        return
    if not started:
        raise DataError(f"{path}: the file is empty")
    number, last = waiting[0]
    yield number, last.rstrip("\r\n")


def _decoded(path: Path, stream: BinaryIO) -> Iterator[tuple[int, str]]:
    try:
        with stream:
            for number, raw in enumerate(iter(partial(stream.readline, _LONGEST_LINE + 1), b""), 1):
                if len(raw) > _LONGEST_LINE:
                    raise DataError(
                        f"{path}, line {number}: over {size(_LONGEST_LINE)}; a line has one text or record"
                    )
                try:
                    text = raw.decode("utf-8")
                except UnicodeDecodeError as fault:
                    deque(stream, maxlen=0)  # a damaged gzip file says so at its end, and that is the cause
                    where, byte = f"{path}, line {number}", f"0x{raw[fault.start]:02x}"
                    raise DataError(f"{where}: byte {byte} is not UTF-8; save the file as UTF-8") from fault
                yield number, text
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        raise DataError(f"{path}: damaged or not a gzip file ({fault}); fetch or pack it again") from fault
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {os.strerror(fault.errno or 0)}") from fault


def _open(path: Path) -> BinaryIO:
    try:
        return unpacked(path) if path.suffix.lower() == ".gz" else path.open("rb")
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror}") from fault


def _parquet(path: Path, wanted: Sequence[str], way_on: str) -> Iterator[Block]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        # Not read_table, which takes folders named `key=value` for columns.
        # By default what was read of every group of rows is held until the file is closed.
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            found = file.schema_arrow.names
            require_columns(str(path), wanted, found, way_on)
            _require_once(str(path), wanted, found)
            for batch in file.iter_batches(AT_ONCE, columns=list(wanted)):
                if len(batch):
                    lines = list(range(row + 1, row + len(batch) + 1))
                    yield Block({name: _values(path, name, batch.column(name)) for name in wanted}, lines)
                row += len(batch)
            # A damaged page may give fewer values than it says, without a fault.
            if row != file.metadata.num_rows:
                raise pa.ArrowInvalid(f"{row:,} rows are there, it says {file.metadata.num_rows:,}")
    except OSError as fault:
        if fault.errno is None:  # not from the system: the bytes themselves do not fit
            raise _damaged(path, fault) from fault
        raise DataError(f"{path}: cannot be read: {os.strerror(fault.errno)}") from fault
    except (pa.ArrowException, ValueError) as fault:  # a name that is no UTF-8 is the latter
        raise _damaged(path, fault) from fault
    if not row:
        raise DataError(f"{path}: has columns and no rows")


def _values(path: Path, name: str, column: Any) -> list[Any]:
    """Text, whole numbers and numbers as such, a missing value as None; `column` is an Arrow array."""
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    try:
        return column.to_pylist()
    except UnicodeDecodeError as fault:
        raise DataError(f"{path}, column {name!r}: holds text that is not UTF-8 ({fault.reason})") from fault
    except (OverflowError, ValueError, LookupError, pa.ArrowException) as fault:  # of dates and times
        kind = str(column.type)
        raise DataError(f"{path}, column {name!r}: {kind} is neither text nor a number ({fault})") from fault


def _damaged(path: Path, fault: Exception) -> DataError:
    first = (str(fault).strip() or type(fault).__name__).splitlines()[0]
    return DataError(f"{path}: damaged or not a Parquet file ({first}); write or fetch it again")


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
        if kind(self.path) is None:
            raise ConfigError(
                f"FILE: {str(self.path)!r} must end in {accepted}; plain text of another name can come from "
                f"standard input: embedrun encode MODEL - < {self.path}"
            )
        if kind(self.path) == TEXT and self.field is not None:
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
        return LineFaults(self._where, unit(self._where))

    def refuse(self, faults: LineFaults) -> None:
        """Raise a DataError where there are faults; it says how to allow empty texts."""
        problems = faults.problems()
        if any(fault.reason == "the text is empty" for fault in faults.ordered()):
            problems.append("an empty text has a vector too: --allow-empty encodes them")
        if problems:
            raise DataError(problems)

    def read(self, faults: LineFaults) -> Iterator[str]:
        """The texts, in order; faulty ones are left out and noted in `faults`.

        Reading ends after the block with the thousandth fault.

        Raises:
            DataError: if reading fails midway.
        """
        field, stream = self.field or "text", None
        if self.path is None:
            stream = os.fdopen(os.dup(sys.stdin.fileno()), "rb")  # closing it leaves standard input open
        way_on = "; --field NAME names another"
        for block in blocks(
            self._where, [field], faults, way_on=way_on, stream=stream, plain=self.field is None, blank=True
        ):
            for number, value in zip(block.lines, block.columns[field], strict=True):
                try:
                    blank = self.allow_empty and isinstance(value, str) and not value.strip()
                    yield value if blank else sentence(value)
                except ValueError as fault:
                    faults.add(number, str(fault))
            if len(faults) >= _MOST_FAULTS:
                return

    @property
    def _where(self) -> Path:
        return self.path or _STANDARD_INPUT
