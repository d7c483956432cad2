"""A table in a file of TSV, CSV, JSON Lines, Parquet or plain text, record by record with its line number."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedrun.errors import DataError
from embedrun.store.parquet import read_parquet
from embedrun.store.text import LineFaults, parse_object, read_text, require_columns, require_once

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
    """The wanted columns of a file.

    TSV has no quoting, CSV has (RFC 4180); both begin with a header. A plain text file has one column, its
    lines, whatever it is called. Blank lines at the end of the file hold no record and are passed over;
    anywhere else they are faults.

    Args:
        path: whose name ends in one of `KINDS` or `TEXT`; text files also with `.gz`.
        wanted: columns or fields.
        way_on: what to do about a missing column, at the end of the message.

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
