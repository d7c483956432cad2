"""Training passes without padding, against padded ones."""

import copy
from collections.abc import Iterator

import numpy as np
import pretended_attention
import pytest
import small_models
import torch
from transformers import AutoModel, Qwen2Config

from embedrun.backbone import Backbone, load, pretrained, transformer
from embedrun.backbone.unpadded import (
    FAMILIES,
    Layout,
    attend,
    last_layer,
    trainable,
    usable,
)
from embedrun.batch import Tokens
from embedrun.config import BackboneConfig
from embedrun.pooling import Pooling
from embedrun.training.gradient import compiled

# Longer than twice the window of the small ModernBERT, which sees 4 tokens to either side, and single words.
TEXTS = [
    "a little dog ran fast over the hill and was happy to see the big red ball again " * 2,
    "the cat",
    "a little dog ran fast over the hill",
    "who runs? nobody's cat liked that; the dogs were running, playing and barking all day",
    "cat",
]
WINDOWED = "qwen2 with windows"
MEAN = Pooling("mean")


@pytest.fixture(scope="module")
def backbones(tmp_path_factory) -> dict[str, Backbone]:
    """A small model of each type; and a Qwen2 whose second layer sees three tokens back alone."""
    folder = tmp_path_factory.mktemp("models")
    found = {
        family: load(BackboneConfig(name=str(small_models.put(folder / family, family))), seed=0).eval()
        for family in FAMILIES
    }
    config = Qwen2Config.from_pretrained(folder / "qwen2")
    config.update({"sliding_window": 3, "layer_types": ["full_attention", "sliding_attention"]})
    plain = found["qwen2"]
    windowed = AutoModel.from_config(config, attn_implementation="sdpa").eval()
    windowed.load_state_dict(plain.model.state_dict())
    found[WINDOWED] = Backbone(
        windowed, plain.tokenizer, max_length=plain.max_length, declared=plain.declared, origin={}
    )
    return found


def tokens_of(backbone: Backbone, texts: list[str]) -> Tokens:
    return backbone.tokenize(texts).take(np.arange(len(texts)))


def vectors(backbone: Backbone, texts: list[str] = TEXTS, pool=MEAN, *, unpadded=True, **options):
    return backbone(tokens_of(backbone, texts), pool, unpadded=unpadded, **options)


def dropping(backbone: Backbone) -> Backbone:
    """A copy in training mode that drops a tenth of the attention's weights, whatever its configuration."""
    found = copy.deepcopy(backbone).train()
    for layer in found.model.modules():
        if hasattr(layer, "attention_dropout"):
            layer.attention_dropout = 0.1
    return found


@pytest.mark.parametrize("name", [*FAMILIES, WINDOWED])
@pytest.mark.parametrize("options", [{"dropout": False}, {"seeds": torch.arange(5)}], ids=["none", "seeded"])
def test_a_step_of_training_is_that_of_a_padded_pass(backbones, name, options):
    assert transformer.worth_unpadding(tokens_of(backbones[name], TEXTS).lengths.numpy())
    found = []
    for unpadded in (False, True):
        backbone = dropping(backbones[name])
        pooled = vectors(backbone, unpadded=unpadded, **options)
        pooled.square().sum().backward()
        weights = dict(backbone.model.named_parameters())
        found.append({key: weight.grad for key, weight in weights.items() if weight.grad is not None})
        found[-1]["vectors"] = pooled.detach()
    assert found[0].keys() == found[1].keys()
    assert not torch.equal(found[0]["vectors"], found[1]["vectors"])  # computed in another order
    for key, one in found[0].items():
        # Gradients are up to 20 here; the bar is a millionth of the largest of a weight.
        torch.testing.assert_close(one, found[1][key], atol=1e-6 * max(1.0, float(one.abs().max())), rtol=0)


def test_padding_is_left_out_where_that_saves_enough():
    for lengths, worth in [([20] * 64, False), ([5, 60] * 32, True), ([30, 31] * 8, False), ([7], False)]:
        assert transformer.worth_unpadding(np.array(lengths)) is worth


def test_a_text_attends_to_itself_alone():
    layout = Layout(np.array([2, 3]), [np.array([1, 0])], heads=1, device=torch.device("cpu"))
    value = torch.tensor([1.0, 3.0, 5.0, 6.0, 7.0])[:, None, None]  # (tokens, heads, dim)
    alike = torch.zeros(5, 1, 1)
    found = attend(alike, alike, value, layout, scale=1.0, window=(-1, -1), dropout=0.0)
    assert found.flatten().tolist() == [2, 2, 6, 6, 6]
    causal = attend(alike, alike, value, layout, scale=1.0, window=(1, 0), dropout=0.0)
    assert causal.flatten().tolist() == [1, 2, 5, 5.5, 6.5]


def test_other_models_and_other_attentions_pad(backbones):
    for option, value in [
        ("model_type", "mpnet"),
        ("is_decoder", True),
        ("is_causal", False),
    ]:
        model = copy.deepcopy(backbones["llama"].model)
        assert trainable(model)
        setattr(model.config, option, value)
        assert not trainable(model)
    eager = copy.copy(backbones["llama"])
    eager.attention = "eager"
    padded = vectors(backbones["llama"], dropout=False, unpadded=False)
    assert torch.equal(vectors(eager, dropout=False), padded)


def test_gradient_checkpointing_and_replaced_passes_pad(backbones):
    model = copy.deepcopy(backbones["bert"].model).train()
    pretrained.enable(model)
    assert not trainable(model)
    assert trainable(model.eval())
    model.forward = model.forward
    assert not trainable(model)


@pytest.fixture
def flash_kernel() -> Iterator[None]:
    with pretended_attention.on_a_processor():
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("flash_kernel")
@pytest.mark.parametrize("name", [*FAMILIES, WINDOWED])
def test_a_compiled_pass_by_the_flash_kernel_is_one_graph_for_texts_of_any_number_and_length(backbones, name):
    plain = copy.deepcopy(backbones[name]).train()
    for layer in plain.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    fast = copy.deepcopy(plain)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    fast.model.forward = compiled(fast.model)
    for texts in (TEXTS, TEXTS[1:4], TEXTS[::-1], TEXTS[:4]):
        tokens = tokens_of(plain, texts)
        lengths = tokens.lengths.numpy()
        real = np.arange(lengths.max()) < lengths[:, None]  # (texts, width)
        ids = np.full(real.shape, plain.filler)  # (texts, width)
        ids[real] = tokens.ids.numpy()
        vectors = [last_layer(backbone.model, ids, real, None) for backbone in (plain, fast)]
        side_by_side = last_layer(plain.model, ids, real, [np.arange(len(texts))])
        for found in vectors:
            torch.testing.assert_close(found, side_by_side, atol=1e-5, rtol=0)
        for backbone, found in zip((plain, fast), vectors, strict=True):
            backbone.zero_grad()
            found.square().sum().backward()
        grads = [
            {name: weight.grad for name, weight in backbone.named_parameters() if weight.grad is not None}
            for backbone in (plain, fast)
        ]
        assert grads[1].keys() == grads[0].keys()
        bar = 1e-5 * max(float(grad.abs().max()) for grad in grads[0].values())
        for key, grad in grads[0].items():
            torch.testing.assert_close(grads[1][key], grad, atol=bar, rtol=0)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*FAMILIES, WINDOWED])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_kernel_is_as_near_to_float32_as_a_padded_pass_is(backbones, name, dtype):
    with torch.no_grad():
        expected = vectors(copy.deepcopy(backbones[name]), unpadded=False)
    errors, grads = {}, {}
    for kind in ("padded", "flat"):
        backbone = copy.deepcopy(backbones[name]).to("cuda")
        backbone.attention = "sdpa" if kind == "flat" else ""  # another one pads
        with torch.autocast("cuda", dtype):
            assert usable(backbone.model)
            found = vectors(backbone).float()
        found.square().sum().backward()
        errors[kind] = float((found.detach().cpu() - expected).norm() / expected.norm())
        weights = dict(backbone.model.named_parameters())
        grads[kind] = {key: weight.grad for key, weight in weights.items() if weight.grad is not None}
    assert errors["flat"] <= 2 * errors["padded"] + 1e-3
    assert grads["flat"].keys() == grads["padded"].keys()
    for key, grad in grads["padded"].items():
        assert (grads["flat"][key] - grad).norm() <= 0.05 * grad.norm() + 1e-3
