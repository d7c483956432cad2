"""Real runs in two gloo processes: how they end, and that each is what one process trains."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from minilm import minilm_folder
from same_run import same_weights
from training_commands import Command, Commands

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")
STEPS, EVERY = 300, 60
NEWEST = f"checkpoints/step-{STEPS:08d}"
IDENTICAL = (
    "metrics.jsonl",
    "model/model.safetensors",
    "predictions/toy_test.parquet",
    f"{NEWEST}/model.safetensors",
    f"{NEWEST}/optimizer.safetensors",
)
TWO = ("gpu=cpu", "gpu.processes=2", "hydra.run.dir=run")


@pytest.fixture(scope="module")
def arguments(options: tuple[str, ...]) -> list[str]:
    """A training run of `STEPS` steps."""
    own = ["training.epochs=100", f"training.evaluate_every={EVERY}"]  # of three steps
    return ["train", *(option for option in options if "max_steps" not in option), *own]


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    found = Commands(tmp_path)
    yield found
    found.kill()


@pytest.fixture
def training(commands: Commands, arguments) -> Command:
    """A run in two processes, at its first checkpoint."""
    command = commands.start(*arguments, *TWO)
    command.reach_checkpoint("run")
    return command


def status(commands: Commands) -> dict:
    return json.loads((commands.folder / "run" / "status.json").read_text())


def all_gone(workers: dict[int, int], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(Path(f"/proc/{process}").exists() for process in workers.values()):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_both_with_exit_4(commands: Commands, options):
    code, _, err = commands.start("train", *options, "training.lr=1e38", *TWO).end()
    assert code == 4, err
    assert (commands.folder / "run" / "bad_batch.json").is_file()
    assert (status(commands)["state"], "Traceback" in err) == ("failed", False)


@pytest.mark.slow
def test_two_processes_score_as_one_does(commands: Commands):
    scored = ("evaluate", f"model={minilm_folder()}", "dataset=toy", "evaluation=heldout", "gpu=cpu")
    commands.done(*scored, "hydra.run.dir=alone")
    commands.done(*scored, *TWO)
    alone, both = (
        json.loads((commands.folder / run / "results.json").read_text())["scores"] for run in ("alone", "run")
    )
    assert both == pytest.approx(alone, abs=1e-5)
    assert status(commands)["state"] == "finished"


@pytest.mark.slow
def test_two_processes_encode_and_annotate_as_one_does(commands: Commands):
    folder = commands.folder
    text = [f"text {number} of so many" for number in range(200)]
    (folder / "texts.txt").write_text("\n".join(text) + "\n")
    lines = [f"{one}\tanother {one}\t{number % 3}" for number, one in enumerate(text)]
    (folder / "pairs.tsv").write_text("\n".join(["text1\ttext2\tlabel", *lines]) + "\n")
    model = str(minilm_folder())
    scored = ["annotate", "dataset=pairs", "dataset.path=pairs.tsv", "block_rows=50", "gpu=cpu"]
    scored += ["dataset.columns={text1: text1, text2: text2, label: label}"]
    scored += [f"teachers=[{{name: {model}}}]"]
    for name, two in (("one", ()), ("two", ("--processes", "2"))):
        made = commands.start("encode", model, "texts.txt", "-o", f"{name}.npy", *two)
        assert made.end()[0] == 0
        annotated = commands.start(*scored, f"output={name}", *(["gpu.processes=2"] if two else []))
        assert annotated.end()[0] == 0
    one, two = (np.load(folder / f"{name}.npy") for name in ("one", "two"))  # (texts, dim) each
    assert np.abs(one - two).max() < 1e-6
    one, two = (folder / name / "nli_scored.jsonl.gz" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.slow
def test_one_process_out_of_memory_ends_both_with_exit_6(
    commands: Commands, options, monkeypatch: pytest.MonkeyPatch
):
    # Python reads such a file in every process that starts.
    (commands.folder / "sitecustomize.py").write_text(
        "import os\n"
        "if os.environ.get('RANK') == '1':\n"
        "    import torch\n"
        "    import embedrun.training.step as step\n"
        "    def full(*_, **__):\n"
        "        raise torch.OutOfMemoryError('full')\n"
        "    step.Stepper.take = full\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(commands.folder))
    code, _, err = commands.start("train", *options, *TWO).end()
    assert code == 6, err
    assert "process 2 of 2 (rank 1): out of memory" in err
    assert "process 2 of 2 (rank 1): out of memory" in status(commands)["error"]
    assert (
        "in full\n    raise torch.OutOfMemoryError('full')"
        in (commands.folder / "run" / "run.log").read_text()
    )


@pytest.mark.slow
def test_sigterm_ends_both_at_one_step_with_exit_143(commands: Commands, training: Command):
    workers = training.workers()
    assert sorted(workers) == [0, 1]
    training.process.send_signal(signal.SIGTERM)
    code, _, err = training.end(seconds=60)
    assert code == 143, err
    assert all_gone(workers, 1)
    assert status(commands)["state"] == "interrupted"
    saved = max(int(path.name[5:]) for path in (commands.folder / "run/checkpoints").glob("step-*"))
    assert saved % EVERY != 0 or saved == STEPS, "no step after the score was under way"


@pytest.mark.slow
def test_torchrun_starts_the_same_run_which_is_what_one_process_trains(commands: Commands, options):
    both = ["train", *options, "training.seeded_dropout=true", "training.batch_size=15", "gpu=cpu"]
    commands.done(*both, "hydra.run.dir=alone")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "embedrun"]
    ended = subprocess.run(
        [*torchrun, *both, *TWO],
        cwd=commands.folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("run directory: run\n") == 1  # the other process is silent
    assert "15 rows over 2 processes, each anchor is compared with 14 others\n" in ended.stderr
    same_weights(commands.folder / "run", commands.folder / "alone")
    used = [
        json.loads((commands.folder / run / "results.json").read_text())["amounts"]
        for run in ("run", "alone")
    ]
    assert used[0]["tokens"] == used[1]["tokens"] > 0
    assert used[0]["rows"] == used[1]["rows"]


@pytest.fixture(scope="module")
def undisturbed(arguments, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a run in two processes that nothing happened to."""
    alone = Commands(tmp_path_factory.mktemp("undisturbed"))
    try:
        alone.done(*arguments, *TWO)
    finally:
        alone.kill()
    return {name: (alone.folder / "run" / name).read_bytes() for name in IDENTICAL}


def resumed(commands: Commands) -> dict[str, bytes]:
    """The same files once the run has been resumed."""
    assert "resuming from run/checkpoints/step-" in commands.done("resume", "run")
    assert status(commands)["state"] == "finished"
    return {name: (commands.folder / "run" / name).read_bytes() for name in IDENTICAL}


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_ends_all_within_a_minute_and_the_run_resumes(rank, commands, training, undisturbed):
    workers = training.workers()
    os.kill(workers[rank], signal.SIGKILL)
    code, _, err = training.end(seconds=60)
    assert code == 1
    died = f"process {rank + 1} of 2 (rank {rank}) was killed by signal 9 (SIGKILL)"
    assert f"{died}; run/run.log has more, and embedrun resume run continues" in err
    assert all_gone(workers, 1)
    assert (status(commands)["state"], status(commands)["error"]) == ("failed", died)
    assert resumed(commands) == undisturbed


@pytest.mark.slow
def test_workers_die_with_their_parent_and_the_run_resumes(commands, training, undisturbed):
    workers = training.workers()
    training.process.kill()
    assert all_gone(workers, 5)
    assert status(commands)["state"] == "running"
    assert resumed(commands) == undisturbed


@pytest.fixture
def machines(commands: Commands, arguments) -> tuple[Command, Command]:
    """One run of two machines, which both are this one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
    both = [*arguments, "gpu=cpu", "gpu.nodes=2", f"gpu.rendezvous={where}", "hydra.run.dir=run"]
    return commands.start(*both), commands.start(*both)


@pytest.mark.slow
def test_two_machines_train_as_two_processes_of_one(machines, commands, undisturbed):
    ended = [machine.end() for machine in machines]
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert {name: (commands.folder / "run" / name).read_bytes() for name in IDENTICAL} == undisturbed
    assert sorted(err == "" for _, _, err in ended) == [False, True]  # the processes of one are silent
