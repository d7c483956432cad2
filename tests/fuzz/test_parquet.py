"""Parquet files with changed bytes, of other types, and that unpack to far more than they are."""

import datetime
from decimal import Decimal
from pathlib import Path
from random import Random

import fuzz
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from finished_runs import GOLD

from embedrun.curation.annotation.output import Annotated
from embedrun.curation.annotation.teachers import Block, Settings
from embedrun.dataset.pairs import Pairs
from embedrun.report import diff
from embedrun.store import Store

COMPRESSIONS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
WORDS = [f"a cat sat on mat {number % 7} of {number}" for number in range(300)]
OTHERS = (
    pa.array([[word] for word in WORDS]),
    pa.array([{"a": word, "b": [1, 2]} for word in WORDS]),
    pa.array([[("a", 1)] for _ in WORDS], pa.map_(pa.string(), pa.int64())),
    pa.array([word.encode() for word in WORDS]),
    pa.array([b"\xff" for _ in WORDS]),
    pa.array([None for _ in WORDS]),
    pa.array([datetime.datetime(1, 1, 1)] * 300, pa.timestamp("us")),
    pa.array([2**62] * 300, pa.timestamp("ns")),
    pa.array([2**62] * 300, pa.duration("s")),
    pa.array([-(2**31)] * 300, pa.date32()),
    pa.array([True] * 300),
    pa.array([Decimal("1.5")] * 300),
    pa.array([float("nan")] * 300),
    pa.array(np.full(300, 1.5, np.float16)),
    pa.array([2**63] * 300, pa.uint64()),
    pa.array(WORDS).dictionary_encode(),
    pa.array(WORDS, pa.large_string()),
)  # fmt: skip


def sound(random: Random, path: Path) -> None:
    rows = random.choice((1, 7, 100, 300))
    columns = {"text1": pa.array(WORDS), "text2": pa.array(WORDS[::-1]), "score": pa.array([1.5] * 300)}
    if random.random() < 0.3:
        columns[random.choice(list(columns))] = random.choice(OTHERS)
    if random.random() < 0.2:
        columns["more"] = random.choice(OTHERS)
    pq.write_table(
        pa.table(columns).slice(0, rows),
        path,
        compression=random.choice(COMPRESSIONS),
        use_dictionary=random.random() < 0.5,
        row_group_size=random.choice((10, 1000)),
        data_page_size=random.choice((64, 1 << 20)),
        data_page_version=random.choice(("1.0", "2.0")),
        write_page_checksum=random.random() < 0.2,
        write_page_index=random.random() < 0.2,
        write_statistics=random.random() < 0.5,
    )


def changed(random: Random, path: Path) -> None:
    """Change bytes anywhere, in the footer, or in the first bytes of a page."""
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    where = random.random()
    if where < 0.3:
        content = fuzz.data(random, content)
    elif where < 0.7:
        content = content[:footer] + fuzz.data(random, content[footer:])
        if random.random() < 0.7:  # with the length of the footer as it is now
            content = content[:-8] + max(0, len(content) - 8 - footer).to_bytes(4, "little") + b"PAR1"
    else:
        at = content.rfind(b"\x15", 4, random.randint(5, footer))  # begins the header of a page
        made = bytearray(content)
        for _ in range(random.randint(1, 3)):
            made[max(4, at) + random.randrange(40)] = random.choice(
                (0, 0x15, 0x7F, 0xFF, random.randrange(256))
            )
        content = bytes(made)
    path.write_bytes(content)


ROWS = {"name": "nli", "split": "train", "count": 300, "sha256": "0"}


@fuzz.sizes(few=150, many=12_000)
def test_parquet_files(count, fresh):
    def read(random: Random) -> None:
        folder = fresh()
        how = random.random()
        if how < 0.6:
            sound(random, path := folder / "a.parquet")
            changed(random, path)
            columns = random.choice((None, {"text1": "text1", "text2": "more", "score": "score"}))
            data = Pairs(path=str(path), columns=columns, on_bad_row=random.choice(("refuse", "skip")))
            rows = data.read("train", Store(folder))
            assert all(len(list(column)) == len(rows) for column in rows.texts.values())
        elif how < 0.8:
            parts = Annotated(folder, Settings(ROWS, 300, [{"name": "one"}]))
            label = pa.array([0] * 300).to_numpy()
            parts.write(Block(0, WORDS, WORDS, label), label.reshape(-1, 1) * 0.5)
            changed(random, parts.path(0))
            parts.check()
            parts.read(0)
        else:
            path = folder / "predictions" / "stsb_test.parquet"
            path.parent.mkdir()
            pq.write_table(pa.table({"gold": GOLD, "score": GOLD}), path)
            changed(random, path)
            found = diff.Predictions.read(path)
            assert found.interval is None or found.figure <= 100

    fuzz.in_children("Parquet files", count, read)
