import random

import numpy as np
import pytest
import torch

from embedrun.training.checkpoint import restore_random, seed_random


def draw() -> tuple:
    normal = (np.random.randn(), random.gauss(0, 1))
    return (torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random(), *normal)


def test_a_seed_sets_every_random_state():
    seed_random(5)
    wanted = draw()
    random.gauss(0, 1)  # leaves the second half of a pair of normal numbers behind
    np.random.randn()
    seed_random(5)
    assert draw() == wanted


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


def test_saving_again_after_a_restore_gives_the_same_bytes(write):
    seed_random(5)
    random.gauss(0, 1)
    path = write(1)
    content = (path / "random.safetensors").read_bytes()
    draw()
    restore_random(path)
    assert (write(2) / "random.safetensors").read_bytes() == content


def test_states_of_cuda_devices_that_are_not_there_are_passed_over(write, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"device {index}")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda index: torch.tensor([index], dtype=torch.uint8))
    path = write(1)
    put: list[tuple[int, list[int]]] = []
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, index: put.append((index, state.tolist())))
    restore_random(path)
    assert put == [(0, [0]), (1, [1])]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    restore_random(path)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    restore_random(path)
    assert [index for index, _ in put] == [0, 1, 0, 0, 1]
