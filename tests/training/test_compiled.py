import dataclasses

import pytest
import torch
from whole_step import Trial, assert_equal_gradients

from embedrun.config import AdapterConfig, TrainingConfig
from embedrun.errors import ConfigError
from embedrun.training.gradient import problems, using
from embedrun.training.order import Draw
from embedrun.training.step import Stepper


@pytest.mark.parametrize(
    ("training", "processes", "adapter", "problem"),
    [
        ({}, 1, None, None),
        ({"seeded_dropout": False}, 1, AdapterConfig(), None),
        ({"micro_batch_size": 2}, 1, None, "gpu.compile: dropout by a seed of each text"),
        ({"seeded_dropout": True}, 1, None, "gpu.compile: dropout by a seed of each text"),
        ({}, 2, None, "gpu.compile: dropout by a seed of each text"),
        ({"gradient_checkpointing": True}, 1, None, "gpu.compile: does not go with training.gradient_checkp"),
        ({}, 1, AdapterConfig(quantize="nf4"), "gpu.compile: weights in 4 bits"),
    ],
)
def test_what_cannot_be_compiled(training, processes, adapter, problem):
    found = problems(TrainingConfig(**training), adapter, processes=processes)
    assert [text.startswith(problem or "") for text in found] == ([True] if problem else [])


def test_the_model_has_its_own_forward_pass_again_afterwards():
    model = torch.nn.Linear(1, 1)
    with using(model, lambda _: "compiled"):
        assert model(torch.ones(1)) == "compiled"
    assert model(torch.ones(1)) != "compiled"
    assert "forward" not in vars(model)


def test_a_model_that_cannot_be_compiled_is_refused_in_one_line():
    from torch._dynamo.exc import TorchDynamoException

    def forward(_: object) -> None:
        raise TorchDynamoException("no way\nand much more")

    model = torch.nn.Linear(1, 1)
    with (
        pytest.raises(ConfigError, match=r"cannot be compiled here \(no way\); leave it false$"),
        using(model, forward),
    ):
        model(torch.ones(1))
    assert "forward" not in vars(model)


def compiled(trial: Trial) -> Trial:
    old = trial.stepper
    trial.stepper = Stepper(
        trial.encoder,
        trial.mix,
        dataclasses.replace(old._compute, compile=True),
        old._config,
        teachers=old._teachers,
        taught=old._taught,
    )
    return trial


def test_a_rehearsal_shows_that_a_model_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch):
    from torch._dynamo.exc import TorchDynamoException

    def forward(*_: object, **__: object) -> None:
        raise TorchDynamoException("no way")

    monkeypatch.setattr("embedrun.training.gradient.compiled", lambda _: forward)
    trial = compiled(Trial("raoe", None))
    with pytest.raises(ConfigError, match="cannot be compiled here"):
        trial.stepper.rehearse(trial.batch)


@pytest.mark.slow
def test_a_compiled_backbone_has_the_gradient_of_the_plain_one():
    plain, fast = Trial("raoe", None, dropout=0.0), compiled(Trial("raoe", None, dropout=0.0))
    fast.stepper.rehearse(fast.batch)
    names = list(fast.stepper.trained.state_dict())
    for number, rows in enumerate((7, 4, 6)):
        one, other = (
            trial.feed.batch(Draw(number, 0, torch.arange(rows).numpy())) for trial in (plain, fast)
        )
        assert_equal_gradients(fast.step(other), plain.step(one), bar=1e-5)
    assert list(fast.stepper.trained.state_dict()) == names
    assert not any("_orig_mod" in name for name in names)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1  # for texts of any number and length
    assert "forward" not in vars(fast.encoder.backbone.model)  # evaluation computes without
