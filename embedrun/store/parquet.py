"""The columns of a Parquet file as Python values."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedrun.errors import DataError
from embedrun.store.text import require_columns, require_once

if TYPE_CHECKING:
    import pyarrow as pa


def read_parquet(path: Path, wanted: Sequence[str], way_on: str = "") -> dict[str, list[Any]]:
    """The wanted columns, each ``(rows,)``: text, whole numbers and numbers as such, a missing value as None.

    Args:
        path: of the file.
        wanted: top-level columns, one at the least.
        way_on: what to do about a missing column, at the end of the message.

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
