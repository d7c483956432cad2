"""The state of a training, written and read: tensors, random states, versions."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import operations
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from embedrun.errors import RunFailed
from embedrun.training.checkpoint import (
    differences,
    load_weights,
    restore,
    restore_random,
    save,
    seed_random,
    verify,
)

FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"]


def test_a_checkpoint_is_whole_once_it_is_there(write):
    path = write(7)
    assert path.name == "step-00000007"
    assert sorted(file.name for file in path.iterdir()) == FILES
    assert verify(path) == []
    assert os.listdir(path.parent) == ["step-00000007"]


def test_the_moments_of_adam_are_saved_by_the_name_of_their_weight(write, model):
    first = model.first.weight.detach().clone()
    moments = load_file(write(1) / "optimizer.safetensors")
    kinds = ("step", "exp_avg", "exp_avg_sq")
    assert set(moments) == {f"{kind}/{name}" for kind in kinds for name in ("first.weight", "turned")}
    assert moments["step/turned"].item() == 1
    assert moments["exp_avg/turned"].shape == (3, 2)
    # The gradient of (sum of a row)^2 is twice that sum, and the first moment is (1 - beta1) of it.
    wanted = 0.1 * 2 * first.sum(dim=1, keepdim=True).expand(2, 3)
    torch.testing.assert_close(moments["exp_avg/first.weight"], wanted)


def test_every_file_is_on_the_disk_before_the_checkpoint_has_its_name(write, folder):
    with operations.strike(0, operations.raise_killed, folder) as done:
        write(1)
    aside = ".tmp-step-00000001"
    written = [*(name for name in FILES if name != "manifest.json"), "manifest.json"]
    assert done == [
        "mkdir .",
        f"mkdir {aside}",
        *(f"{moment} {aside}/{name}" for name in written for moment in ("write", "tear")),
        *(f"fsync {aside}/{name}" for name in FILES),
        f"fsync {aside}",
        f"rename {aside}",
        "fsync .",
    ]
    assert os.listdir(folder) == ["step-00000001"]


Make = Callable[..., torch.optim.Optimizer]


class Nearby:
    """Has what SAM shows of the AdamW that it builds on, and nothing else."""

    def __init__(self, base: torch.optim.Optimizer) -> None:
        self.state, self.param_groups, self._base = base.state, base.param_groups, base

    def step(self) -> None:
        self._base.step()


ADAMS: dict[str, Make] = {
    "plain": lambda weights: torch.optim.AdamW(weights, lr=0.1),
    "fused": lambda weights: torch.optim.AdamW(weights, lr=0.1, fused=True),
    "one by one": lambda weights: torch.optim.AdamW(weights, lr=0.1, foreach=False),
    "with a largest moment": lambda weights: torch.optim.AdamW(weights, lr=0.1, amsgrad=True),
    "in a wrapper": lambda weights: Nearby(torch.optim.AdamW(weights, lr=0.1)),  # type: ignore[return-value]
}


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        for weight in model.parameters():
            weight.grad = None
        model.loss().backward()  # type: ignore[operator]
        optimizer.step()


def scramble(model: nn.Module) -> None:
    for weight in model.parameters():
        nn.init.constant_(weight, 9.0)


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.state_dict().items()}


def test_weights_come_back_bit_for_bit_and_stay_tied(write, model):
    path = write(1)
    wanted = weights(model)
    scramble(model)
    load_weights(path, model)
    assert same(weights(model), wanted)
    assert model.first.weight is model.second.weight


@pytest.mark.parametrize("kind", ADAMS)
def test_training_goes_on_bit_for_bit_after_a_restore(folder, model, kind: str):
    optimizer = ADAMS[kind](model.parameters())
    train(model, optimizer, 3)
    saved = save(folder, step=3, model=model, optimizer=optimizer, state={"patience": 2})
    train(model, optimizer, 3)
    straight = save(folder, step=6, model=model, optimizer=optimizer, state={})

    scramble(model)
    again = ADAMS[kind](model.parameters())
    train(model, again, 1)  # a state that has to go
    state = restore(saved, model, again)
    assert (state["step"], state["patience"]) == (3, 2)
    train(model, again, 3)
    gone_on = save(folder.with_name("again"), step=6, model=model, optimizer=again, state={})
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (straight / name).read_bytes() == (gone_on / name).read_bytes(), name


def refused(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> str:
    """The message of a refusal with exit 7, which must leave everything as it was."""
    before, moments = weights(model), {key: dict(value) for key, value in optimizer.state.items()}
    with pytest.raises(RunFailed) as failure:
        restore(path, model, optimizer)
    assert failure.value.exit_code == 7
    assert same(weights(model), before)
    assert {key: dict(value) for key, value in optimizer.state.items()} == moments
    return str(failure.value)


def test_a_checkpoint_of_another_model_is_refused(write, model):
    path = write(1)
    scramble(model)
    model.extra = nn.Parameter(torch.zeros(2))
    said = refused(path, model, torch.optim.AdamW(model.parameters()))
    assert said == f"{path}: of another model: 1 weights that differ from this run's (extra)"
    with pytest.raises(RunFailed, match=r"of another model: 1 weights that differ"):
        load_weights(path, model)
    del model.extra
    model.turned = nn.Parameter(torch.zeros(5))
    assert "1 weights that differ from this run's (turned)" in refused(
        path, model, torch.optim.AdamW(model.parameters())
    )
    model.turned = nn.Parameter(torch.zeros(3, 2, dtype=torch.float16))
    assert "1 weights that differ from this run's (turned)" in refused(
        path, model, torch.optim.AdamW(model.parameters())
    )


def test_a_checkpoint_of_another_optimizer_is_refused(write, model):
    path = write(1)
    scramble(model)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    assert refused(path, model, sgd) == f"{path}: of another optimizer, AdamW; this run has SGD"


def test_a_damaged_checkpoint_is_not_loaded(write, model):
    path = write(1)
    (path / "state.json").write_text("{}")
    scramble(model)
    optimizer = torch.optim.AdamW(model.parameters())
    assert "checkpoint is damaged" in refused(path, model, optimizer)
    with pytest.raises(RunFailed, match=r"checkpoint is damaged: .*state\.json: differs") as failure:
        load_weights(path, model)
    assert failure.value.exit_code == 7
    assert str(failure.value).endswith(f"; 'embedrun resume {path.parent.parent}' sets it aside and resumes")
    assert model.turned.eq(9).all()


def draw() -> tuple:
    normal = (np.random.randn(), random.gauss(0, 1))
    return (torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random(), *normal)


@pytest.mark.parametrize("half", [True, False])
def test_every_random_state_comes_back(write, half: bool):
    """With and without the second half of a pair of normal numbers left behind."""
    seed_random(5)
    if half:
        random.gauss(0, 1)
        np.random.randn()
    path = write(1)
    wanted = draw()
    seed_random(6)
    random.gauss(0, 1)
    np.random.randn()
    assert draw() != wanted
    restore_random(path)
    assert draw() == wanted


def test_what_differs_is_said_as_then_and_now(write, monkeypatch):
    state = json.loads((write(1) / "state.json").read_text())
    state["versions"] |= {"torch": "2.0.0", "devices": "NVIDIA A100", "gone": "1"}
    del state["versions"]["numpy"]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    threads = state["versions"]["threads"]
    found = differences(state)
    assert f"torch 2.0.0 then, {torch.__version__} now" in found
    assert "devices NVIDIA A100 then, none now" in found
    assert f"threads {threads} then, 64 now" in found
    assert "gone 1 then, unknown now" in found
    assert any(line.startswith("numpy unknown then, ") for line in found)
    assert len(found) == 5
