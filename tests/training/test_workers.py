"""Several processes on plain values: what is refused, how the end is told, signals, addresses."""

import json
import signal
from dataclasses import asdict
from pathlib import Path

import pytest

from embedrun.config import GpuConfig, TrainingConfig
from embedrun.errors import ConfigError, RunFailed, Terminated
from embedrun.runs.directory import Outcome, Run
from embedrun.training import processes, workers
from embedrun.training.workers import Relay, settle


def test_one_process_needs_nothing():
    assert processes.options_problems(GpuConfig(), TrainingConfig(batch_size=1)) == []
    several = GpuConfig(processes=2, nodes=2, rendezvous="[::1]:29500")
    assert processes.options_problems(several, TrainingConfig()) == []


def test_what_several_processes_cannot_train_is_refused_together():
    training = TrainingConfig(batch_size=5)
    problems = processes.options_problems(GpuConfig(processes=3, nodes=2), training)
    options = ["gpu.rendezvous", "training.batch_size"]
    assert [problem.partition(":")[0] for problem in problems] == options


@pytest.mark.parametrize("where", ["node1", "node1:70000", "::1:29500", ""])
def test_a_rendezvous_is_a_host_and_a_port(where: str):
    (problem,) = processes.options_problems(GpuConfig(nodes=2, rendezvous=where), TrainingConfig())
    assert problem == f"gpu.rendezvous: expected host:port, such as node1:29500, got {where!r}"


def test_who_was_started_by_torchrun_starts_no_others_and_has_as_many(monkeypatch: pytest.MonkeyPatch):
    assert [workers.wanted(GpuConfig(processes=size)) for size in (1, 2)] == [False, True]
    assert workers.wanted(GpuConfig(nodes=2))
    workers.join(GpuConfig(), "job")  # alone
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert not workers.wanted(GpuConfig(processes=2))
    with pytest.raises(ConfigError, match="2 x 1 processes, and torchrun has started 3"):
        workers.join(GpuConfig(processes=2), "job")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory whose process is gone."""
    made = Run.create("x", {}, directory=str(tmp_path / "run"))
    made.start({}, [], {})
    made.release()
    return made.path


@pytest.fixture
def relay(tmp_path: Path) -> Relay:
    return Relay(tmp_path)


def write(folder: Path, **outcomes: Outcome) -> None:
    """The outcomes that ranks have left, as `rank0=Outcome(...)`."""
    for rank, outcome in outcomes.items():
        (folder / f"{rank[4:]}.json").write_text(json.dumps(asdict(outcome)))


def end(folder: Path, codes: dict[int, int], relay: Relay, run: Path | None = None) -> Outcome:
    return settle(folder, codes, relay, run, size=3, lost="gone")


def status(run: Path) -> tuple[str, str | None]:
    known = json.loads((run / "status.json").read_text())
    return known["state"], known.get("error")


LOST = Outcome(error="another process has ended", code=75)
STOPPED = Outcome(error="interrupted", code=143)


def test_the_run_has_finished_once_process_0_has(tmp_path: Path, relay: Relay):
    done = Outcome("run", {"name": "x", "value": 1.0})
    write(tmp_path, rank0=done)
    assert end(tmp_path, {1: -9}, relay) == done


def test_what_was_killed_is_the_cause_and_not_those_that_lost_it(tmp_path: Path, relay: Relay, run: Path):
    write(tmp_path, rank0=LOST)
    (tmp_path / "1.log").write_bytes(b"Fatal Python error\xff\x1b[2J")
    with pytest.raises(RunFailed, match=r"embedrun resume .* continues") as caught:
        end(tmp_path, {0: 75, 1: -9, 2: -15}, relay, run)
    assert caught.value.exit_code == 1
    assert status(run) == ("failed", "process 2 of 3 (rank 1) was killed by signal 9 (SIGKILL)")
    assert "(SIGKILL)\nFatal Python error\ufffd\ufffd[2J" in (run / "run.log").read_text()


def test_a_failure_of_another_process_keeps_its_message_and_code(tmp_path: Path, relay: Relay, run: Path):
    write(tmp_path, rank0=LOST, rank2=Outcome(error="out of memory", code=6))
    with pytest.raises(RunFailed) as caught:
        end(tmp_path, {0: 75, 2: 6}, relay, run)
    assert caught.value.exit_code == 6
    assert status(run) == ("failed", "process 3 of 3 (rank 2): out of memory")


def test_a_stop_is_raised_and_recorded_where_process_0_had_no_time(tmp_path: Path, relay: Relay, run: Path):
    relay.asked = signal.SIGINT
    with pytest.raises(KeyboardInterrupt) as caught:  # before any was ready
        end(tmp_path, {0: -2, 1: -15}, relay, run)
    assert type(caught.value) is KeyboardInterrupt
    assert status(run) == ("interrupted", "interrupted")
    write(tmp_path, rank0=STOPPED)
    with pytest.raises(Terminated):  # by a signal to one of the processes, or on another machine
        end(tmp_path, {0: 143}, Relay(tmp_path))


def test_another_machine_is_the_cause_where_nothing_died_here(tmp_path: Path, relay: Relay):
    with pytest.raises(RunFailed, match=r"^gone$"):
        end(tmp_path, {1: -15}, relay)


def test_a_run_that_somebody_resumes_is_left_alone(tmp_path: Path, relay: Relay, run: Path):
    held = Run.claim(run)
    with pytest.raises(RunFailed):
        end(tmp_path, {1: -9}, relay, run)
    held.release()
    assert status(run) == ("running", None)


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The signals that two processes would get, as process and number."""
    for rank, process in enumerate((70001, 70002)):
        (tmp_path / f"{rank}.pid").write_text(str(process))
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr("os.kill", lambda process, number: calls.append((process, number)))
    return calls


def test_the_first_signal_reaches_every_process_and_others_none(relay: Relay, sent):
    before = signal.getsignal(signal.SIGTERM)
    with relay.listening():
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):  # as batch systems send
            signal.raise_signal(number)
    assert sorted(sent) == [(70001, signal.SIGUSR1), (70002, signal.SIGUSR1)]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_second_ctrl_c_kills_them_all(relay: Relay, sent):
    with relay.listening():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert sorted(sent[2:]) == [(70001, signal.SIGKILL), (70002, signal.SIGKILL)]
    assert relay.at_once


def test_a_signal_that_no_process_can_take_yet_raises(relay: Relay):
    with relay.listening(), pytest.raises(Terminated):
        signal.raise_signal(signal.SIGTERM)


def test_where_all_failed_alike_process_0_has_recorded_it(tmp_path: Path, relay: Relay, run: Path):
    write(tmp_path, rank0=Outcome(error="loss is nan", code=4), rank1=Outcome(error="loss is nan", code=4))
    with pytest.raises(RunFailed, match=r"^loss is nan$") as caught:
        end(tmp_path, {0: 4, 1: 4}, relay, run)
    assert caught.value.exit_code == 4
    assert status(run) == ("running", None)
