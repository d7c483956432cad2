"""Weights in shards: what they do not go with, and real runs in two and four gloo processes."""

import json
import os
import signal
from pathlib import Path

import pytest
from same_run import read, resumed, same_weights
from training_commands import Commands

from embedrun.config import GpuConfig, TrainingConfig
from embedrun.training.shards import problems

RUN = (
    "train",
    "+experiment=quickstart",
    "training.max_steps=20",
    "training.evaluate_every=10",
    "training.batch_size=16",
    "training.seeded_dropout=true",
    "dataset.train_rows=200",
    "dataset.dev_rows=150",
    "dataset.test_rows=150",
    "gpu=cpu",
)
FULL = ("gpu.shard=full",)


@pytest.mark.parametrize(
    ("gpu", "training", "problem"),
    [
        ({}, {"micro_batch_size": 4, "batch_size": 8}, None),
        ({"processes": 1}, {}, "needs several processes, got 1"),
        ({"compile": True}, {}, "does not go with gpu.compile"),
        ({"precision": "fp16"}, {}, "choose bf16"),
        ({}, {"optimizer": "sam"}, "does not go with training.optimizer=sam"),
        ({}, {"micro_batch_size": 4, "batch_size": 9}, "a batch_size that 2 divides"),
        ({"shard": "none", "compile": True}, {"optimizer": "sam"}, None),
    ],
)
def test_what_does_not_go_with_shards(gpu: dict, training: dict, problem: str | None):
    chosen = GpuConfig(**{"processes": 2, "shard": "full", **gpu})
    found = problems(chosen, TrainingConfig(**training), None)
    assert len(found) == (problem is not None)
    assert all(problem in text for text in found)


@pytest.fixture
def commands(tmp_path: Path):
    found = Commands(tmp_path)
    yield found
    found.kill()


def scores(run: Path) -> dict[str, float]:
    return json.loads((run / "results.json").read_text())["scores"]


@pytest.mark.slow
def test_two_and_four_processes_with_shards_train_as_one_without(commands: Commands):
    commands.done(*RUN, "hydra.run.dir=alone")
    cases = {"two": ("gpu.processes=2",), "four": ("gpu.processes=4", "training.micro_batch_size=2")}
    for name, more in cases.items():
        commands.done(*RUN, *FULL, *more, f"hydra.run.dir={name}")
        same_weights(commands.folder / name, commands.folder / "alone")
        assert scores(commands.folder / name) == pytest.approx(scores(commands.folder / "alone"), abs=1e-3)


@pytest.mark.slow
def test_a_run_whose_process_was_killed_goes_on_in_another_number_of_processes(commands: Commands):
    commands.done(*RUN, "hydra.run.dir=alone")
    begun = commands.start(*RUN, *FULL, "training.save_every=2", "gpu.processes=2", "hydra.run.dir=run")
    begun.reach_checkpoint("run")
    os.kill(begun.workers()[1], signal.SIGKILL)
    code, _, err = begun.end(seconds=60)
    assert code == 1, err
    commands.done("resume", "run", "--processes", "4")
    run = commands.folder / "run"
    assert resumed(run)[0] > 0
    assert read(run / "status.json")["state"] == "finished"
    same_weights(run, commands.folder / "alone")
