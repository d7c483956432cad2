"""A user's own TSV, CSV or JSON Lines file, record by record, each with its line number."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedrun.errors import DataError
from embedrun.store import LineFaults, parse_object, read_text, require_columns

KINDS = (".tsv", ".csv", ".jsonl")
_MAP_HINT = "; dataset.columns={text1: NAME, ...} says what the columns are called"
_BYTE_ORDER_MARK = "\ufeff"  # that some spreadsheets put before the first column's name


@dataclass(frozen=True)
class Table:
    """Raw values by column.

    Args:
        columns: each ``(rows,)``; text from TSV and CSV, any JSON value from JSON Lines.
        lines: where each record begins in the file, ``(rows,)``.
        faults: of the records that were left out; the caller adds its own and raises them together.
    """

    columns: dict[str, list[Any]]
    lines: list[int]
    faults: LineFaults


def kind(path: Path) -> str | None:
    """`.tsv`, `.csv` or `.jsonl` by the file's name, with or without `.gz`; None for any other."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in KINDS else None


def read_table(path: Path, wanted: Sequence[str]) -> Table:
    """The wanted columns of a file.

    TSV has no quoting, CSV has (RFC 4180); both begin with a header. Blank lines at the end of the file hold
    no record and are passed over; anywhere else they are faults.

    Args:
        path: whose name ends in one of `KINDS`, or that and `.gz`.
        wanted: columns or fields.

    Raises:
        DataError: if the file cannot be read, has no record, or lacks a wanted column altogether.
    """
    text = read_text(path).removeprefix(_BYTE_ORDER_MARK).rstrip("\r\n")
    if not text.strip():
        raise DataError(f"{path}: the file is empty")
    faults = LineFaults(path)
    if kind(path) == ".jsonl":
        table = _objects(path, text, wanted, faults)
    else:
        records = _tsv(text) if kind(path) == ".tsv" else _csv(text, faults)
        table = _fields(path, records, wanted, faults)
    if not table.lines:
        faults.check()
        raise DataError(f"{path}: has a header and no rows")
    return table


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
        faults.add(start, f"not CSV ({fault}); a field with a quote or comma must stand in quotes")


def _fields(
    path: Path, records: Iterator[tuple[int, list[str]]], wanted: Sequence[str], faults: LineFaults
) -> Table:
    header = next(records, (1, []))[1]
    faults.check()  # a header that is not CSV
    require_columns(f"{path}, line 1", wanted, header, _MAP_HINT)
    twice = [name for name in wanted if header.count(name) > 1]
    if twice:
        raise DataError(f"{path}, line 1: more than one column is named {', '.join(map(repr, twice))}")
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


def _objects(path: Path, text: str, wanted: Sequence[str], faults: LineFaults) -> Table:
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
        require_columns(str(path), wanted, found, _MAP_HINT)
    complete = []
    for number, row in rows:
        absent = [name for name in wanted if name not in row]
        if absent:
            faults.add(number, f"has no field {', '.join(map(repr, absent))} (fields: {', '.join(row)})")
        else:
            complete.append((number, row))
    columns = {name: [row[name] for _, row in complete] for name in wanted}
    return Table(columns, [number for number, _ in complete], faults)
