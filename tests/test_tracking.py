import json
import math
from pathlib import Path

from embedrun.tracking import Tracker


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


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
        tracker = Tracker(tmp_path)
        tracker.metric(step=step, epoch=0, split="train", name="loss", value=1.0)
        tracker.close()
    assert [row["step"] for row in lines(tmp_path / "metrics.jsonl")] == [1, 2]
