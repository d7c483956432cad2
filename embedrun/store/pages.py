"""Parquet, read so that a small file cannot fill the memory: what its pages unpack to is known beforehand."""

import os
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from embedrun.files import TIMES, most_unpacked, regular

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_OF_BATCH = 256 << 20  # bytes that a column of it may have
_READ = 256 << 20  # bytes that may be read of any file
_READ_TIMES = 1000  # beyond, so many times its own: rows repeat texts that it has once
_DICTIONARY = 4 << 20  # bytes of a dictionary, which writers end at 1 MiB; beyond, it must be worth them
_VALUE = 8  # bytes that a value has at the least, once it is read


def batches(
    path: Path, file: "pq.ParquetFile", names: Sequence[str], at_once: int
) -> Iterator["pa.RecordBatch"]:
    """The rows of some columns, in batches of `at_once` or, where they may be large, fewer.

    A dictionary repeats a long text in a few bits, and a run of equal values takes a few bytes however long
    it is: what has been read is held against the size of the file, too.

    Raises:
        ValueError: if the columns unpack to far more than any data does; or Arrow's own.
    """
    most = max(_READ, _READ_TIMES * path.stat().st_size)
    longest = _longest(path, names)
    if file.metadata.num_rows * len(names) * _VALUE > most:
        raise ValueError(_too_much(_READ_TIMES))
    for batch in file.iter_batches(max(1, min(at_once, _OF_BATCH // longest)), columns=list(names)):
        most -= batch.nbytes
        if most < 0:
            raise ValueError(_too_much(_READ_TIMES))
        yield batch


def table(path: Path, **options: Any) -> "pa.Table":
    """The whole of a file; `options` are those of `ParquetFile`.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is damaged, no regular file, or unpacks to far more than any data does.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Arrow itself opens no name that is not UTF-8.
    with regular(path) as raw, pq.ParquetFile(raw, **options) as file:
        schema = file.schema_arrow
        return pa.Table.from_batches(batches(path, file, schema.names, 1 << 20), schema)


def _too_much(times: int) -> str:
    return f"it unpacks to over {times:,} times its size, which no data does"


def _longest(path: Path, names: Sequence[str]) -> int:
    """Bytes of the largest dictionary, no value of which is longer; all pages together are not too much.

    Each page says itself what it unpacks to, and Arrow believes it, whatever the footer says. The footer is
    not asked of Arrow, which aborts the process where one has a column without metadata.
    """
    left, longest = most_unpacked(path), 1
    with path.open("rb") as stream:
        for column in _columns(stream, {name.encode() for name in names}):
            for page in _pages(stream, column):
                left -= page.unpacked
                often = page.is_dictionary and page.unpacked > max(_DICTIONARY, TIMES * page.packed)
                if left < 0 or often:
                    raise ValueError(_too_much(TIMES))
                if page.is_dictionary:
                    longest = max(longest, page.unpacked)
    return longest


class _Column(NamedTuple):
    """One chunk of a column: where its pages begin and end, and how many values they have."""

    begin: int
    end: int
    values: int


_TAIL = 8  # bytes behind the footer: its length, and the mark of such a file


def _columns(stream: BinaryIO, names: set[bytes]) -> Iterator[_Column]:
    """The chunks of some columns.

    Source: https://github.com/apache/parquet-format, FileMetaData of parquet.thrift.
    """
    size = stream.seek(-_TAIL, os.SEEK_END)
    length = int.from_bytes(stream.read(4), "little")
    stream.seek(max(0, size - length))
    footer = _struct(BytesIO(stream.read(length)), 0)
    try:
        every = [chunk[3] for group in footer[4] for chunk in group[1]]
        for column in every:
            if column[3][0] in names:
                pages, dictionary = column[9], column.get(11, 0)
                begin = dictionary if 0 < dictionary < pages else pages
                yield _Column(int(begin), int(begin + column[7]), int(column[5]))
    except (LookupError, TypeError) as fault:
        raise ValueError("a column has no place in the file") from fault


class _Page(NamedTuple):
    """The bytes of a page, packed and unpacked."""

    packed: int
    unpacked: int
    is_dictionary: bool


def _pages(stream: BinaryIO, column: _Column) -> Iterator[_Page]:
    """The pages of a chunk, as the header of each describes it (PageHeader)."""
    begin, values = column.begin, 0
    end = min(column.end, stream.seek(0, os.SEEK_END))
    while begin < end and values < column.values:
        stream.seek(begin)
        header = _struct(stream, 0)
        packed, unpacked, of_data = header.get(3), header.get(2), header.get(5, header.get(8, {}))
        if not (isinstance(unpacked, int) and isinstance(packed, int) and min(unpacked, packed) >= 0):
            raise ValueError(f"the page at byte {begin} has no size")
        count = of_data.get(1, 0) if isinstance(of_data, dict) else 0
        values += count if isinstance(count, int) else 0
        yield _Page(packed, unpacked, 7 in header)
        begin = stream.tell() + packed


_LONGEST = 16 << 20  # bytes of a text, and Arrow's limit of the header of a page
_DEEPEST = 16  # structures and lists inside each other


def _struct(stream: BinaryIO, depth: int) -> dict[int, Any]:
    """A structure of Thrift's compact protocol, by number of the field.

    Source: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
    """
    if depth > _DEEPEST:
        raise ValueError("its metadata nests too deeply")
    found: dict[int, Any] = {}
    number = 0
    while head := _byte(stream):
        number = number + (head >> 4) if head >> 4 else _whole(stream)
        found[number] = head & 15 == 1 if head & 15 in (1, 2) else _value(stream, head & 15, depth)
    return found


def _value(stream: BinaryIO, kind: int, depth: int) -> Any:
    if kind in (1, 2, 3):  # in a list a truth value takes a byte
        return _byte(stream)
    if kind in (4, 5, 6):
        return _whole(stream)
    if kind in (7, 8):
        length = 8 if kind == 7 else _number(stream)
        if length > _LONGEST:
            raise ValueError(f"its metadata has a text of {length:,} bytes")
        return stream.read(length)
    if kind in (9, 10):
        head = _byte(stream)
        count = head >> 4 if head >> 4 < 15 else _number(stream)
        return [_value(stream, head & 15, depth + 1) for _ in range(count)]
    if kind == 12:
        return _struct(stream, depth + 1)
    raise ValueError(f"its metadata has a value of an unknown type, {kind}")  # it has no maps


def _byte(stream: BinaryIO) -> int:
    if not (one := stream.read(1)):
        raise ValueError("its metadata ends too early")
    return one[0]


def _number(stream: BinaryIO) -> int:
    """A variable-length number of at most 64 bits."""
    found = 0
    for place in range(10):
        one = _byte(stream)
        found |= (one & 127) << 7 * place
        if one < 128:
            return found
    raise ValueError("its metadata has an endless number")


def _whole(stream: BinaryIO) -> int:
    found = _number(stream)
    return found >> 1 ^ -(found & 1)
