"""The vectors of `embedrun encode`: written block by block, and there whole or not at all."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from embedrun.errors import ConfigError
from embedrun.files import published

KINDS = (".npy", ".parquet")


class Writer(Protocol):
    """Takes blocks of texts and their vectors."""

    def add(self, texts: Sequence[str], vectors: np.ndarray) -> None:
        """Write the next block; vectors float32, ``(texts, dim)``."""
        ...


def check(path: Path, *, force: bool) -> None:
    """Refuse a place that cannot be written to.

    Raises:
        ConfigError: for a name of no kind that is written, or a file that is there and may not be replaced.
    """
    if path.suffix.lower() not in KINDS:
        raise ConfigError(f"-o: {str(path)!r} must end in {' or '.join(KINDS)}")
    if path.is_dir():
        raise ConfigError(f"-o: {str(path)!r} is a folder; name a file in it")
    if path.exists() and not force:
        raise ConfigError(f"-o: {str(path)!r} exists; name another, or replace it with --force")


@contextlib.contextmanager
def writing(path: Path, dim: int, *, with_text: bool) -> Iterator[Writer]:
    """A writer for a file that takes its name when the block ends; a failure leaves nothing.

    Args:
        path: ends in one of `KINDS`.
        dim: of a vector.
        with_text: whether a Parquet file has the texts beside their vectors.
    """
    with published(path) as aside:
        kind = _Npy if path.suffix.lower() == ".npy" else _Parquet
        writer = kind(aside, dim, with_text=with_text)
        try:
            yield writer
        finally:
            writer.close()


class _Npy:
    """One float32 array, ``(texts, dim)``; its header, as long for any number of texts, is written last."""

    def __init__(self, path: Path, dim: int, *, with_text: bool) -> None:
        self._file = path.open("wb")
        self._dim, self._count = dim, 0
        self._header()
        self._begin = self._file.tell()

    def _header(self) -> None:
        shape = (self._count, self._dim)
        header = {
            "descr": np.lib.format.dtype_to_descr(np.dtype("<f4")),
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_1_0(self._file, header)

    def add(self, texts: Sequence[str], vectors: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(vectors, dtype="<f4").data)
        self._count += len(vectors)

    def close(self) -> None:
        try:
            self._file.seek(0)
            self._header()
            assert self._file.tell() == self._begin, "numpy leaves room for the number of rows"
        finally:
            self._file.close()


class _Parquet:
    """Columns `vector`, a list of `dim` float32, and `text` before it."""

    def __init__(self, path: Path, dim: int, *, with_text: bool) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._dim, self._with_text = dim, with_text
        fields = [("text", pa.string())] if with_text else []
        self._schema = pa.schema([*fields, ("vector", pa.list_(pa.float32(), dim))])
        self._writer = pq.ParquetWriter(path, self._schema)

    def add(self, texts: Sequence[str], vectors: np.ndarray) -> None:
        import pyarrow as pa

        flat = pa.array(vectors.reshape(-1), type=pa.float32())
        columns: list[pa.Array] = [pa.array(texts, type=pa.string())] if self._with_text else []
        columns.append(pa.FixedSizeListArray.from_arrays(flat, self._dim))
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()
