"""Faults of real runs in several gloo processes; `make test-slow` runs them."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from training_commands import Command, Commands

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("_alone", "_quick_plots")]
STEPS, EVERY = 300, 60
NEWEST = f"checkpoints/step-{STEPS:08d}"
IDENTICAL = (
    "metrics.jsonl",
    "model/model.safetensors",
    "predictions/toy_test.parquet",
    f"{NEWEST}/model.safetensors",
    f"{NEWEST}/optimizer.safetensors",
)


@pytest.fixture(scope="module")
def arguments(options: tuple[str, ...]) -> list[str]:
    """A training run of `STEPS` steps."""
    own = ["training.epochs=100", f"training.evaluate_every={EVERY}"]  # of three steps
    return ["train", *(option for option in options if "max_steps" not in option), *own, "gpu=cpu"]


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    found = Commands(tmp_path)
    yield found
    found.kill()


@pytest.fixture(scope="module")
def undisturbed(arguments, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a run in two processes that nothing happened to."""
    one = Commands(tmp_path_factory.mktemp("undisturbed"))
    try:
        one.done(*arguments, "gpu.processes=2", "hydra.run.dir=run")
    finally:
        one.kill()
    return {name: (one.folder / "run" / name).read_bytes() for name in IDENTICAL}


@pytest.fixture
def training(commands: Commands, arguments) -> Command:
    """A run in two processes, at its first checkpoint."""
    one = commands.start(*arguments, "gpu.processes=2", "hydra.run.dir=run")
    one.reach_checkpoint("run")
    return one


def status(commands: Commands) -> dict:
    return json.loads((commands.folder / "run" / "status.json").read_text())


def resumed(commands: Commands) -> dict[str, bytes]:
    """The same files once the run has been gone on with."""
    assert "resuming from run/checkpoints/step-" in commands.done("resume", "run")
    assert status(commands)["state"] == "finished"
    return {name: (commands.folder / "run" / name).read_bytes() for name in IDENTICAL}


def all_gone(workers: dict[int, int], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(Path(f"/proc/{process}").exists() for process in workers.values()):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_ends_all_within_a_minute_and_the_run_goes_on(rank, commands, training, undisturbed):
    workers = training.workers()
    assert sorted(workers) == [0, 1]
    os.kill(workers[rank], signal.SIGKILL)
    code, _, err = training.end(seconds=60)
    assert code == 1
    died = f"process {rank + 1} of 2 (rank {rank}) was killed by signal 9 (SIGKILL)"
    assert f"{died}, as the kernel does where memory runs out; run/run.log has more" in err
    assert "embedrun resume run continues" in err
    assert all_gone(workers, 1)
    assert status(commands)["state"] == "failed"
    assert died in status(commands)["error"]
    assert died in (commands.folder / "run" / "run.log").read_text()
    assert resumed(commands) == undisturbed


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_a_signal_ends_all_at_one_step_saved(number, code, commands, training, undisturbed):
    workers = training.workers()
    training.process.send_signal(number)
    assert training.end(seconds=60)[0] == code
    assert all_gone(workers, 1)
    assert status(commands)["state"] == "interrupted"
    saved = max(int(path.name[5:]) for path in (commands.folder / "run/checkpoints").glob("step-*"))
    assert saved % EVERY != 0 or saved == STEPS, "no step after the score was under way"
    assert resumed(commands) == undisturbed


def test_workers_die_with_their_parent_and_the_run_goes_on(commands, training, undisturbed):
    workers = training.workers()
    training.process.kill()
    assert all_gone(workers, 5)
    assert status(commands)["state"] == "running"
    assert resumed(commands) == undisturbed


def test_an_exception_in_one_rank_is_in_the_log_of_the_run(commands, arguments):
    # Python reads such a file in every process that starts; this one breaks the fifth question of a rank.
    broken = commands.folder / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if os.environ.get('RANK') == '1':\n"
        "    import embedrun.training.processes as p\n"
        "    whole = p.Processes.any\n"
        "    def odd(self, flag, asked=[]):\n"
        "        asked.append(flag)\n"
        "        if len(asked) == 5:\n"
        "            raise ValueError('an odd thing')\n"
        "        return whole(self, flag)\n"
        "    p.Processes.any = odd\n"
    )
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(broken)
    try:
        one = commands.start(*arguments, "gpu.processes=2", "hydra.run.dir=run")
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before
    code, _, err = one.end(seconds=120)
    assert code == 1
    assert "process 2 of 2 (rank 1): unexpected failure: ValueError: an odd thing" in err
    assert "Traceback" not in err
    log = (commands.folder / "run" / "run.log").read_text()
    assert "in odd\n    raise ValueError('an odd thing')\nValueError: an odd thing\n" in log


@pytest.fixture
def machines(commands: Commands, arguments) -> tuple[Command, Command]:
    """One run of two machines, which both are this one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
    both = [*arguments, "gpu.nodes=2", f"gpu.rendezvous={where}", "hydra.run.dir=run"]
    return commands.start(*both), commands.start(*both)


def test_two_machines_train_as_two_processes_of_one(machines, commands, undisturbed):
    ended = [one.end() for one in machines]
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert {name: (commands.folder / "run" / name).read_bytes() for name in IDENTICAL} == undisturbed
    second = "joined as machine 2 of 2: run; machine 1 prints how it goes\n"
    assert sorted(err == second for _, _, err in ended) == [False, True]  # its processes are silent


def test_a_death_on_one_machine_ends_both_within_a_minute(machines, commands):
    machines[0].reach_checkpoint("run")
    (second,) = (one for one in machines if 1 in one.workers())
    os.kill(second.workers()[1], signal.SIGKILL)
    ended = [one.end(seconds=60) for one in machines]
    assert [code for code, _, _ in ended] == [1, 1]
    for _, _, err in ended:
        assert "process 2 of 2 (rank 1) was killed by signal 9 (SIGKILL)" in err
    assert status(commands)["state"] == "failed"
    assert "process 2 of 2 (rank 1) was killed" in status(commands)["error"]


def test_a_machine_that_vanishes_ends_the_other_within_a_minute(machines, commands):
    machines[0].reach_checkpoint("run")
    (first,) = (one for one in machines if 0 in one.workers())
    (second,) = (one for one in machines if one is not first)
    second.process.kill()
    assert first.end(seconds=60)[0] == 1
    assert status(commands)["state"] == "failed"
