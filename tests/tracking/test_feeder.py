import errno
import json
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import broken_trackers
import pytest
from broken_trackers import FAULTS

from embedrun.config import TrackingConfig
from embedrun.config.options import WandbConfig
from embedrun.errors import EmbedrunError
from embedrun.tracking import mirror, mirrors
from embedrun.tracking.local import Tracker
from embedrun.tracking.mirror import Mirror, copy

OPENING = '{"folder": "there"}\n'
VALUE = '{"step": 1, "name": "train/loss", "value": 0.5}\n'
UNDEFINED = '{"step": 2, "name": "train/loss", "value": null}\n'
END = '{"finished": true}\n'
PATIENCE = 3.0


class Kept:
    """A tracker that keeps what it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: list = []

    def add(self, step: int, name: str, value: float) -> None:
        self.told.append((step, name, value))

    def close(self, *, finished: bool) -> None:
        self.told.append(finished)


@pytest.fixture
def sink(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def fed(sink: Kept, *lines: str) -> list:
    copy(iter(lines), lambda opening: sink)
    return sink.told


def test_values_go_through_and_an_undefined_one_is_nan(sink):
    first, second, finished = fed(sink, OPENING, VALUE, UNDEFINED, END)
    assert first == (1, "train/loss", 0.5)
    assert second[:2] == (2, "train/loss")
    assert math.isnan(second[2])
    assert finished is True


@pytest.mark.parametrize("rest", [(), (VALUE[:20],), (END[:-1],)])
def test_training_that_ends_without_a_word_or_within_a_line_has_not_finished(sink, rest):
    assert fed(sink, OPENING, VALUE, *rest) == [(1, "train/loss", 0.5), False]


def test_training_that_ends_before_its_first_line_opens_nothing():
    copy(iter([]), lambda opening: pytest.fail("was opened"))


def test_a_disk_that_fills_is_looked_for_while_it_goes_on_and_at_the_end(sink, monkeypatch):
    looked: list[int] = []
    monkeypatch.setattr(mirror, "check_room", lambda folder: looked.append(len(sink.told)))
    fed(sink, OPENING, VALUE, VALUE, VALUE, END)
    assert looked == [1, 4]  # the next look would be a quarter of a minute later
    monkeypatch.setattr(mirror, "_ROOM_SECONDS", 0.0)
    sink.told.clear()
    looked.clear()
    fed(sink, OPENING, VALUE, VALUE, END)
    assert looked == [1, 2, 3]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (ValueError("two\n lines"), "ValueError: two lines"),
        (OSError(errno.ENOSPC, "No space left on device", "there"), "No space left on device: there"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (EmbedrunError("no API key; set it"), "no API key; set it"),
        (ValueError("key canary is wrong"), "ValueError: key ... is wrong"),
        (ValueError("x" * 1000), "ValueError: " + "x" * 288),
    ],
)
def test_a_reason_is_one_line_without_the_key(monkeypatch, fault, reason):
    monkeypatch.setenv("WANDB_API_KEY", "canary")
    assert mirror._reason(fault) == reason


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, str, str], list[Mirror]]:
    """W&B and TensorBoard of one run, which fail at one moment in one way."""
    broken_trackers.lay(tmp_path / "fakes", monkeypatch)
    config = TrackingConfig(wandb=WandbConfig(), tensorboard=True, patience=PATIENCE)

    def start(folder: Path, when: str, how: str) -> list[Mirror]:
        folder.mkdir()
        broken_trackers.choose(when, how, folder, monkeypatch)
        return mirrors(config, folder, name="x", options={}, step=0)

    return start


def until(fact: Callable[[], object]) -> None:
    give_up = time.monotonic() + 30
    while not fact():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def write(tracker: Tracker, steps: range) -> None:
    for step in steps:
        tracker.metric(step=step, epoch=step / 20, split="train", name="loss", value=1 / step)


def test_whatever_a_tracker_does_is_one_warning_and_its_patience_in_all(tmp_path, counted, broken, capfd):
    running = [broken(tmp_path / f"{when}-{how}", when, how) for when, how in FAULTS]
    sound = broken(tmp_path / "sound", "never", "raise")
    with Tracker(tmp_path) as alone:
        write(alone, range(1, 21))
    expected = (tmp_path / "metrics.jsonl").read_bytes()
    (tmp_path / "metrics.jsonl").unlink()
    every = [*sound, *(one for both in running for one in both)]
    with Tracker(tmp_path, every) as tracker:
        write(tracker, range(1, 11))
        until(lambda: len(list(tmp_path.glob("*/up-*"))) == len(every))
        for one in sound:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
                os.kill(one._child.pid, number)  # as a batch system does to all: it is for training alone
        write(tracker, range(11, 21))
        closing = time.monotonic()
    assert time.monotonic() - closing < PATIENCE + 1
    assert (tmp_path / "metrics.jsonl").read_bytes() == expected
    assert all(one._child.returncode is not None for one in every)
    found = [line.partition("; training is")[0] for line in capfd.readouterr().err.splitlines()]
    assert sorted(found) == sorted(
        warning for when, how in FAULTS for warning in broken_trackers.warnings(when, how, PATIENCE)
    )


@pytest.mark.slow
def test_a_tracker_that_hangs_ends_after_training_was_killed(tmp_path, interpreter, broken):
    code = """
import json, os, sys
from pathlib import Path
from embedrun.config import TrackingConfig
from embedrun.config.options import WandbConfig
from embedrun.tracking import mirrors
os.environ |= {"WHEN": "init", "HOW": "hang", "UP": os.getcwd()}
config = TrackingConfig(wandb=WandbConfig(), tensorboard=True, patience=1.0)
started = mirrors(config, Path.cwd(), name="x", options={}, step=0)
print(json.dumps([one._child.pid for one in started]), flush=True)
os.kill(os.getpid(), 9)
"""
    pids = json.loads(interpreter(code=code).stdout)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
