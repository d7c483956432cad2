import json
import math
from pathlib import Path

import pytest

from embedrun.errors import NO_CHECKPOINT, RunFailed
from embedrun.tracking import Tracker, cut


class Recorded:
    """A mirror that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list = []

    def add(self, *, step: int, name: str, value: float) -> None:
        self.told.append((step, name, value))

    def end(self, *, finished: bool) -> None:
        self.told.append(("end", finished))

    def wait(self) -> None:
        self.told.append("wait")


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(folder: Path, *steps: int) -> int:
    with Tracker(folder) as tracker:
        for step in steps:
            tracker.metric(step=step, epoch=0, split="train", name="loss", value=1.0)
        return tracker.sync()


def test_a_metric_is_one_line_without_the_clock(tmp_path):
    tracker = Tracker(tmp_path)
    tracker.metric(step=3, epoch=1 / 3, split="train", name="loss", value=0.5)
    tracker.close()
    assert (tmp_path / "metrics.jsonl").read_text() == (
        '{"step": 3, "epoch": 0.333333, "split": "train", "name": "loss", "value": 0.5}\n'
    )
    assert (tmp_path / "speed.jsonl").read_text() == ""


def test_an_undefined_or_infinite_value_is_null_because_json_has_neither(tmp_path):
    tracker = Tracker(tmp_path)
    for value in (math.nan, math.inf, -math.inf, 0.0):
        tracker.metric(step=1, epoch=0, split="dev", name="x", value=value)
    tracker.close()
    assert [row["value"] for row in lines(tmp_path / "metrics.jsonl")] == [None, None, None, 0.0]


def test_speed_stands_in_a_file_of_its_own(tmp_path):
    tracker = Tracker(tmp_path)
    tracker.speed(step=10, time=1.23456, rows_per_second=99.999, tokens_per_second=1234.56, memory=None)
    tracker.close()
    assert lines(tmp_path / "speed.jsonl") == [
        {"step": 10, "time": 1.235, "rows_per_second": 100.0, "tokens_per_second": 1234.6, "memory": None}
    ]
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_a_line_can_be_read_as_soon_as_it_is_written(tmp_path):
    tracker = Tracker(tmp_path)
    tracker.metric(step=1, epoch=0, split="train", name="loss", value=1.0)
    assert len(lines(tmp_path / "metrics.jsonl")) == 1
    tracker.close()


def test_lines_are_added_to_those_that_are_there(tmp_path):
    for step in (1, 2):
        write(tmp_path, step)
    assert [row["step"] for row in lines(tmp_path / "metrics.jsonl")] == [1, 2]


def test_a_mirror_gets_every_metric_by_split_and_every_speed_that_is_known(tmp_path):
    mirror = Recorded()
    with Tracker(tmp_path, [mirror]) as tracker:  # type: ignore[list-item]
        tracker.metric(step=1, epoch=0.5, split="dev", name="stsb_dev/spearman", value=70.0)
        tracker.speed(step=2, time=1.0, rows_per_second=2.0, tokens_per_second=3.0, memory=None)
    assert mirror.told == [
        (1, "dev/stsb_dev/spearman", 70.0),
        (2, "speed/time", 1.0),
        (2, "speed/rows_per_second", 2.0),
        (2, "speed/tokens_per_second", 3.0),
        ("end", True),
        "wait",
    ]


def test_all_mirrors_are_told_of_the_end_before_any_is_waited_for(tmp_path):
    first = Recorded()
    second = Recorded()
    second.told = first.told
    Tracker(tmp_path, [first, second]).close()  # type: ignore[list-item]
    assert first.told == [("end", True), ("end", True), "wait", "wait"]


def test_a_run_that_raises_has_not_finished(tmp_path):
    mirror = Recorded()
    with pytest.raises(KeyError), Tracker(tmp_path, [mirror]):  # type: ignore[list-item]
        raise KeyError("x")
    assert mirror.told == [("end", False), "wait"]


def test_a_file_cut_to_its_size_at_a_checkpoint_goes_on_as_if_nothing_had_followed(tmp_path):
    size = write(tmp_path, 1, 2)
    assert size == (tmp_path / "metrics.jsonl").stat().st_size
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    write(tmp_path, 3, 4)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "ep')  # torn by a kill
    cut(tmp_path, size)
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole


def test_cut_to_nothing_leaves_an_empty_file_or_none(tmp_path):
    cut(tmp_path, 0)
    assert list(tmp_path.iterdir()) == []
    write(tmp_path, 1)
    cut(tmp_path, 0)
    assert (tmp_path / "metrics.jsonl").read_bytes() == b""


@pytest.mark.parametrize("left", [b"", b'{"step": 1}\n', b'{"step": 1}\n{"step": 2} \n'])
def test_lines_that_are_lost_are_no_run_to_go_on_with(tmp_path, left):
    (tmp_path / "metrics.jsonl").write_bytes(left)
    with pytest.raises(RunFailed, match=r"metrics\.jsonl: is not the file .* end at byte 24, ") as fault:
        cut(tmp_path, 24)
    assert fault.value.exit_code == NO_CHECKPOINT
    assert (tmp_path / "metrics.jsonl").read_bytes() == left


def test_a_missing_file_is_no_run_to_go_on_with(tmp_path):
    with pytest.raises(RunFailed, match="the file has 0"):
        cut(tmp_path, 24)


def test_a_torn_line_of_speed_is_cut_so_that_the_next_one_can_be_read(tmp_path):
    (tmp_path / "speed.jsonl").write_text('{"step": 1}\n{"st')
    cut(tmp_path, 0)
    assert (tmp_path / "speed.jsonl").read_text() == '{"step": 1}\n'
