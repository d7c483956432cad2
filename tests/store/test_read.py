from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedrun.errors import DataError
from embedrun.store.columns import LineFaults
from embedrun.store.read import blocks


def joined(path: Path, wanted: list[str], **options) -> tuple[dict, list]:
    """All blocks as one; raises for faults, too."""
    faults = LineFaults(path)
    every = list(blocks(path, wanted, faults, **options))
    faults.check()
    columns = {name: [value for block, _ in every for value in block[name]] for name in wanted}
    return columns, [row for _, rows in every for row in rows]


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
    columns, rows = joined(path, ["score", "text", "label"])
    assert columns == {"score": [Decimal("1.50"), Decimal("2.25")], "text": ["a", None], "label": [1, 2]}
    assert rows == [1, 2]


def test_a_damaged_parquet_file_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", "b"] * 100}), path)
    whole = path.read_bytes()
    for damaged in (b"", b"text", whole[:-7]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.parquet: cannot be read: "):
            joined(path, ["text"])
