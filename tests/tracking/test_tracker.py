import json
import math
from pathlib import Path

import pytest

from embedrun.errors import NO_CHECKPOINT, RunFailed
from embedrun.tracking import Tracker, cut


class Recorded:
    """A mirror that keeps its calls."""

    def __init__(self) -> None:
        self.calls: list = []

    def add(self, *, step: int, name: str, value: float) -> None:
        self.calls.append((step, name, value))

    def end(self, *, finished: bool) -> None:
        self.calls.append(("end", finished))

    def wait(self) -> None:
        self.calls.append("wait")


def write(folder: Path, *steps: int) -> int:
    with Tracker(folder) as tracker:
        for step in steps:
            tracker.metric(step=step, epoch=0, split="train", name="loss", value=1.0)
        return tracker.sync()


def test_a_metric_is_one_line_without_the_clock_and_null_where_it_is_not_finite(tmp_path):
    with Tracker(tmp_path) as tracker:
        tracker.metric(step=3, epoch=1 / 3, split="train", name="loss", value=0.5)
        for value in (math.nan, math.inf, -math.inf):
            tracker.metric(step=4, epoch=0, split="dev", name="x", value=value)
    first, *rest = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert first == '{"step": 3, "epoch": 0.333333, "split": "train", "name": "loss", "value": 0.5}'
    assert [json.loads(line)["value"] for line in rest] == [None, None, None]


def test_a_mirror_gets_every_metric_by_split_and_every_speed_that_is_known(tmp_path):
    mirror = Recorded()
    with Tracker(tmp_path, [mirror]) as tracker:  # type: ignore[list-item]
        tracker.metric(step=1, epoch=0.5, split="dev", name="stsb_dev/spearman", value=70.0)
        tracker.speed(step=2, time=1.0, rows_per_second=2.0, tokens_per_second=3.0, host_ms=4.0, memory=None)
    assert mirror.calls == [
        (1, "dev/stsb_dev/spearman", 70.0),
        (2, "speed/time", 1.0),
        (2, "speed/rows_per_second", 2.0),
        (2, "speed/tokens_per_second", 3.0),
        (2, "speed/host_ms", 4.0),
        ("end", True),
        "wait",
    ]


def test_a_file_cut_to_its_size_at_a_checkpoint_goes_on_as_if_nothing_had_followed(tmp_path):
    size = write(tmp_path, 1, 2)
    assert size == (tmp_path / "metrics.jsonl").stat().st_size
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    write(tmp_path, 3, 4)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "ep')  # torn by a kill
    cut(tmp_path, size)
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole


@pytest.mark.parametrize("left", [b'{"step": 1}\n', b'{"step": 1}\n{"step": 2} \n'])
def test_lines_that_are_lost_are_no_run_to_go_on_with(tmp_path, left):
    (tmp_path / "metrics.jsonl").write_bytes(left)
    with pytest.raises(RunFailed, match=r"metrics\.jsonl: is not the file .* end at byte 24, ") as fault:
        cut(tmp_path, 24)
    assert fault.value.exit_code == NO_CHECKPOINT
    assert (tmp_path / "metrics.jsonl").read_bytes() == left
