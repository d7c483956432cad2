from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedrun.errors import DataError
from embedrun.store import kind
from embedrun.store.columns import LineFaults
from embedrun.store.read import Block, blocks


def joined(path: Path, wanted: list[str], **options) -> Block:
    """All blocks as one; raises for faults, too."""
    faults = LineFaults(path)
    every = list(blocks(path, wanted, faults, **options))
    faults.check()
    columns = {name: [value for block in every for value in block.columns[name]] for name in wanted}
    return Block(columns, [row for block in every for row in block.rows])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tsv", ".tsv"),
        ("A.CSV.GZ", ".csv"),
        ("a.b.jsonl.gz", ".jsonl"),
        ("a.parquet", ".parquet"),
        ("a.txt.gz", ".txt"),
        ("a.parquet.gz", None),
        ("a.gz", None),
        ("tsv", None),
        (".tsv", None),
    ],
)
def test_the_kind_is_told_by_the_name(name, expected):
    assert kind(Path(name)) == expected


def test_parquet_values_keep_their_types_and_rows_count_from_one(tmp_path):
    path = tmp_path / "label=1" / "a.parquet"  # a folder's name is no column
    path.parent.mkdir()
    table = pa.table(
        {
            "text": pa.array(["a", None]).dictionary_encode(),
            "label": pa.array([1, 2], pa.int8()),
            "score": pa.array([Decimal("1.50"), Decimal("2.25")]),
        }
    )
    pq.write_table(table, path)
    read = joined(path, ["score", "text", "label"])
    assert read.columns == {"score": [1.5, 2.25], "text": ["a", None], "label": [1, 2]}
    assert read.rows == [1, 2]


def test_a_parquet_file_without_the_column_names_all_it_has(tmp_path):
    pq.write_table(pa.table({"texts": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"no column 'text'; did you mean 'texts'\? \(columns: texts\), try"):
        joined(tmp_path / "a.parquet", ["text"], hint=", try")


def test_a_parquet_column_that_is_there_twice_is_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="more than one column is named 'text'"):
        joined(tmp_path / "a.parquet", ["text"])


def test_a_parquet_file_without_rows_is_refused(tmp_path):
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="has no rows"):
        joined(tmp_path / "a.parquet", ["text"])


def test_a_damaged_parquet_file_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", "b"] * 100}), path)
    whole = path.read_bytes()
    for damaged in (b"", b"text", whole[:-7]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.parquet: cannot be read: "):
            joined(path, ["text"])


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date64()])
def test_dates_that_python_cannot_hold_are_refused(tmp_path, kind):
    pq.write_table(
        pa.table({"text": pa.array([1 << 61], pa.int64()).cast(kind, safe=False)}), tmp_path / "a.parquet"
    )
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read: "):
        joined(tmp_path / "a.parquet", ["text"])


@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", "a,b\r\n1,2\r\r\n"), ("a.tsv", "a\tb\n1\t2\r\r\n\r\n")]
)
def test_line_ends_of_any_kind_at_the_end_of_a_file_are_no_record(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode())
    assert joined(tmp_path / name, ["a", "b"]) == Block({"a": ["1"], "b": ["2"]}, [2])
