"""Both ends of the pipe to another tracker."""

import errno
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import broken_trackers
import pytest
import small_disk
from broken_trackers import FAULTS

from embedrun.config import TrackingConfig
from embedrun.config.options import WandbConfig
from embedrun.errors import EmbedrunError
from embedrun.tracking import Mirror, Tracker, mirror, mirrors
from embedrun.tracking.mirror import check_room, copy

Start = Callable[..., Mirror]
KEPT = "; training is not affected, and metrics.jsonl has every value\n"


@pytest.fixture
def shell() -> Start:
    """A mirror whose child is a line of shell."""

    def start(script: str, *, patience: float = 10) -> Mirror:
        return Mirror("tracking.x", ["sh", "-c", script], {"folder": "there"}, patience=patience)

    return start


def end(one: Mirror, *, finished: bool = True) -> float:
    """Seconds that the end took."""
    started = time.monotonic()
    one.end(finished=finished)
    one.wait()
    return time.monotonic() - started


def until(fact: Callable[[], object]) -> None:
    give_up = time.monotonic() + 10
    while not fact():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_the_child_gets_the_opening_every_value_and_the_end(tmp_path, shell, capfd):
    one = shell(f"cat > {tmp_path}/got")
    one.add(step=1, name="train/loss", value=0.5)
    one.add(step=2, name="train/loss", value=float("inf"))
    end(one)
    assert [json.loads(line) for line in (tmp_path / "got").read_text().splitlines()] == [
        {"folder": "there"},
        {"step": 1, "name": "train/loss", "value": 0.5},
        {"step": 2, "name": "train/loss", "value": None},
        {"finished": True},
    ]
    assert capfd.readouterr() == ("", "")


def test_a_run_that_did_not_finish_says_nothing_at_its_end(tmp_path, shell):
    end(one := shell(f"cat > {tmp_path}/got"), finished=False)
    assert (tmp_path / "got").read_text() == '{"folder": "there"}\n'
    one.wait()  # once more does no harm


@pytest.mark.parametrize(
    ("script", "warning"),
    [
        ("echo no such host; exit 1", "no such host"),
        ("cat > /dev/null; echo no such host; exit 1", "no such host"),
        ("exit 3", "its process ended with exit code 3"),
        ("cat > /dev/null; exit 3", "its process ended with exit code 3"),
        ("kill -9 $$", "its process was killed by signal 9"),
        ("echo no such host; echo and more; kill -9 $$", "no such host"),
    ],
)
def test_a_child_that_fails_is_one_warning(shell, capfd, script, warning):
    one = shell(script)
    for step in range(200):
        one.add(step=step, name="train/loss", value=1.0)
        time.sleep(0.001)
    assert end(one) < 5
    one.add(step=200, name="train/loss", value=1.0)
    assert capfd.readouterr() == ("", f"warning: tracking.x: {warning}{KEPT}")


def test_a_child_that_fails_is_told_of_at_once_and_takes_no_more(shell, capfd):
    one = shell("echo no such host; exit 1")

    def warned() -> bool:
        one.add(step=1, name="train/loss", value=1.0)
        return "no such host" in capfd.readouterr().err

    until(warned)
    until(lambda: not one._open)
    one.add(step=2, name="train/loss", value=1.0)
    assert end(one) < 5
    assert capfd.readouterr() == ("", "")


def test_a_program_that_is_not_there_is_one_warning(capfd):
    one = Mirror("tracking.x", ["/nonexistent/program"], {}, patience=1)
    one.add(step=1, name="train/loss", value=1.0)
    assert end(one) < 1
    assert capfd.readouterr().err.startswith("warning: tracking.x: cannot be started (")


def test_a_child_that_hangs_takes_no_more_time_than_there_is_patience_and_leaves_nothing_behind(
    tmp_path, shell, capfd
):
    one = shell(f"sleep 60 & echo $! > {tmp_path}/pid; wait", patience=0.5)
    until(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text())
    assert 0.5 <= end(one) < 2
    assert capfd.readouterr() == (
        "",
        "warning: tracking.x: had not ended after 0.5 s and was stopped; values may be missing there" + KEPT,
    )
    grandchild = int((tmp_path / "pid").read_text())
    until(lambda: not is_running(grandchild))
    assert not one._thread.is_alive()  # type: ignore[union-attr]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_run_that_did_not_finish_hardly_waits_and_leaves_the_child_to_itself(shell, monkeypatch, capfd):
    monkeypatch.setattr(mirror, "_UNFINISHED_SECONDS", 0.2)
    one = shell("cat > /dev/null; sleep 1")
    assert 0.2 <= end(one, finished=False) < 0.9
    assert capfd.readouterr() == ("", "")
    until(lambda: one._child.returncode == 0)


def test_two_that_hang_are_waited_for_together(tmp_path, shell):
    tracker = Tracker(tmp_path, [shell("sleep 60", patience=1), shell("sleep 60", patience=1)])
    started = time.monotonic()
    tracker.close()
    assert 1 <= time.monotonic() - started < 1.9


def test_training_never_waits_for_a_child_that_does_not_read(shell, monkeypatch, capfd):
    monkeypatch.setattr(mirror, "_MOST_LINES", 2000)
    one = shell("exec sleep 60", patience=0.1)
    started = time.monotonic()
    for step in range(5000):  # more than the pipe, which takes 64 KiB, and the queue hold
        one.add(step=step, name="train/loss", value=1.0)
    assert time.monotonic() - started < 2
    assert one._lines.qsize() <= 2000
    end(one)
    assert capfd.readouterr() == (
        "",
        "warning: tracking.x: takes values more slowly than training gives them, and some are missing there"
        + KEPT,
    )


def test_the_warning_is_in_the_log_of_the_run(shell, caplog):
    with caplog.at_level("INFO", "embedrun"):
        end(shell("exit 3"))
    assert [record.getMessage() + "\n" for record in caplog.records if record.name == "embedrun"] == [
        f"warning: tracking.x: its process ended with exit code 3{KEPT}"
    ]


def test_standard_error_that_is_closed_is_no_fault(shell, monkeypatch, tmp_path):
    closed = (tmp_path / "closed").open("w")
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    faults = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    end(shell("exit 3"))
    end(shell("exec sleep 60", patience=0.1))
    assert faults == []


def test_a_line_that_a_signal_cuts_short_is_written_to_its_end(monkeypatch):
    class Short:
        def __init__(self) -> None:
            self.got = b""

        def write(self, data: memoryview) -> int:
            self.got += bytes(data[:3])
            return min(3, len(data))

    pipe = Short()
    mirror._write(pipe, b"12345678\n")  # type: ignore[arg-type]
    assert pipe.got == b"12345678\n"


def test_ctrl_c_is_for_training_alone(tmp_path, shell):
    one = shell(f"echo $$ > {tmp_path}/pid; cat > /dev/null")
    until(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text())
    assert os.getpgid(int((tmp_path / "pid").read_text())) != os.getpgid(0)
    end(one)


def test_a_child_killed_from_outside_is_one_warning(tmp_path, shell, capfd):
    one = shell(f"echo $$ > {tmp_path}/pid; exec cat > /dev/null")
    until(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text())
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    end(one)
    assert capfd.readouterr() == ("", f"warning: tracking.x: its process was killed by signal 9{KEPT}")


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
        (ValueError("key canary is wrong"), "ValueError: key *** is wrong"),
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


def feeder_until(fact: Callable[[], object]) -> None:
    give_up = time.monotonic() + 120
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
        feeder_until(lambda: len(list(tmp_path.glob("*/up-*"))) == len(every))
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
    feeder_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_a_disk_with_room_is_left_as_it_was(tmp_path):
    check_room(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_with_its_folder(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()

    def fill() -> None:
        (folder / "big").write_bytes(bytes(90_000))
        with pytest.raises(OSError, match="No space left") as fault:
            check_room(folder)
        assert (fault.value.errno, fault.value.filename) == (errno.ENOSPC, str(folder))
        assert os.listdir(folder) == ["big"]
        (folder / "big").unlink()
        check_room(folder)

    if not small_disk.run(folder, 100_000, fill):
        pytest.skip("this machine allows no file system of one's own; the injected error stands for it")


def test_an_error_that_the_disk_tells_late_is_told_too(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")  # as a network file system does

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="Disk quota exceeded") as fault:
        check_room(tmp_path)
    assert fault.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(FileNotFoundError) as fault:
        check_room(tmp_path / "none")
    assert fault.value.filename == str(tmp_path / "none")
