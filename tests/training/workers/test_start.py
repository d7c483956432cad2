"""Several processes started: torch's agent, signals, addresses."""

import json
import os
import signal
import socket
import tempfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from embedrun.cli import main
from embedrun.config import GpuConfig, TrainingConfig
from embedrun.errors import Terminated
from embedrun.training import processes
from embedrun.training.workers import end, start
from embedrun.training.workers.start import Relay, address, host, interface

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")


def test_one_process_needs_nothing():
    assert processes.options_problems(GpuConfig(), TrainingConfig(batch_size=1)) == []
    assert processes.options_problems(GpuConfig(processes=4), TrainingConfig(batch_size=4)) == []
    several = GpuConfig(processes=2, nodes=2, rendezvous="[::1]:29500")
    assert processes.options_problems(several, TrainingConfig()) == []


def test_what_several_processes_cannot_train_is_refused_together():
    training = TrainingConfig(batch_size=5, seeded_dropout=False)
    assert processes.options_problems(GpuConfig(processes=3, nodes=2), training) == [
        "gpu.rendezvous: no value for gpu.nodes=2; name host:port of one of the machines, as all of them "
        "reach it",
        "training.batch_size: 5 rows for 6 processes leave one without any; raise it, or lower gpu.processes",
        "training.seeded_dropout: several processes need it; leave it null",
    ]


@pytest.mark.parametrize(
    "where", ["node1", "node1:", "node1:70000", "http://node1:1", "::1:29500", "a b:1", ""]
)
def test_a_rendezvous_is_a_host_and_a_port(where: str):
    (problem,) = processes.options_problems(GpuConfig(nodes=2, rendezvous=where), TrainingConfig())
    assert problem == f"gpu.rendezvous: expected host:port, such as node1:29500, got {where!r}"


def test_one_machine_meets_no_other():
    assert processes.options_problems(GpuConfig(processes=2, rendezvous="node1:29500"), TrainingConfig()) == [
        "gpu.rendezvous: is where several machines meet, and gpu.nodes is 1; leave it null, or raise "
        "gpu.nodes"
    ]


def test_a_worker_starts_no_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv(end.PLACE, raising=False)
    assert [start.wanted(GpuConfig(processes=size)) for size in (1, 2)] == [False, True]
    assert start.wanted(GpuConfig(nodes=2))
    start.made(Path("run"))  # no parent is to be told
    assert list(tmp_path.rglob("run")) == []
    monkeypatch.setenv(end.PLACE, str(tmp_path))
    assert not start.wanted(GpuConfig(processes=2))
    start.made(Path("outputs/run"))
    assert (tmp_path / "run").read_text() == "outputs/run"


@pytest.mark.slow
@pytest.mark.usefixtures("counted")
def test_two_processes_train_what_one_does(options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    both = [*options, "training.seeded_dropout=true", "training.batch_size=15"]
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert main(["train", *both, "hydra.run.dir=alone"]) == 0
    alone = capfd.readouterr()
    assert main(["train", *both, "gpu.processes=2", "hydra.run.dir=two"]) == 0
    together = capfd.readouterr()
    # Shares of 8 and 7 rows.
    assert "15 rows over 2 processes, each anchor is compared with 14 others\n" in together.err
    assert together.err.count("run directory: two\n") == 1  # the other process is silent
    assert_equal_weights(Path("two"), Path("alone"), bar=1e-5)
    results = [json.loads(Path(run, "results.json").read_text()) for run in ("two", "alone")]
    assert results[0]["scores"] == pytest.approx(results[1]["scores"], abs=1e-6)
    assert results[0]["counts"] == results[1]["counts"]
    files = [sorted(path.name for path in Path(run).iterdir()) for run in ("two", "alone")]
    assert files[0] == files[1]
    assert alone.out.count("\n") <= together.out.count("\n")
    assert list((tmp_path / "temporary").glob("embedrun*")) == []
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert after == handlers


def assert_equal_weights(run: Path, other: Path, *, bar: float) -> None:
    """The weights of two models, as one vector each, differ by less than `bar` of their length."""
    found, wanted = (load_file(path / "model" / "model.safetensors") for path in (run, other))
    assert found.keys() == wanted.keys()
    one, two = (
        np.concatenate([weights[name].numpy().ravel() for name in wanted]) for weights in (found, wanted)
    )
    assert np.linalg.norm(one - two) <= bar * np.linalg.norm(two)


ALL_SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
WORKERS = [70001, 70002, 70003]


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The signals that would be sent, as process and number."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(start.os, "kill", lambda worker, number: sent.append((worker, number)))
    return sent


@pytest.mark.parametrize("number", ALL_SIGNALS)
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


@pytest.mark.parametrize(
    ("rendezvous", "name"),
    [
        (None, "localhost"),
        ("node1:29500", "node1"),
        ("10.0.0.7:29500", "10.0.0.7"),
        ("[fe80::1]:29500", "fe80::1"),
    ],
)
def test_machines_meet_at_the_host_of_the_rendezvous(rendezvous: str | None, name: str):
    assert host(GpuConfig(rendezvous=rendezvous)) == name


def test_the_way_to_this_machine_is_the_loopback():
    assert address("localhost") == "127.0.0.1"
    assert interface("127.0.0.1") == "lo"


def test_no_way_is_none(monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert address("nowhere") is None
    assert interface("192.0.2.1") is None  # an address that no machine has
