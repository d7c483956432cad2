import json
from pathlib import Path

import numpy as np
import pytest
import torch

from embedrun.batch import Batch, Tokens, View
from embedrun.tracking import Tracker
from embedrun.training import loop as module
from embedrun.training.loop import Meter


def batch(*lengths: int) -> Batch:
    tokens = Tokens(torch.zeros(sum(lengths), dtype=torch.int64), torch.tensor(lengths))
    view = View(tokens, torch.zeros(len(lengths), dtype=torch.int64))
    return Batch({"left": view, "right": view}, {}, np.arange(len(lengths)))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def speeds(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "speed.jsonl").read_text().splitlines()]


def test_the_first_and_the_last_step_are_logged_and_every_tenth_between():
    meter = Meter(None, 10)  # type: ignore[arg-type]
    assert [step for step in range(1, 26) if meter.due(step, 25)] == [1, 10, 20, 25]


def test_speed_counts_rows_and_tokens_of_all_views_since_the_last_line(tmp_path, clock):
    meter = Meter(Tracker(tmp_path), 10)
    meter.count(batch(3, 4))
    meter.count(batch(5))
    clock[0] += 2
    meter.write(1, 0.1, {"loss": torch.tensor(0.5)}, None)
    meter.count(batch(6))
    clock[0] += 1
    meter.write(2, 0.2, {"loss": 0.25}, 1024)
    first, second = speeds(tmp_path)
    assert first == {"step": 1, "time": 2, "rows_per_second": 1.5, "tokens_per_second": 12, "memory": None}
    assert second == {"step": 2, "time": 3, "rows_per_second": 1, "tokens_per_second": 12, "memory": 1024}


def test_a_pause_is_left_out_of_the_speed_but_not_out_of_the_time(tmp_path, clock):
    meter = Meter(Tracker(tmp_path), 10)
    meter.count(batch(1, 1, 1, 1))
    clock[0] += 1
    with meter.paused():
        clock[0] += 50
    clock[0] += 1
    meter.write(1, 0.1, {}, None)
    (line,) = speeds(tmp_path)
    assert (line["rows_per_second"], line["time"]) == (2, 52)


def test_the_values_of_the_step_are_written_as_numbers(tmp_path, clock):
    meter = Meter(Tracker(tmp_path), 10)
    meter.write(3, 0.5, {"loss": torch.tensor(0.5), "lr": 1e-3}, None)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["name"], line["value"], line["split"]) for line in lines] == [
        ("loss", 0.5, "train"),
        ("lr", 1e-3, "train"),
    ]
