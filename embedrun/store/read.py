"""Raw records of TSV, CSV, JSON Lines, Parquet and text files, in blocks, with faults by row.

The CSV builder of `datasets` is pandas, which fills short rows in silence; Arrow names them.
"""

import contextlib
import gzip
import json
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any, TextIO

from embedrun import files
from embedrun.config.check import nearest
from embedrun.errors import ConfigError, DataError
from embedrun.store.columns import LineFaults, any_text, sentence

KINDS = (".tsv", ".csv", ".jsonl", ".parquet")  # with named columns
TEXT = ".txt"  # without: one text a line
_AT_ONCE = 8192  # records of a block
_BLOCK = 1 << 24  # bytes that Arrow parses at a time; no row may be longer
MOST_FAULTS = 1000  # by then it is the file that is wrong, and reading it may end


def kind(path: Path) -> str | None:
    """One of `KINDS` or `TEXT` by the file's name, text files with or without `.gz`; None for any other."""
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    return suffix if suffix in (*KINDS, TEXT) and not name.endswith(".parquet.gz") else None


# What Arrow, gzip and json raise of a file, whatever is wrong with it.
_LIBRARY_FAULTS = (
    OSError, ValueError, EOFError, LookupError, ArithmeticError, NotImplementedError, zlib.error
)  # fmt: skip


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What a library raises of a file that is damaged or cannot be read is a DataError."""
    try:
        yield
    except _LIBRARY_FAULTS as fault:
        reason = getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
        hint = "; save the file as UTF-8" if "utf" in reason.lower() else ""
        raise DataError(f"{path}: cannot be read: {reason.splitlines()[0]}{hint}") from fault


def sha256(path: Path) -> str:
    """As `files.sha256`; a DataError if the file cannot be read."""
    with _readable(path):
        return files.sha256(path)


def _open(path: Path) -> TextIO:
    """A UTF-8 file, with or without a byte order mark; the line ends stay."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    return opened(path, "rt", encoding="utf-8-sig", newline="\n")  # type: ignore[return-value]


_PARSE = {  # how Arrow parses what is no JSON
    ".tsv": {"delimiter": "\t", "quote_char": False, "newlines_in_values": False},
    ".csv": {"delimiter": ",", "quote_char": '"', "newlines_in_values": True},
}
# Neighbouring records: raw values by column, and the number of each in the file, all ``(records,)``.
Block = tuple[dict[str, list[Any]], Sequence[int]]


def blocks(
    path: Path,
    wanted: Sequence[str],
    faults: LineFaults,
    *,
    separator: str | None = None,
    hint: str = "",
    stream: TextIO | None = None,
    form: str | None = None,
    blank: bool = False,
) -> Iterator[Block]:
    """The wanted columns, or fields, of a file of one of `KINDS` or of `TEXT`, without its faulty records.

    TSV has no quoting, CSV has (RFC 4180); both begin with a header. No type is inferred: text files give
    texts, `NA`, `007` and `true` among them. A plain text file has one column, its lines, whatever it is
    called. Records are counted from 1, a header too and blank lines not; those inside plain text are empty
    texts, and with `blank` those at its end too. Those left out are noted in `faults`, which the caller adds
    to and raises; `hint` is what to do about a missing column.

    A `stream` of the `form` `TEXT` or `.jsonl` is read in place of a file; `path` stands in the messages.
    """
    form = form or kind(path) or TEXT
    is_empty = True
    with _readable(path):
        if form == ".parquet":
            records = _parquet(path, wanted, hint)
        elif form == TEXT:
            records = _grouped(_texts(_lines(path, stream), blank), wanted)
        elif form == ".jsonl":
            records = _grouped(_objects(_lines(path, stream), wanted, faults, hint), wanted)
        else:
            parse = {**_PARSE[form], **({"delimiter": separator} if separator else {})}
            records = _delimited(path, wanted, faults, parse, hint=hint)
        for block in records:
            is_empty = False
            yield block
    if is_empty and not blank:
        faults.check()
        raise DataError(f"{path}: has no rows")


def header(path: Path) -> list[str]:
    """The names of the columns of a file of one of `KINDS`, of JSON Lines the fields of its first object."""
    with _readable(path):
        if (form := kind(path)) == ".parquet":
            from pyarrow import parquet

            return parquet.read_schema(path).names
        if form in _PARSE:
            with _open_delimited(path, [], _PARSE[form]) as reader:
                return reader.schema.names
        first = next((line for _, line in _lines(path, None) if line.strip()), "")
        row = json.loads(first) if form == ".jsonl" and first else {}
        return list(row) if isinstance(row, dict) else []


def _require_columns(where: str, wanted: Sequence[str], header: Sequence[str], hint: str) -> None:
    problems = [
        f"{where}: more than one column is named {name!r}"
        if name in header
        else f"{where}: no column {name!r}{nearest(name, header)} (columns: {', '.join(header)}){hint}"
        for name in wanted
        if header.count(name) != 1
    ]
    if problems:
        raise DataError(problems)


def _delimited(
    path: Path, wanted: Sequence[str], faults: LineFaults, parse: Mapping[str, Any], *, hint: str
) -> Iterator[Block]:
    with _open_delimited(path, [], parse) as reader:
        header = reader.schema.names
    others = [other for other in ";\t,|" if other in header[0]]
    if len(header) == 1 and others and not set(wanted) <= set(header):
        raise DataError(
            f"{path}, row 1: one column, {header[0]!r}; its fields look separated by {others[0]!r}: pass "
            f"'dataset.separator={json.dumps(others[0])}'"
        )
    _require_columns(f"{path}, row 1", wanted, header, hint)
    unclosed: dict[int, str] = {}  # by row that does not fit: why, if it may be known

    def note(row: Any) -> str:
        unclosed[row.number] = "; a quote may not be closed" if "\n" in row.text else ""
        fields = f"has {row.actual_columns} fields, the header has {row.expected_columns}"
        faults.add(row.number, fields + unclosed[row.number])
        return "skip"

    # An empty line of a file of one column is an empty text.
    parse = {**parse, "ignore_empty_lines": len(header) > 1, "invalid_row_handler": note}
    numbers = filter(lambda number: number not in unclosed, count(2))  # behind the header
    with _open_delimited(path, wanted, parse) as batches:
        for batch in batches:
            rows = list(islice(numbers, batch.num_rows))
            for begin in range(0, len(rows), _AT_ONCE):
                yield batch.slice(begin, _AT_ONCE).to_pydict(), rows[begin : begin + _AT_ONCE]
    if any(unclosed.values()):  # one row may hold those behind it, also where faulty rows are skipped
        faults.check()


@contextlib.contextmanager
def _open_delimited(path: Path, columns: Sequence[str], parse: Mapping[str, Any]) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    compression = "gzip" if path.suffix.lower() == ".gz" else None
    reader = csv.open_csv(
        pa.input_stream(str(path), compression=compression),
        # Not "utf8", by which bytes that are none would be noticed only in the columns that are wanted.
        csv.ReadOptions(use_threads=False, block_size=_BLOCK, encoding="utf-8-sig"),
        csv.ParseOptions(**{"invalid_row_handler": lambda row: "skip", **parse}),
        csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()),
            include_columns=list(columns),
            null_values=[],
            strings_can_be_null=False,
        ),
    )
    try:
        with reader:
            yield reader
    finally:
        # Arrow's thread lets go of the handler under Python's lock. Where the process ends first, it aborts.
        time.sleep(0.002)


_Records = Iterator[tuple[int, Sequence[Any]]]  # row, and a value for each wanted column


def _grouped(records: _Records, wanted: Sequence[str]) -> Iterator[Block]:
    while part := list(islice(records, _AT_ONCE)):
        rows, values = zip(*part, strict=True)
        columns = map(list, zip(*values, strict=True))  # each (records,)
        yield dict(zip(wanted, columns, strict=True)), rows


def _lines(path: Path, stream: TextIO | None) -> Iterator[tuple[int, str]]:
    with stream or _open(path) as file:
        for number, line in enumerate(file, 1):
            yield number, line.removesuffix("\n").removesuffix("\r")


def _texts(lines: Iterator[tuple[int, str]], blank: bool) -> _Records:
    waiting: list[tuple[int, Sequence[str]]] = []  # blank lines, which are no rows at the end of the file
    for number, line in lines:
        waiting.append((number, (line,)))
        if line or blank:
            yield from waiting
            waiting = []


def _objects(
    lines: Iterator[tuple[int, str]], wanted: Sequence[str], faults: LineFaults, hint: str
) -> _Records:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as fault:
            faults.add(number, f"not JSON ({fault})")
            continue
        if not isinstance(row, dict):
            faults.add(number, f"expected a JSON object, got {type(row).__name__}")
        elif absent := [name for name in wanted if name not in row]:
            faults.add(
                number, f"has no field {', '.join(map(repr, absent))} (fields: {', '.join(row)}){hint}"
            )
        else:
            yield number, [row[name] for name in wanted]


def _parquet(path: Path, wanted: Sequence[str], hint: str) -> Iterator[Block]:
    from pyarrow import parquet

    done = 0
    # Not read_table, which takes folders named `key=value` for columns.
    with parquet.ParquetFile(path) as file:
        _require_columns(str(path), wanted, file.schema_arrow.names, hint)
        for batch in file.iter_batches(_AT_ONCE, columns=list(wanted)):
            if len(batch):
                yield batch.to_pydict(), range(done + 1, done + len(batch) + 1)
            done += len(batch)


@dataclass(frozen=True)
class Texts:
    """Where texts come from, and which of them may be empty."""

    path: Path | None  # None: standard input, plain text, or JSON Lines where a field is named
    field: str | None  # of the text where records have several; None: `text`
    allow_empty: bool  # or white space alone

    def check(self) -> None:
        """Check the file's name and the options; ConfigError or, for a missing file, DataError."""
        if self.path is None:
            return
        if not self.path.is_file():
            raise DataError(f"FILE: no file {str(self.path)!r}{neighbour(self.path)}")
        if kind(self.path) is None:
            raise ConfigError(
                f"FILE: {str(self.path)!r} must end in {', '.join((TEXT, *KINDS))}, those of text also with "
                ".gz; plain text of another name can come from standard input: embedrun encode MODEL - < FILE"
            )
        if kind(self.path) == TEXT and self.field is not None:
            raise ConfigError(f"--field: a {TEXT} file has no fields, got {self.field!r}; leave it out")

    def read(self) -> Iterator[str]:
        """The texts, in order, without faulty ones, which are raised when all, or a thousand, are read."""
        path, is_empty = self.path or Path("standard input"), True
        faults, rule = LineFaults(path), any_text if self.allow_empty else sentence
        for columns, rows in self._blocks(path, faults):
            is_empty = False
            for row, value in zip(rows, *columns.values(), strict=True):
                try:
                    yield rule(value)
                except ValueError as fault:
                    faults.add(row, str(fault))
            if len(faults) >= MOST_FAULTS:
                break
        problems = faults.problems()
        if any(fault.reason == "the text is empty" for fault in faults.ordered()):
            problems.append("an empty text has a vector too: --allow-empty encodes them")
        if problems or is_empty:
            raise DataError(problems or f"{path}: holds no text")

    def _blocks(self, path: Path, faults: LineFaults) -> Iterator[Block]:
        wanted, stream, form = [self.field or "text"], None, None
        if self.path is None:
            form = TEXT if self.field is None else ".jsonl"
            # `blocks` closes it, and leaves standard input open.
            stream = open(sys.stdin.fileno(), encoding="utf-8-sig", newline="\n", closefd=False)  # noqa: SIM115
        hint = "; --field NAME names another"
        return blocks(path, wanted, faults, hint=hint, stream=stream, form=form, blank=True)


def neighbour(path: Path) -> str:
    """The file of the nearest name in the same folder, as `nearest` says it."""
    folder = path.parent
    return nearest(path.name, [entry.name for entry in folder.iterdir()]) if folder.is_dir() else ""
