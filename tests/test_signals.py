import contextlib
import os
import signal
import time

import pytest

from embedrun import signals
from embedrun.errors import Terminated
from embedrun.signals import Deferred

ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def send(number: int) -> None:
    os.kill(os.getpid(), number)
    for _ in range(100):  # Python runs a handler between two of its own instructions
        pass


@pytest.fixture(autouse=True)
def _handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, *ENDS)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, *ENDS)] == before


@pytest.mark.parametrize("number", [signal.SIGINT, *ENDS])
def test_a_signal_raises_at_once_or_at_the_end_of_a_step(number):
    with pytest.raises(KeyboardInterrupt) as caught, signals.raised():
        send(number)
    assert isinstance(caught.value, Terminated) is (number != signal.SIGINT)
    done = []

    def step(stop: Deferred) -> None:
        for _ in range(3 if number != signal.SIGINT else 1):  # as batch systems send
            send(number)
        done.append(stop.asked)

    with pytest.raises(KeyboardInterrupt) as caught, Deferred() as stop:
        step(stop)
    assert done == [number]
    assert isinstance(caught.value, Terminated) is (number != signal.SIGINT)


def test_the_end_of_the_time_is_a_signal_and_a_duration_adds_up():
    assert [signals.seconds_of(text) for text in ("3h50m", "1d1s", "90s")] == [13_800, 86_401, 90]
    for text in ("", "0s", "3x", "50m3h", "3"):
        with pytest.raises(ValueError, match="expected a duration such as"):
            signals.seconds_of(text)
    with signals.time_limit(None):
        pass
    with pytest.raises(Terminated), signals.raised(), signals.time_limit("1s"):
        time.sleep(5)


def test_nohup_stays_in_force(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.raised(), Deferred() as stop:
            send(signal.SIGHUP)
            assert stop.asked is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_signal_does_not_cut_short_what_tidies_up_but_a_second_ctrl_c_does():
    done = []

    def tidy() -> None:
        try:
            send(signal.SIGTERM)
        finally:
            for number in ENDS:
                send(number)
            done.append("tidied")
            send(signal.SIGINT)
            done.append("not reached")

    with pytest.raises(KeyboardInterrupt) as caught, signals.raised():
        tidy()
    assert done == ["tidied"]
    assert type(caught.value) is KeyboardInterrupt


@pytest.mark.parametrize(("pressed", "at_once"), [(1, []), (2, [130])])
def test_after_a_second_ctrl_c_no_thread_is_waited_for(monkeypatch, pressed, at_once):
    left = []
    monkeypatch.setattr(os, "_exit", left.append)
    with signals.raised():
        for _ in range(pressed):
            with contextlib.suppress(KeyboardInterrupt):
                send(signal.SIGINT)
    with pytest.raises(SystemExit):
        signals.leave(130)
    assert left == at_once


def test_jobs_beside_each_other_are_told_by_a_file_and_a_second_ctrl_c_waits_for_none(tmp_path, capsys):
    done = []

    def end() -> None:
        send(signal.SIGTERM)
        done.append("saved")

    def wait() -> None:
        send(signal.SIGINT)
        done.append((tmp_path / "stop").exists())
        send(signal.SIGINT)
        done.append("not reached")

    with pytest.raises(Terminated), signals.stopping(tmp_path / "stop"):
        end()
    with pytest.raises(KeyboardInterrupt), signals.stopping(tmp_path / "stop"):
        wait()
    assert done == ["saved", True]
    assert capsys.readouterr().err.count("the running jobs save and end") == 2
