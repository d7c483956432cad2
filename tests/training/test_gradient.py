"""The gradient of a batch, whole, in parts and compiled.

A batch encoded in parts has the gradient of the whole batch, dropout on.
"""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from whole_step import MIXES, ROWS, Trial, assert_equal_gradients

from embedrun.config import AdapterConfig, TrainingConfig
from embedrun.errors import ConfigError
from embedrun.training import gradient
from embedrun.training.gradient import halved, problems
from embedrun.training.order import Draw
from embedrun.training.step import Stepper


@pytest.mark.parametrize("mix", MIXES)
def test_parts_of_any_size_give_the_gradient_of_the_whole_batch(mix: str):
    whole = Trial(mix).step()
    for size in (1, 3):
        assert_equal_gradients(Trial(mix, size).step(), whole, bar=1e-12)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_dropout_is_on_in_the_hidden_layers_and_in_attention(attention: str):
    off = Trial("angle", attention=attention, dropout=0.0).step()["loss"]
    on = Trial("angle", attention=attention).step()["loss"]
    assert abs(on - off) > 1e-3
    model = Trial("angle", attention=attention)
    for module in model.encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for layer in model.encoder.backbone.model.encoder.layer:
        layer.attention.self.dropout.p = 0.5
    assert abs(model.step()["loss"] - off) > 1e-3


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("mix", ["raoe", "arccse"])
def test_a_watched_step_has_the_same_gradient_to_the_last_bit(mix: str, size: int | None):
    plain, trial = Trial(mix, size).step(), Trial(mix, size)
    before = torch.get_rng_state()
    watched = trial.step(watch=True)
    assert torch.equal(torch.get_rng_state(), before) == (size is not None)  # torch's own dropout draws
    assert watched.keys() == plain.keys()
    assert all(torch.equal(watched[name], plain[name]) for name in plain)


def test_the_shares_of_the_gradient_add_up_whatever_the_size_of_the_parts():
    shares: list[dict[str, float]] = []
    for size, count in ((ROWS, 1), (3, 1), (1, 2)):  # two batches of the same rows have the mean of both
        trial = Trial("raoe", size, dropout=0.0)
        values = trial.stepper.take(1, 10, [trial.batch] * count, watch=True)
        assert not any(torch.as_tensor(value).requires_grad for value in values.values())
        shares.append({name: float(one) for name, one in values.items() if "gradient_share/" in name})
    assert list(shares[0]) == ["gradient_share/rank_margin", "gradient_share/gated_angular"]
    assert sum(shares[0].values()) == pytest.approx(1)
    assert shares[1] == pytest.approx(shares[0])
    assert shares[2] == pytest.approx(shares[0])


def test_a_backbone_without_dropout_has_no_second_view_of_a_text():
    trial = Trial("simcse_unsupervised", dropout=0.0)
    with pytest.raises(ConfigError, match="text and text#1 are passes of one text"):
        trial.stepper.rehearse(trial.batch)


def test_weights_cast_together_have_the_vectors_and_gradients_of_casts_one_by_one():
    torch.manual_seed(0)
    first, last = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, bias=False)
    model = torch.nn.Sequential(first, torch.nn.LayerNorm(4), last)
    last.weight.requires_grad_(False)
    given = torch.randn(5, 3)

    def gradient(weights: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            torch.func.functional_call(model, weights, (given,)).float().square().sum().backward()
        return [weight.grad for weight in model.parameters() if weight.grad is not None]

    weights = halved(model, torch.bfloat16)
    assert list(weights) == ["0.weight", "0.bias"]  # what is trained, of linear layers
    alone, together = gradient({}), gradient(weights)
    assert len(alone) == len(together) == 4
    assert all(map(torch.equal, alone, together))


@pytest.mark.parametrize(
    ("training", "adapter", "problem"),
    [
        ({}, None, None),
        ({"seeded_dropout": False}, AdapterConfig(), None),
        ({"micro_batch_size": 2}, None, "gpu.compile: dropout by a seed of each text"),
        ({"seeded_dropout": True}, None, "gpu.compile: dropout by a seed of each text"),
        ({"gradient_checkpointing": True}, None, "gpu.compile: does not go with training.gradient_checkp"),
        ({}, AdapterConfig(quantize="nf4"), "gpu.compile: weights in 4 bits"),
    ],
)
def test_what_cannot_be_compiled(training, adapter, problem):
    found = problems(TrainingConfig(**training), adapter)
    assert [text.startswith(problem or "") for text in found] == ([True] if problem else [])


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


@pytest.mark.parametrize(
    ("said", "fault"),
    [("Unsupported: a loop\nin forward", ConfigError), ("DefaultCPUAllocator: no memory", RuntimeError)],
)
def test_a_compiled_pass_that_fails_names_the_option_unless_memory_ran_out(monkeypatch, said, fault):
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(torch, "compile", lambda *_, **__: fails)
    forward = gradient.compiled(SimpleNamespace(forward=None))  # type: ignore[arg-type]
    with pytest.raises(fault) as caught:
        forward()
    assert ("gpu.compile: the compiled model fails here (Unsupported: a loop);" in str(caught.value)) is (
        fault is ConfigError
    )


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
