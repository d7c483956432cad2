"""The reader of users' files that held every row in memory, and each value by a rule in Python, kept whole.

It stands on its own, so that no change of the package can change it: what a later reader gives for a file is
held against it (tests/dataset/test_any_file.py). It is slow, and right by definition.
"""

import csv
import difflib
import gzip
import hashlib
import io
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KINDS = (".tsv", ".csv", ".jsonl", ".parquet")  # with named columns
TEXT = ".txt"  # without: one text a line
_PACKED = (".tsv", ".csv", ".jsonl", TEXT)  # also with .gz
_BYTE_ORDER_MARK = "\ufeff"
_SHOWN = 20  # faulty lines spelled out before they are only counted
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_LONGEST = 40  # characters of a refused value that a message shows

# The texts of each form, by the view that each of them feeds.
VIEWS = {
    "pair": {"left": "text1", "right": "text2"},
    "triplet": {"left": "anchor", "right": "positive", "negative": "negative"},
    "text": {"text": "text"},
}
NAMES = {"pair": "pairs", "triplet": "triplets", "text": "texts"}
TYPES = {"score": np.float64, "label": np.int64}


@dataclass
class Outcome:
    """What came of reading a file.

    Args:
        texts: by view, in file order.
        targets: typed columns, each ``(rows,)``.
        skipped: file, line, column and reason of each row that was left out.
        problems: of the DataError; the others are then empty.
        fingerprint: of the rows, as runs have noted it.
    """

    texts: dict[str, list[str]] = field(default_factory=dict)
    targets: dict[str, np.ndarray] = field(default_factory=dict)
    skipped: list[tuple[str, int, str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    fingerprint: str = ""


class Refused(Exception):  # noqa: N818 - as the package's own
    """What the package raises as a DataError."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__(*self.problems)


def read(
    form: str, path: str, columns: Mapping[str, str] | None = None, on_bad_row: str = "refuse"
) -> Outcome:
    """The training rows of a file or a folder, as `Pairs`, `Triplets` or `Texts` read them.

    `form` is a key of `VIEWS`; `columns`, our name to the file's name, has been checked.
    """
    ours = {"pair": ["text1", "text2", "score"]}.get(form, list(VIEWS[form].values()))
    names = dict(columns) if columns is not None else {name: name for name in ours}
    kinds = (TEXT, *KINDS) if form == "text" else KINDS
    try:
        values, skipped = _Files(Path(path), names, kinds, on_bad_row).read()
    except Refused as fault:
        return Outcome(problems=fault.problems)
    texts = {view: values[name] for view, name in VIEWS[form].items()}
    targets = {name: np.array(values[name], dtype=TYPES[name]) for name in TYPES if name in values}
    return Outcome(texts, targets, skipped, [], _fingerprint(NAMES[form], form, texts, targets))


def _fingerprint(name: str, form: str, texts: dict[str, list[str]], targets: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(f"{name} train {form}".encode())
    for view, column in texts.items():
        digest.update(view.encode() + _framed(column))
    for target, values in targets.items():
        digest.update(target.encode() + np.ascontiguousarray(values).tobytes())
    digest.update(_framed([]))
    return digest.hexdigest()


def _framed(texts: list[str]) -> bytes:
    encoded = [text.encode() for text in texts]
    return b"".join(len(part).to_bytes(8, "little") + part for part in encoded)


# --- a split: one file, or the shards of a folder


@dataclass(frozen=True)
class _Files:
    path: Path
    columns: Mapping[str, str]
    kinds: Sequence[str]
    on_bad_row: str

    def problems(self) -> list[str]:
        name = repr(str(self.path))
        if self.path.is_dir():
            return self._folder_problems()
        if kind(self.path) not in self.kinds:
            hint = "" if self.path.exists() else _neighbour(self.path)
            return [
                f"dataset.path: {name} must end in {self._accepted()}, or be a folder of such files{hint}"
            ]
        if not self.path.is_file():
            where = self.path.absolute().parent
            return [f"dataset.path: no file {name}{_neighbour(self.path)} (looked in {where})"]
        return []

    def shards(self) -> list[Path]:
        if not self.path.is_dir():
            return [self.path]
        files = [
            path for path in self.path.iterdir() if path.is_file() and not path.name.startswith((".", "_"))
        ]
        return sorted((path for path in files if kind(path) in self.kinds), key=lambda path: path.name)

    def read(self) -> tuple[dict[str, list[Any]], list[tuple[str, int, str, str]]]:
        if problems := self.problems():
            raise Refused(problems)
        values: dict[str, list[Any]] = {name: [] for name in self.columns}
        unreadable: list[str] = []
        faults: list[LineFaults] = []
        for shard in self.shards():
            try:
                table, typed = self._typed(shard)
            except Refused as fault:
                unreadable += fault.problems
                continue
            faults.append(table.faults)
            for ours, theirs in self.columns.items():
                values[ours] += typed[theirs]
        ends = [found for found in faults if self.on_bad_row == "refuse" or found.cut_short]
        if messages := [*unreadable, *(text for found in ends for text in found.messages())]:
            raise Refused(shortened(self.path, messages))
        skipped = [row for found in faults for row in _skipped(found)]
        if not next(iter(values.values())):
            first = next(text for found in faults for text in found.messages())
            raise Refused(f"{self.path}: all {len(skipped)} rows are faulty; {first}")
        return values, skipped

    def _typed(self, shard: Path) -> tuple["Table", dict[str, list[Any]]]:
        way_on = (
            f"; dataset.columns={{{next(iter(self.columns))}: NAME, ...}} says what the columns are called"
        )
        table = read_table(shard, list(self.columns.values()), way_on)
        rules = {theirs: RULES[ours] for ours, theirs in self.columns.items()}
        typed = convert(table.columns, rules, table.lines, table.faults)
        bad = {fault.line for fault in table.faults.ordered()}
        kept = [row for row, line in enumerate(table.lines) if line not in bad]
        if len(kept) < len(table.lines) and self.on_bad_row == "skip":
            whole = {name: [column[row] for row in kept] for name, column in table.columns.items()}
            typed = convert(whole, rules, [table.lines[row] for row in kept], table.faults)
        return table, typed

    def _folder_problems(self) -> list[str]:
        shards = self.shards()
        name = repr(str(self.path))
        if not shards:
            return [f"dataset.path: the folder {name} holds no file that ends in {self._accepted()}"]
        kinds = sorted({str(kind(shard)) for shard in shards})
        if len(kinds) > 1:
            return [f"dataset.path: the folder {name} mixes {' and '.join(kinds)}; give files of one kind"]
        plain = [shard.name.lower().removesuffix(".gz") for shard in shards]
        twice = sorted({name for name in plain if plain.count(name) > 1})
        if twice:
            return [f"dataset.path: the folder {name} holds {', '.join(twice)} both packed and unpacked"]
        return []

    def _accepted(self) -> str:
        return f"{', '.join(self.kinds)}, those of text also with .gz"


def _skipped(faults: "LineFaults") -> list[tuple[str, int, str, str]]:
    rows = []
    for line, found in groupby(faults.ordered(), key=lambda fault: fault.line):
        first, *others = found
        rows.append((str(faults.path), line, first.column, "; ".join([first.reason, *map(str, others)])))
    return rows


def _nearest(word: str, choices: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f"; did you mean '{found[0]}'?" if found else ""


def _neighbour(path: Path) -> str:
    folder = path.parent
    return _nearest(path.name, [entry.name for entry in folder.iterdir()]) if folder.is_dir() else ""


# --- the faulty lines of a file


class Fault(NamedTuple):
    line: int
    column: str
    reason: str

    def __str__(self) -> str:
        return f"{self.column}: {self.reason}" if self.column else self.reason


class LineFaults:
    def __init__(self, path: Path, unit: str = "line") -> None:
        self.path = path
        self._unit = unit
        self._faults: list[Fault] = []
        self.cut_short = False

    def add(self, line: int, reason: str, column: str = "", *, ends: bool = False) -> None:
        self._faults.append(Fault(line, column, reason))
        self.cut_short = self.cut_short or ends

    def ordered(self) -> list[Fault]:
        return sorted(self._faults, key=lambda fault: (fault.line, str(fault)))

    def messages(self) -> list[str]:
        return [f"{self.path}, {self._unit} {fault.line}: {fault}" for fault in self.ordered()]

    def check(self) -> None:
        if self._faults:
            raise Refused(shortened(self.path, self.messages()))


def shortened(where: Path, messages: Sequence[str]) -> list[str]:
    rest = len(messages) - _SHOWN
    more = [f"{where}: and {rest} more faults like these"] if rest > 0 else []
    return [*messages[:_SHOWN], *more]


# --- the records of a file


@dataclass(frozen=True)
class Table:
    columns: dict[str, list[Any]]  # each (rows,), raw
    lines: list[int]  # (rows,); of a Parquet file rows
    faults: LineFaults


def kind(path: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] == ".gz"
    if packed:
        suffixes.pop()
    accepted = _PACKED if packed else (*KINDS, TEXT)
    return suffixes[-1] if suffixes and suffixes[-1] in accepted else None


def read_table(path: Path, wanted: Sequence[str], way_on: str) -> Table:
    if kind(path) == ".parquet":
        columns = _parquet(path, wanted, way_on)
        rows = len(next(iter(columns.values())))
        return Table(columns, list(range(1, rows + 1)), LineFaults(path, "row"))
    text = _text(path).removeprefix(_BYTE_ORDER_MARK).rstrip("\r\n")
    if not text.strip():
        raise Refused(f"{path}: the file is empty")
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
        raise Refused(f"{path}: has a header and no rows")
    return table


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        raw = gzip.decompress(content) if path.suffix.lower() == ".gz" else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        raise Refused(f"{path}: damaged or not a gzip file ({fault}); fetch or pack it again") from fault
    except OSError as fault:
        raise Refused(f"{path}: cannot be read: {fault.strerror}") from fault
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        byte = f"0x{raw[fault.start]:02x}"
        raise Refused(f"{path}, line {line}: byte {byte} is not UTF-8; save the file as UTF-8") from fault


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
    faults.check()
    _require_columns(f"{path}, line 1", wanted, header, way_on)
    _require_once(f"{path}, line 1", wanted, header)
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
            rows.append((number, _object(line)))
        except ValueError as fault:
            faults.add(number, str(fault))
    if rows:
        found = list(dict.fromkeys(name for _, row in rows for name in row))
        _require_columns(str(path), wanted, found, way_on)
    complete = []
    for number, row in rows:
        absent = [name for name in wanted if name not in row]
        if absent:
            faults.add(number, f"has no field {', '.join(map(repr, absent))} (fields: {', '.join(row)})")
        else:
            complete.append((number, row))
    columns = {name: [row[name] for _, row in complete] for name in wanted}
    return Table(columns, [number for number, _ in complete], faults)


def _object(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"not JSON ({fault})") from fault
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object, got {type(row).__name__}")
    return row


def _require_columns(where: str, wanted: Sequence[str], found: Sequence[str], way_on: str) -> None:
    problems = [
        f"{where}: no column {name!r}{_nearest(name, found)} (columns: {', '.join(found)}){way_on}"
        for name in wanted
        if name not in found
    ]
    if problems:
        raise Refused(problems)


def _require_once(where: str, wanted: Sequence[str], found: Sequence[str]) -> None:
    twice = [name for name in wanted if found.count(name) > 1]
    if twice:
        raise Refused(f"{where}: more than one column is named {', '.join(map(repr, twice))}")


def _parquet(path: Path, wanted: Sequence[str], way_on: str) -> dict[str, list[Any]]:
    try:
        with pq.ParquetFile(path) as file:
            found = file.schema_arrow.names
            _require_columns(str(path), wanted, found, way_on)
            _require_once(str(path), wanted, found)
            table = file.read(columns=list(wanted))
    except OSError as fault:
        if fault.errno is None:
            raise _damaged(path, fault) from fault
        raise Refused(f"{path}: cannot be read: {os.strerror(fault.errno)}") from fault
    except pa.ArrowException as fault:
        raise _damaged(path, fault) from fault
    if not table.num_rows:
        raise Refused(f"{path}: has columns and no rows")
    return {name: _values(path, name, table.column(name)) for name in wanted}


def _values(path: Path, name: str, column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    try:
        return column.to_pylist()
    except UnicodeDecodeError as fault:
        raise Refused(f"{path}, column {name!r}: holds text that is not UTF-8 ({fault.reason})") from fault


def _damaged(path: Path, fault: Exception) -> Refused:
    first = (str(fault).strip() or type(fault).__name__).splitlines()[0]
    return Refused(f"{path}: damaged or not a Parquet file ({first}); write or fetch it again")


# --- what a value may be


def sentence(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {_shown(value)}")
    if not value.strip():
        raise ValueError("the text is empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as fault:
        raise ValueError(f"half a surrogate pair at character {fault.start}, which is not text") from fault
    return value


def score(value: object) -> float:
    number = _number(value)
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {_shown(value)}")
    return number


def _number(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text) or text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
            return float(text)
    raise ValueError(f"expected a number, got {_shown(value)}")


def label(value: object) -> int:
    if isinstance(value, str) and value.strip() in ("0", "1", "2"):
        return int(value)
    if type(value) is int and value in (0, 1, 2):
        return value
    raise ValueError(f"expected 0 (entailment), 1 (neutral) or 2 (contradiction), got {_shown(value)}")


RULES: dict[str, Callable[[object], Any]] = {
    **dict.fromkeys((name for views in VIEWS.values() for name in views.values()), sentence),
    "score": score,
    "label": label,
}


def convert(
    columns: Mapping[str, Sequence[object]],
    rules: Mapping[str, Callable[[object], Any]],
    lines: Sequence[int],
    faults: LineFaults,
) -> dict[str, list[Any]]:
    typed: dict[str, list[Any]] = {name: [] for name in rules}
    for name, rule in rules.items():
        for line, value in zip(lines, columns[name], strict=True):
            try:
                typed[name].append(rule(value))
            except ValueError as fault:
                faults.add(line, str(fault), name)
    return typed


def _shown(value: object) -> str:
    try:
        text = "null" if value is None else repr(value)
    except ValueError:
        return "a huge number"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
