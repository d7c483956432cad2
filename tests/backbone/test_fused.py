"""Layers of a BERT in fewer passes over memory, against the plain ones."""

import pytest
import torch
from minilm import minilm_folder
from torch.nn import functional

from embedrun.backbone import bert, fast, fused
from embedrun.backbone.fast import packed
from embedrun.encoder import Encoder

pytestmark = pytest.mark.skipif(
    not fast._available(torch.float32), reason="this build of torch has no such operators"
)
MANY = fast._WORTH


@pytest.fixture(scope="module")
def model() -> bert.Bert:
    found = Encoder.load(minilm_folder()).backbone.encoding
    assert isinstance(found, bert.Bert)
    return found


def inputs(tokens: int, *, padding: bool) -> dict[str, torch.Tensor]:
    ids = torch.randint(1000, 20_000, (5, tokens), generator=torch.Generator().manual_seed(tokens))
    mask = torch.ones_like(ids)
    mask[1:, tokens - 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask} if padding else {"input_ids": ids}


def passed(model, given, dtype=torch.float32, *, plain=False) -> torch.Tensor:
    """The last layer's vectors of real tokens, ``(real, dim)``."""
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        if plain:
            found = model(**given).last_hidden_state
        else:
            with packed(model, tokens=MANY, dtype=dtype) as whole:
                assert whole
                found = model(**given).last_hidden_state
    return found[given.get("attention_mask", torch.ones_like(given["input_ids"])).bool()]


@pytest.mark.parametrize("padding", [True, False])
@pytest.mark.parametrize("tokens", [3, 15, 16, 17, fused._LONG - 1, fused._LONG, 70])
def test_attention_is_that_of_torch(tokens, padding):
    three = torch.randn(4, tokens, 3 * 24, generator=torch.Generator().manual_seed(1))
    seen = torch.arange(tokens) < torch.tensor([1, 2, tokens - 1, tokens])[:, None]  # (texts, tokens)
    seen = seen[:, None, None] if padding else None  # (texts, 1, 1, tokens)
    query, key, value = three.view(4, tokens, 3, 3, 8).permute(2, 0, 3, 1, 4)
    expected = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    found = fused.attention(three, 3, seen)
    torch.testing.assert_close(found, expected.transpose(1, 2).reshape(4, tokens, 24), rtol=0, atol=2e-6)


@pytest.mark.parametrize("padding", [True, False])
@pytest.mark.parametrize("texts", [1, 3])  # at once, of seven
def test_attention_of_a_few_texts_at_a_time_is_that_of_all(monkeypatch, texts, padding):
    three = torch.randn(7, 12, 3 * 24, generator=torch.Generator().manual_seed(2))
    seen = (torch.arange(12) < torch.tensor([3, 12, 1, 7, 12, 2, 5])[:, None])[:, None, None]
    seen = seen if padding else None  # (texts, 1, 1, tokens)
    expected = fused.attention(three, 3, seen)
    monkeypatch.setattr(fused, "_AT_ONCE", texts * fused._LANES * 24)
    torch.testing.assert_close(fused.attention(three, 3, seen), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("padding", [True, False])
@pytest.mark.parametrize("tokens", [12, 20, 40, 70])
def test_token_vectors_are_those_of_the_plain_layers(model, tokens, padding):
    given = inputs(tokens, padding=padding)
    torch.testing.assert_close(passed(model, given), passed(model, given, plain=True), rtol=0, atol=1e-5)


@pytest.mark.skipif(
    not fast._available(torch.bfloat16), reason="torch has these operators for processors with AVX-512 alone"
)
@pytest.mark.parametrize("tokens", [12, 40])
def test_bfloat16_is_no_farther_from_float32_than_in_the_plain_layers(model, tokens):
    given = inputs(tokens, padding=True)
    exact = passed(model, given, plain=True)
    plain, found = (
        float((passed(model, given, torch.bfloat16, plain=plain) - exact).norm()) for plain in (True, False)
    )
    assert 0 < found <= 1.05 * plain


def test_only_whole_layers_are_replaced_and_afterwards_none(model):
    layer = model.encoder.layer[0]
    with torch.no_grad(), packed(model, tokens=MANY, dtype=torch.float32):
        swapped = [name for name, module in model.named_modules() if "forward" in vars(module)]
        assert "forward" in vars(layer)
    assert sorted(swapped) == [*(f"encoder.layer.{number}" for number in range(6)), "pooler.dense"]
    assert not any("forward" in vars(module) for module in model.modules())


def test_a_layer_with_a_hook_inside_computes_as_usual(model):
    seen = []
    inside = model.encoder.layer[2].intermediate.dense
    hook = inside.register_forward_hook(lambda layer, given, output: seen.append(output.shape[-1]))
    given = inputs(12, padding=False)
    try:
        found = passed(model, given)
    finally:
        hook.remove()
    assert seen == [1536]
    torch.testing.assert_close(found, passed(model, given, plain=True), rtol=0, atol=1e-5)


def test_gradients_that_are_switched_on_inside_are_right(model):
    weight = model.encoder.layer[0].output.dense.weight
    with torch.no_grad(), packed(model, tokens=MANY, dtype=torch.float32), torch.enable_grad():
        found = model(**inputs(4, padding=False)).last_hidden_state
    (grad,) = torch.autograd.grad(found.square().sum(), weight)
    assert grad.abs().sum() > 0
