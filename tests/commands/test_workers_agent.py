import os
import signal

import pytest

from embedrun.errors import Terminated
from embedrun.training.workers import start
from embedrun.training.workers.start import Relay

WORKERS = [70001, 70002, 70003]


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The signals that would be sent, as process and number."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(start.os, "kill", lambda worker, number: sent.append((worker, number)))
    return sent


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_the_first_signal_goes_to_one_worker_which_tells_the_others(number: int, killed):
    relay = Relay()
    with relay.listening():
        relay.to(WORKERS)
        signal.raise_signal(number)
    assert killed == [(WORKERS[0], number)]
    assert (relay.asked, relay.at_once) == (number, False)


def test_signals_that_follow_are_those_that_a_batch_system_sends_besides(killed):
    relay = Relay()
    with relay.listening():
        relay.to(WORKERS)
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1):
            signal.raise_signal(number)
    assert killed == [(WORKERS[0], signal.SIGUSR1)]
    assert relay.asked == signal.SIGUSR1


def test_nohup_stays_in_force_though_torch_has_put_its_own_handler_in(killed):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    relay = Relay()
    try:
        with relay.listening():
            signal.signal(signal.SIGHUP, lambda *_: pytest.fail("heard"))  # as torch's agent does
            relay.to(WORKERS)
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (killed, relay.asked) == ([], None)


def test_a_second_ctrl_c_kills_them_all(killed):
    relay = Relay()
    with relay.listening():
        relay.to(WORKERS)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert killed[1:] == [(worker, signal.SIGKILL) for worker in WORKERS]
    assert (relay.asked, relay.at_once) == (signal.SIGINT, True)


@pytest.mark.parametrize(
    ("number", "fault"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_without_workers_a_signal_raises(number: int, fault: type[BaseException], killed):
    relay = Relay()
    with relay.listening(), pytest.raises(fault):
        signal.raise_signal(number)
    relay.to([])
    assert killed == []


def test_a_worker_that_has_gone_cannot_be_told(monkeypatch: pytest.MonkeyPatch):
    def nobody(*_: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(start.os, "kill", nobody)
    relay = Relay()
    with relay.listening():
        relay.to(WORKERS)
        signal.raise_signal(signal.SIGTERM)
    assert relay.asked == signal.SIGTERM


def test_the_handlers_from_before_come_back_and_torch_leaves_none(killed):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT)
    before = [signal.getsignal(number) for number in numbers]
    relay = Relay()
    with relay.listening():
        signal.signal(signal.SIGHUP, lambda *_: None)  # as torch's agent does
        relay.to(WORKERS)
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in numbers] == before
    assert os.getpid() not in WORKERS
