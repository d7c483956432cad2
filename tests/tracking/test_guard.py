"""The guard between training and another tracker: one warning, and its patience in all."""

import logging
import math
import sys
import threading
import time

import broken_trackers
import pytest
from broken_trackers import FAULTS

from embedrun import tracking
from embedrun.config import TrackingConfig
from embedrun.config.options import WandbConfig
from embedrun.errors import EmbedrunError
from embedrun.tracking import Mirror, Tracker, guard, mirrors

KEPT = "; training is not affected, and metrics.jsonl has every value\n"


class Kept:
    """A tracker that keeps what it gets."""

    def __init__(self) -> None:
        self.values: list = []

    def add(self, step: int, name: str, value: float) -> None:
        self.values.append((step, name, value))

    def close(self, *, finished: bool) -> None:
        self.values.append(finished)


def hang() -> Kept:
    threading.Event().wait(20)
    return Kept()


def end(mirror: Mirror, *, finished: bool = True) -> float:
    """Seconds that the end took."""
    started = time.monotonic()
    mirror.end(finished=finished)
    mirror.wait()
    return time.monotonic() - started


@pytest.mark.parametrize("finished", [True, False])
def test_tracker_gets_every_value_and_the_end(capfd, finished):
    kept = Kept()
    mirror = Mirror("tracking.x", lambda: kept, patience=10)
    mirror.add(step=1, name="train/loss", value=0.5)
    mirror.add(step=2, name="train/loss", value=math.inf)
    end(mirror, finished=finished)
    mirror.wait()  # once more does no harm
    first, second, last = kept.values
    assert (first, second[:2], last) == ((1, "train/loss", 0.5), (2, "train/loss"), finished)
    assert math.isnan(second[2])
    assert capfd.readouterr() == ("", "")


def test_unfinished_run_hardly_waits_and_warns_of_nothing(capfd, monkeypatch):
    mirror = Mirror("tracking.x", hang, patience=0.1)
    assert 0.1 <= end(mirror, finished=False) < 1
    assert capfd.readouterr() == ("", "")


def test_training_never_waits_for_a_tracker_that_takes_nothing(capfd):
    mirror = Mirror("tracking.x", hang, patience=0.1)
    started = time.monotonic()
    for step in range(30_000):
        mirror.add(step=step, name="train/loss", value=1.0)
    assert time.monotonic() - started < 2
    end(mirror)
    why = "takes values more slowly than training gives them, and some are missing there"
    assert capfd.readouterr() == ("", f"warning: tracking.x: {why}{KEPT}")


def test_warning_is_in_the_log_and_closed_standard_error_is_no_fault(caplog, monkeypatch, tmp_path):
    closed = (tmp_path / "closed").open("w")
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    faults: list = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    with caplog.at_level(logging.INFO, "embedrun"):
        end(Mirror("tracking.x", lambda: sys.exit("bye"), patience=5))
    assert caplog.messages == [f"warning: tracking.x: SystemExit: bye{KEPT}".rstrip("\n")]
    assert faults == []


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (ValueError("two\n lines"), "ValueError: two lines"),
        (EmbedrunError("no API key; set it"), "no API key; set it"),
        (ValueError("key canary is wrong"), "ValueError: key *** is wrong"),
        (ValueError("x" * 1000), "ValueError: " + "x" * 288),
    ],
)
def test_reason_is_one_line_without_the_key(monkeypatch, fault, text):
    monkeypatch.setenv("WANDB_API_KEY", "canary")
    assert guard.reason(fault) == text


@pytest.mark.usefixtures("counted")
def test_broken_trackers_are_one_warning_each_and_wait_together(tmp_path, monkeypatch, capfd):
    def write(folder, *mirrors) -> bytes:
        folder.mkdir()
        with Tracker(folder, mirrors) as tracker:
            for step in range(1, 21):
                tracker.metric(step=step, epoch=step / 20, split="train", name="loss", value=1 / step)
            closing = time.monotonic()
        assert time.monotonic() - closing < 0.5 + 0.4
        return (folder / "metrics.jsonl").read_bytes()

    config = TrackingConfig(wandb=WandbConfig(), tensorboard=True, patience=0.5)
    expected = write(tmp_path / "alone")
    for when, how in FAULTS:
        broken_trackers.lay(monkeypatch, when, how)
        folder = tmp_path / f"{when}-{how}"
        assert write(folder, *mirrors(config, tmp_path, name="x", options={}, step=0)) == expected
        warnings = [line.partition("; training is")[0] for line in capfd.readouterr().err.splitlines()]
        assert sorted(warnings) == broken_trackers.warnings(when, how, 0.5)


def test_only_the_trackers_asked_for_are_started_and_a_missing_one_is_a_problem(tmp_path, monkeypatch):
    assert mirrors(TrackingConfig(), tmp_path, name="x", options={}, step=0) == []
    both = TrackingConfig(tensorboard=True, wandb=WandbConfig())
    assert tracking.problems(both) == []
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    assert tracking.problems(TrackingConfig(wandb=WandbConfig())) == []
    assert tracking.problems(both) == [
        "tracking.tensorboard: needs the tensorboard package; pip install '.[tensorboard]' in the folder of "
        "embedrun's sources, or choose tracking=local"
    ]
