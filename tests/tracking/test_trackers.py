"""The guard between training and other trackers, TensorBoard's files, and what wandb is called with."""

import math
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import broken_trackers
import pytest
from broken_trackers import FAULTS

from embedrun import tracking
from embedrun.config import TrackingConfig
from embedrun.config.options import WandbConfig
from embedrun.errors import EmbedrunError
from embedrun.tracking import (
    Mirror,
    TensorboardFiles,
    Tracker,
    WandbRun,
    mirrors,
    problems,
    reason,
)

KEPT = "; training is not affected, and metrics.jsonl has every value\n"


class Kept:
    """A tracker that keeps what it gets."""

    def __init__(self) -> None:
        self.values: list = []

    def add(self, step: int, name: str, value: float) -> None:
        self.values.append((step, name, value))

    def close(self, *, finished: bool) -> None:
        self.values.append(finished)


def mirror(connect: Any, patience: float = 5) -> Mirror:
    return Mirror("tracking.x", connect, patience=patience)


def end(mirror: Mirror, *, finished: bool = True) -> float:
    """Seconds that the end took."""
    started = time.monotonic()
    mirror.end(finished=finished)
    mirror.wait()
    return time.monotonic() - started


def hang() -> Kept:
    threading.Event().wait(20)
    return Kept()


@pytest.mark.parametrize("finished", [True, False])
def test_tracker_gets_every_value_and_the_end(capfd, finished):
    kept = Kept()
    values = mirror(lambda: kept)
    values.add(step=1, name="train/loss", value=0.5)
    values.add(step=2, name="train/loss", value=math.inf)
    end(values, finished=finished)
    first, second, last = kept.values
    assert (first, second[:2], last) == ((1, "train/loss", 0.5), (2, "train/loss"), finished)
    assert math.isnan(second[2])
    assert capfd.readouterr() == ("", "")


def test_training_never_waits_for_a_tracker_that_takes_nothing(capfd):
    values = mirror(hang, 0.1)
    started = time.monotonic()
    for step in range(30_000):
        values.add(step=step, name="train/loss", value=1.0)
    assert time.monotonic() - started < 2
    end(values)
    why = "takes values more slowly than training gives them, and some are missing there"
    assert capfd.readouterr() == ("", f"warning: tracking.x: {why}{KEPT}")


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (ValueError("two\n lines, key canary-canary"), "ValueError: two lines, key ***"),
        (EmbedrunError("no API key; set it"), "no API key; set it"),
    ],
)
def test_reason_is_one_line_without_the_key(monkeypatch, fault, text):
    monkeypatch.setenv("WANDB_API_KEY", "canary-canary")
    assert reason(fault) == text


@pytest.mark.usefixtures("counted")
def test_broken_trackers_are_one_warning_each_and_wait_together(tmp_path, monkeypatch, capfd):
    def write(folder, *mirrors) -> bytes:
        folder.mkdir()
        with Tracker(folder, mirrors) as tracker:
            for step in range(1, 21):
                tracker.metric(step=step, epoch=step / 20, split="train", name="loss", value=1 / step)
            closing = time.monotonic()
        assert time.monotonic() - closing < 0.3 + 0.4
        return (folder / "metrics.jsonl").read_bytes()

    config = TrackingConfig(wandb=WandbConfig(), tensorboard=True, patience=0.3)
    expected = write(tmp_path / "alone")
    for when, how in FAULTS:
        broken_trackers.lay(monkeypatch, when, how)
        folder = tmp_path / f"{when}-{how}"
        assert write(folder, *mirrors(config, tmp_path, name="x", options={}, step=0)) == expected
        warnings = [line.partition("; training is")[0] for line in capfd.readouterr().err.splitlines()]
        assert sorted(warnings) == broken_trackers.warnings(when, how, 0.3)


def test_only_the_trackers_asked_for_are_started_and_a_missing_one_is_a_problem(tmp_path, monkeypatch):
    assert mirrors(TrackingConfig(), tmp_path, name="x", options={}, step=0) == []
    both = TrackingConfig(tensorboard=True, wandb=WandbConfig())
    assert problems(both) == []
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    assert problems(TrackingConfig(wandb=WandbConfig())) == []
    (problem,) = problems(both)
    assert problem.startswith("tracking.tensorboard: needs the tensorboard package; pip install")


class Fake(ModuleType):
    """The parts of wandb that a run touches, and what they were called with."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.calls: list = []
        self.Settings = self.setup = dict

    def login(self, *, prompt: bool) -> bool:
        assert not prompt
        return False

    def init(self, **options: Any) -> SimpleNamespace:
        self.options = options
        return SimpleNamespace(
            log=lambda values, step: self.calls.append((values, step)),
            finish=lambda exit_code: self.calls.append(exit_code),
        )


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "true")  # put back afterwards
    return fake


def opened(folder: Path, **options: Any) -> WandbRun:
    folder.mkdir(exist_ok=True)
    return WandbRun(folder, WandbConfig(**options), group="quickstart", options={"seed": 42}, patience=5.0)


def test_wandb_gets_the_directory_the_configuration_and_one_id_for_each_run(tmp_path, wandb):
    ids = []
    for name in ("a", "a", "b"):
        opened(tmp_path / name, tags=["x"])
        ids.append(wandb.options.pop("id"))
        settings = wandb.options.pop("settings")
    assert ids[0] == ids[1] != ids[2]
    assert (tmp_path / "a" / "wandb" / "id").read_text() == ids[0] + "\n"
    assert wandb.options == {
        "dir": str(tmp_path / "b"),
        "resume": "allow",
        "config": {"seed": 42},
        "mode": "offline",
        "project": "embedrun",
        "entity": None,
        "group": "quickstart",
        "tags": ["x"],
        "name": "b",
    }
    assert settings.items() >= {"console": "off", "save_code": False, "finish_timeout": 5.0}.items()
    opened(tmp_path / "b", group="mine")
    assert wandb.options["group"] == "mine"


def test_no_step_goes_back_because_wandb_would_drop_it(tmp_path, wandb):
    run = opened(tmp_path)
    run.add(4, "train/loss", 0.25)
    run.add(2, "test/sts/avg/spearman", 70.0)  # of the best weights, those of step 2
    run.close(finished=True)
    run.close(finished=False)
    assert wandb.calls == [({"train/loss": 0.25}, 4), ({"test/sts/avg/spearman": 70.0}, 4), 0, 1]


def test_missing_key_is_named_and_not_asked_for(tmp_path, wandb):
    with pytest.raises(EmbedrunError, match=r"^no API key; set WANDB_API_KEY, or run `wandb login`, or"):
        opened(tmp_path, mode="online")


def write(folder: Path, steps: range, *, step: int = 0) -> None:
    files = TensorboardFiles(folder, step=step)
    for number in steps:
        files.add(number, "train/loss", 1 / number if number else math.nan)
    files.close(finished=True)


@pytest.fixture(scope="module")
def reader() -> Any:
    """TensorBoard's own reader; to import it and its writer takes seconds."""
    import torch.utils.tensorboard  # noqa: F401
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator


def scalars(reader: Any, folder: Path) -> list[tuple[int, float]]:
    read = reader(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    read.Reload()
    return [(event.step, event.value) for event in read.Scalars("train/loss")]


def test_a_resumed_run_doubles_and_loses_nothing_in_tensorboard(reader, tmp_path, monkeypatch):
    # Files have their second in their name, and are read in that order; in a test all have the same one.
    from tensorboard.summary.writer import event_file_writer

    second = iter(range(1_000_000_000, 1_000_001_000))
    monkeypatch.setattr(event_file_writer.time, "time", lambda: next(second))
    write(tmp_path / "a", range(8))  # killed at step 7, the checkpoint is of step 4
    write(tmp_path / "a", range(5, 10), step=4)
    (_, undefined), *values = scalars(reader, tmp_path / "a")
    assert math.isnan(undefined)
    assert values == [(step, pytest.approx(1 / step)) for step in range(1, 10)]
    write(tmp_path / "b", range(8))
    write(tmp_path / "b", range(3))  # resumed before its first checkpoint
    assert [step for step, _ in scalars(reader, tmp_path / "b")] == [0, 1, 2]
