import math
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from embedrun.tracking import trackers
from embedrun.tracking.trackers import TensorboardFiles


def write(folder: Path, steps: range, *, step: int = 0) -> None:
    files = TensorboardFiles({"folder": str(folder), "step": step})
    for one in steps:
        files.add(one, "train/loss", 1 / (one + 1))
    files.close(finished=True)


def scalars(folder: Path) -> list[tuple[int, float]]:
    read = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    read.Reload()
    return [(event.step, event.value) for event in read.Scalars("train/loss")]


@pytest.fixture(autouse=True)
def _ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files have their second in their name, and are read in that order; in a test all have the same one."""
    from tensorboard.summary.writer import event_file_writer

    second = iter(range(1_000_000_000, 1_000_001_000))
    monkeypatch.setattr(event_file_writer.time, "time", lambda: next(second))


def test_values_stand_at_their_steps(tmp_path):
    write(tmp_path, range(4))
    assert scalars(tmp_path) == [(step, pytest.approx(1 / (step + 1))) for step in range(4)]


def test_an_undefined_value_is_one(tmp_path):
    files = TensorboardFiles({"folder": str(tmp_path), "step": 0})
    files.add(1, "train/loss", math.nan)
    files.close(finished=False)
    ((step, value),) = scalars(tmp_path)
    assert step == 1
    assert math.isnan(value)


def test_a_resumed_run_doubles_nothing_and_loses_nothing(tmp_path):
    write(tmp_path, range(8))  # killed at step 7, the checkpoint is of step 4
    write(tmp_path, range(5, 10), step=4)
    assert [step for step, _ in scalars(tmp_path)] == list(range(10))


def test_a_run_resumed_before_its_first_checkpoint_begins_again(tmp_path):
    write(tmp_path, range(8))
    write(tmp_path, range(3))
    assert [step for step, _ in scalars(tmp_path)] == [0, 1, 2]


def test_importing_the_module_imports_no_tensorboard():
    assert "SummaryWriter" not in vars(trackers)
