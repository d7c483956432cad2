import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.tracking import Mirror, Tracker, mirror

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
