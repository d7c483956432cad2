import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from embedrun.blocks import Shard
from embedrun.curation.annotation.output import Parts, annotate_blocks, finish, merge, pending
from embedrun.curation.annotation.teachers import Settings
from embedrun.errors import ConfigError, DataError
from embedrun.rows import Rows

TEACHERS = [{"name": "one", "sha256": "a" * 64}, {"name": "two", "sha256": "b" * 64}]
BLOCK_ROWS = 3


def rows_of(count: int = 20) -> Rows:
    return Rows(
        name="nli",
        split="train",
        form="pair",
        texts={
            "left": [f"a man {row // 3}" for row in range(count)],
            "right": [f"he {row % 5}" for row in range(count)],
        },
        targets={"label": np.arange(count) % 3, "score": np.zeros(count)},
    )


class Killed(BaseException):
    """What a process that is killed does not get to see."""


class Stub:
    """Encodes a text as its length, its last digit and 1; dies at a chosen call."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.calls = 0
        self._dies_at = dies_at

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.calls += 1
        if self.calls == self._dies_at:
            raise Killed
        return np.array([[len(text), int(text[-1]), 1] for text in texts], np.float32)


def parts_in(folder: Path, rows: Rows, **changes) -> Parts:
    given = {"block_rows": BLOCK_ROWS, "teachers": TEACHERS, **changes}
    return Parts(folder / "parts", Settings.of(rows, **given))


def work(folder: Path, *, shard: str = "0/1", dies_at: int | None = None) -> Stub:
    """What one process does."""
    rows, stub = rows_of(), Stub(dies_at)
    parts = parts_in(folder, rows)
    parts.check()
    for _ in annotate_blocks(rows, parts, pending(parts, Shard.parse(shard)), [stub, stub]):
        pass
    if not parts.missing(range(parts.count)):
        finish(folder, parts.settings, merge(parts, folder))
    return stub


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, bytes]:
    """The output of an uninterrupted process."""
    stub = work(tmp_path / "whole")
    assert stub.calls == 14  # 7 blocks, two teachers
    return content(tmp_path / "whole")


@pytest.mark.parametrize("dies_at", [1, 2, 7, 14])
def test_a_killed_process_goes_on_to_the_same_bytes(tmp_path, whole, dies_at):
    with pytest.raises(Killed):
        work(tmp_path / "killed", dies_at=dies_at)
    assert "nli_scored.jsonl.gz" not in content(tmp_path / "killed")
    again = work(tmp_path / "killed")
    assert again.calls == 14 - (dies_at - 1) // 2 * 2  # whole blocks are not done again
    assert content(tmp_path / "killed") == whole


def test_a_kill_while_a_part_is_written_leaves_no_part_and_in_the_end_no_remains(
    tmp_path, whole, monkeypatch
):
    def half(table, where, **options) -> None:
        Path(where).write_bytes(b"PAR1")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", half)
        patch.setattr(Path, "unlink", lambda *_, **__: None)  # a killed process does not tidy up
        with pytest.raises(Killed):
            work(tmp_path / "killed")
    (remains,) = content(tmp_path / "killed")
    assert remains.startswith("parts/.tmp-")
    work(tmp_path / "killed")
    assert content(tmp_path / "killed") == whole


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_four_shards_give_the_bytes_of_one(tmp_path, whole, order):
    for index in order:
        assert "nli_scored.jsonl.gz" not in content(tmp_path / "shards")
        work(tmp_path / "shards", shard=f"{index}/4")
    assert content(tmp_path / "shards") == whole


def test_the_number_of_shards_may_change_between_processes(tmp_path, whole):
    work(tmp_path / "shards", shard="1/2")
    work(tmp_path / "shards", shard="0/3")
    work(tmp_path / "shards")
    assert content(tmp_path / "shards") == whole


def test_a_second_run_encodes_nothing(tmp_path, whole):
    assert work(tmp_path / "whole").calls == 0
    assert content(tmp_path / "whole") == whole


def test_a_part_holds_its_rows_and_a_column_for_each_teacher(tmp_path):
    work(tmp_path)
    table = pq.read_table(tmp_path / "parts" / "part-00006.parquet").to_pydict()
    assert list(table) == ["text1", "text2", "label", "score", "score_1", "score_2"]
    assert table["text1"] == ["a man 6", "a man 6"]  # rows 18 and 19 of 20
    assert table["text2"] == ["he 3", "he 4"]
    assert table["label"] == [0, 1]
    # (7, 6, 1) against (4, 3, 1) and (4, 4, 1), to 7 decimals
    by_hand = [round(47 / math.sqrt(86 * 26), 7), round(53 / math.sqrt(86 * 33), 7)]
    assert table["score"] == table["score_1"] == table["score_2"] == by_hand


def test_a_score_of_the_rows_plays_no_part():
    rows = rows_of()
    rows.targets["score"][:] = 5
    assert Settings.of(rows, 3, TEACHERS) == Settings.of(rows_of(), 3, TEACHERS)
    rows.targets["label"][0] = 2
    assert Settings.of(rows, 3, TEACHERS) != Settings.of(rows_of(), 3, TEACHERS)


@pytest.mark.parametrize(
    ("rows", "changes", "words"),
    [
        (
            rows_of(),
            {"teachers": TEACHERS[:1]},
            "with other teachers (name='one' sha256='aaaaaaaaaaaa' and name='two'",
        ),
        (rows_of(), {"teachers": TEACHERS[::-1]}, "with other teachers"),
        (rows_of(), {"block_rows": 4}, "with block_rows=3 (this command: 4)"),
        (rows_of(19), {}, "of other rows (name='nli' split='train' count=20"),
    ],
)
def test_parts_of_another_annotation_are_refused_together(tmp_path, rows, changes, words):
    work(tmp_path)
    with pytest.raises(ConfigError) as caught:
        parts_in(tmp_path, rows, **changes).check()
    (problem,) = caught.value.problems
    assert f"holds parts made {words}" in problem
    assert "part-00000.parquet and 6 more; name another output" in problem


def test_a_part_that_is_no_parquet_is_refused_with_what_to_do(tmp_path):
    work(tmp_path)
    (tmp_path / "parts" / "part-00002.parquet").write_bytes(b"PAR1")
    (tmp_path / "parts" / "part-00004.parquet").write_bytes(b"")
    with pytest.raises(DataError) as caught:
        work(tmp_path)
    first, second = caught.value.problems
    assert "part-00002.parquet: cannot be read as Parquet" in first
    assert "part-00004.parquet" in second
    assert second.endswith("remove it, and the same command makes it again")


def test_a_flipped_byte_in_a_part_is_found(tmp_path):
    work(tmp_path)
    path = tmp_path / "parts" / "part-00000.parquet"
    data = bytearray(path.read_bytes())
    data[data.index(b"a man 0") + 6] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"part-00000.parquet: cannot be read as Parquet .*; remove it"):
        parts_in(tmp_path, rows_of()).read(0)


def test_a_part_under_the_name_of_another_block_is_refused(tmp_path):
    work(tmp_path)
    folder = tmp_path / "parts"
    (folder / "part-00003.parquet").replace(folder / "part-00002.parquet")
    with pytest.raises(DataError, match=r"part-00002.parquet: is not block 2 of 3 rows"):
        parts_in(tmp_path, rows_of()).read(2)
