"""Scored pairs: their parts, and the data set that is made of them."""

import gzip
import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from embedrun.blocks import Shard
from embedrun.curation.annotation.output import (
    Annotated,
    annotate_blocks,
    finish,
    finished,
    merge,
    read_by_label,
)
from embedrun.curation.annotation.teachers import Settings
from embedrun.dataset.nli_scored import Merged, by_label
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


def parts_in(folder: Path, rows: Rows, **changes) -> Annotated:
    given = {"block_rows": BLOCK_ROWS, "teachers": TEACHERS, **changes}
    return Annotated(folder, Settings.of(rows, **given))


def work(folder: Path, *, shard: str = "0/1", dies_at: int | None = None) -> Stub:
    """What one process does."""
    rows, stub = rows_of(), Stub(dies_at)
    parts = parts_in(folder, rows)
    parts.check()
    for _ in annotate_blocks(rows, parts, parts.missing(Shard.parse(shard)), [stub, stub]):
        pass
    if not parts.missing():
        finish(parts, merge(parts))
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


def test_the_file_of_a_part_is_that_of_every_version(tmp_path):
    parts = Annotated(tmp_path, SETTINGS)
    list(annotate_blocks(ROWS, parts, [0], [encode]))
    table = pq.read_table(tmp_path / "parts/part-00000.parquet")
    assert [str(kind) for kind in table.schema.types] == ["string", "string", "int64", "double", "double"]
    assert table.schema.metadata == {
        b"embedrun.annotation": b'{"schema": 1, "rows": {"name": "nli", "split": "train", "count": 3, '
        b'"sha256": "%s"}, "block_rows": 2, "teachers": [{"name": "stub"}], "block": 0}'
        % ROWS.fingerprint().encode()
    }


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


VECTORS = {"x": [1, 0], "y": [0, 1], "d\u00e9": [3, 4]}
ROWS = Rows(
    name="nli",
    split="train",
    form="pair",
    texts={"left": ["x", "x", "d\u00e9"], "right": ["y", "d\u00e9", "d\u00e9"]},
    targets={"label": np.array([2, 1, 0])},
)
SETTINGS = Settings.of(ROWS, 2, [{"name": "stub"}])


def encode(texts: list[str]) -> np.ndarray:
    return np.array([VECTORS[text] for text in texts], np.float32)


@pytest.fixture
def parts(tmp_path: Path) -> Annotated:
    """Both blocks done."""
    parts = Annotated(tmp_path, SETTINGS)
    assert list(annotate_blocks(ROWS, parts, [0, 1], [encode])) == [2, 1]
    return parts


@pytest.fixture
def output(parts: Annotated, tmp_path: Path) -> Path:
    finish(parts, merge(parts))
    (tmp_path / "scores_by_label.png").write_bytes(b"drawn elsewhere")
    return tmp_path


def test_the_merged_file_holds_the_rows_in_order_with_scores_by_hand(output):
    lines = gzip.decompress((output / "nli_scored.jsonl.gz").read_bytes()).decode().splitlines()
    assert lines == [
        '{"text1": "x", "text2": "y", "label": 2, "score": 0.0, "score_1": 0.0}',
        '{"text1": "x", "text2": "d\u00e9", "label": 1, "score": 0.6, "score_1": 0.6}',
        '{"text1": "d\u00e9", "text2": "d\u00e9", "label": 0, "score": 1.0, "score_1": 1.0}',
    ]


def test_the_gzip_header_holds_no_time_and_no_name(output):
    header = (output / "nli_scored.jsonl.gz").read_bytes()[:10]
    assert header[3] == 0  # no flag: no name
    assert header[4:8] == b"\0\0\0\0"


def test_the_provenance_says_what_was_made_from_what(output):
    says = json.loads((output / "provenance.json").read_text(encoding="utf-8"))
    assert says["teachers"] == [{"name": "stub"}]
    assert says["rows"] == {"name": "nli", "split": "train", "count": 3, "sha256": ROWS.fingerprint()}
    assert says["labels"] == {"entailment": 1, "neutral": 1, "contradiction": 1}
    packed = (output / "nli_scored.jsonl.gz").read_bytes()
    assert says["file"] == {
        "path": "nli_scored.jsonl.gz",
        "rows": 3,
        "sha256": hashlib.sha256(packed).hexdigest(),
    }


def test_mean_and_deciles_by_label():
    label = np.array([0] * 11 + [2])
    merged = Merged(label, np.array([*range(11), 0.25]) / 10)
    assert by_label(merged.groups()) == {
        "entailment": {"pairs": 11, "mean": 0.5, "deciles": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]},
        "contradiction": {"pairs": 1, "mean": 0.025, "deciles": [0.025] * 9},
    }


def test_a_whole_annotation_is_known_without_its_parts(output):
    assert finished(output, SETTINGS)
    for path in (output / "parts").iterdir():
        path.unlink()
    assert finished(output, SETTINGS)


@pytest.mark.parametrize("file", ["nli_scored.jsonl.gz", "scores_by_label.json", "scores_by_label.png"])
def test_an_annotation_that_lacks_a_file_is_not_whole(output, file):
    (output / file).unlink()
    assert not finished(output, SETTINGS)


def test_an_annotation_with_a_changed_file_is_not_whole(output):
    path = output / "nli_scored.jsonl.gz"
    path.write_bytes(path.read_bytes() + b"\0")
    assert not finished(output, SETTINGS)


def test_an_empty_folder_holds_no_annotation(tmp_path):
    assert not finished(tmp_path, SETTINGS)
    assert not finished(tmp_path / "nowhere", SETTINGS)


def test_another_annotation_is_never_overwritten(output):
    other = Settings.of(ROWS, 2, [{"name": "stub", "prompt": "query: "}])
    with pytest.raises(
        ConfigError, match=r"holds an annotation made with other teachers \(name='stub'; this command"
    ):
        finished(output, other)


@pytest.mark.parametrize("text", ["{}", "[]", '{"schema": 2}'])
def test_a_provenance_of_another_kind_is_refused(output, text):
    (output / "provenance.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="made by another version of embedrun"):
        finished(output, SETTINGS)


@pytest.mark.parametrize("rows", ["nli", [1], 5])
def test_rows_of_another_form_are_other_rows(output, rows):
    says = {**SETTINGS.plain(), "rows": rows}
    (output / "provenance.json").write_text(json.dumps(says))
    with pytest.raises(ConfigError, match="holds an annotation made of other rows"):
        finished(output, SETTINGS)


def test_a_provenance_without_its_file_is_refused(output):
    (output / "provenance.json").write_text(json.dumps({**SETTINGS.plain(), "file": []}))
    with pytest.raises(DataError, match=r"not the provenance of an annotation .* name another output"):
        finished(output, SETTINGS)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_a_damaged_table_by_label_is_named(output, text):
    (output / "scores_by_label.json").write_text(text)
    with pytest.raises(DataError, match=r"scores_by_label.json: not a table by label"):
        read_by_label(output)


def test_a_provenance_that_is_not_json_is_refused(output):
    (output / "provenance.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"not the provenance of an annotation \(JSONDecodeError"):
        finished(output, SETTINGS)


def test_nothing_is_merged_while_a_part_is_missing(parts, tmp_path):
    parts.path(1).unlink()
    with pytest.raises(DataError, match=r"part-00001.parquet: cannot be read"):
        merge(parts)
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]
