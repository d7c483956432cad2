"""Parquet that would fill the memory is refused before it is; what repeats itself as data does is read."""

import os
import random
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedrun.errors import DataError
from embedrun.store import pages
from embedrun.store.columns import LineFaults
from embedrun.store.read import blocks

MIB = 1 << 20
LOW = {"compression": "zstd", "use_dictionary": False}


def rows(path: Path) -> int:
    return sum(len(block.lines) for block in blocks(path, ["text"], LineFaults(path, "row")))


def repeated(path: Path, text: str, count: int, **options: object) -> Path:
    """A text that stands once in the dictionary, and so many times in the rows."""
    column = pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [text])
    pq.write_table(
        pa.table({"text": column}), path, compression="zstd", store_schema=False,
        dictionary_pagesize_limit=1 << 30, **options,
    )  # fmt: skip
    return path


def refused(path: Path, times: str) -> bool:
    """Whether the refusal came before Arrow had more memory than two of the largest batches."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(DataError, match=f"unpacks to over {times} times its size"):
            rows(path)
        return pool.max_memory() < 768 * MIB
    finally:
        pa.set_memory_pool(before)


def test_a_page_that_unpacks_to_far_more_than_the_file_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * 66 * MIB]}), path, **LOW)
    assert path.stat().st_size < 20_000
    assert refused(path, "200")


def test_what_a_page_says_counts_and_not_what_the_footer_says(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * 66 * MIB]}), path, write_statistics=False, **LOW)
    content, told = path.read_bytes(), pq.ParquetFile(path).metadata.row_group(0).total_byte_size
    size = bytes((told << 1 >> 7 * place & 127) | (128 if place < 3 else 0) for place in range(4))
    assert content.count(size) == 2  # of the column, and of the group of rows
    path.write_bytes(content.replace(size, b"\x82\x80\x80\x00"))  # 1
    assert refused(path, "200")


def test_a_dictionary_of_long_texts_is_refused(tmp_path):
    assert refused(repeated(tmp_path / "a.parquet", "x" * 8 * MIB, 8192), "200")


def test_a_long_text_in_many_rows_is_refused_before_they_are_read(tmp_path):
    assert refused(repeated(tmp_path / "a.parquet", "x" * 2 * MIB, 8192), "1,000")


def test_equal_values_without_end_are_refused_at_once(tmp_path):
    assert refused(repeated(tmp_path / "a.parquet", "x", 40_000_000), "1,000")


def test_a_document_beside_each_of_its_ten_thousand_queries_is_read(tmp_path):
    words = random.Random(1).choices(
        ["a", "cat", "sat", "on", "the", "mat", "while", "rain", "fell"], k=2_000
    )
    assert rows(repeated(tmp_path / "a.parquet", " ".join(words), 10_000)) == 10_000


def test_every_column_is_found_in_nested_and_several_groups(tmp_path):
    path = tmp_path / "a.parquet"
    made = pa.table(
        {"text": [f"text {row}" for row in range(50)], "more": [{"a": [row]} for row in range(50)]}
    )
    pq.write_table(made, path, row_group_size=20, data_page_size=10, write_batch_size=5)
    with path.open("rb") as stream:
        chunks = list(pages._columns(stream, {b"text", b"more"}))
        assert [chunk.values for chunk in chunks] == [20, 20, 20, 20, 10, 10]
        assert all(sum(page.unpacked for page in pages._pages(stream, chunk)) > 0 for chunk in chunks)
    assert pages.table(path).equals(made)


def test_a_pipe_is_no_file_of_predictions(tmp_path):

    os.mkfifo(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="a pipe or device"):
        pages.table(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        (b"\x18\xff\xff\xff\xff\x7f", "a text of 34,359,738,367 bytes"),  # field 1, of type 8
        (b"\x1c" * 20, "nests too deeply"),  # each a structure in field 1
        (b"\x15" + b"\xff" * 10, "an endless number"),
        (b"\x15", "ends too early"),
        (b"\x1b\x00", "unknown type, 11"),
    ],
)
def test_metadata_that_cannot_be_is_refused(metadata, says):
    with pytest.raises(ValueError, match=says):
        pages._struct(BytesIO(metadata), 0)


def test_numbers_are_read_as_thrift_writes_them():
    # Field 1 is -1, field 3 is 150, field 4 the list 1, 2; field 20, whose number is written out, is true.
    assert pages._struct(BytesIO(b"\x15\x01\x25\xac\x02\x19\x25\x02\x04\x01\x28\x00"), 0) == {
        1: -1, 3: 150, 4: [1, 2], 20: True,
    }  # fmt: skip
