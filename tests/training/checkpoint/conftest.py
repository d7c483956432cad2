"""A small model, and checkpoints of it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from embedrun.training.checkpoint import save


class Tied(nn.Module):
    """Two weights that share memory, one whose memory is not in order, and one that gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 2, bias=False)
        self.second = nn.Linear(3, 2, bias=False)
        self.second.weight = self.first.weight
        self.turned = nn.Parameter(torch.arange(6.0).reshape(2, 3).t())
        self.idle = nn.Parameter(torch.ones(2))

    def loss(self) -> torch.Tensor:
        return self.second(torch.ones(1, 3)).square().sum() + self.turned.square().sum()


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a power cut could tell; that each file has its fsync in time is a test of its own."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def model() -> Tied:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return Tied()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the checkpoints; not there yet."""
    return tmp_path / "checkpoints"


@pytest.fixture
def write(folder: Path, model: Tied) -> Callable[..., Path]:
    """Train one step, then save it under a number; the best is `best`, else the step itself."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def one(step: int, *, best: int | None = None) -> Path:
        optimizer.zero_grad()
        model.loss().backward()
        optimizer.step()
        state = {"best": {"step": best or step}}
        return save(folder, step=step, model=model, optimizer=optimizer, state=state)

    return one
