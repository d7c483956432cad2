"""A batch encoded in parts has the gradient of the whole batch, dropout on."""

import pytest
import torch
from whole_step import MIXES, ROWS, Trial, assert_equal_gradients


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


def test_eager_and_fused_attention_drop_the_same():
    one, other = (Trial("angle", attention=attention).step() for attention in ("eager", "sdpa"))
    assert_equal_gradients(one, other, bar=1e-12)


def test_torchs_own_dropout_would_not_do():
    whole, parts = Trial("angle"), Trial("angle", 3)
    whole.stepper._seeded = parts.stepper._seeded = False
    assert abs(whole.step()["loss"] - parts.step()["loss"]) > 1e-3


def test_the_random_state_is_not_moved():
    before = torch.get_rng_state()
    trial = Trial("arccse", 3)
    torch.set_rng_state(before)
    trial.step()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_loss_of_each_batch_alone_is_another_gradient():
    # What accumulation over small batches computes, and parts of one batch do not.
    small = [Trial("angle", rows=3).step()["loss"], Trial("angle").step()["loss"]]
    assert ROWS == 7
    assert abs(small[0] - small[1]) > 1e-3
