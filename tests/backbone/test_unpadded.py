import copy

import numpy as np
import pytest
import small_models
import torch
from torch import nn
from transformers import AutoModel, Qwen2Config

from embedrun.backbone import Backbone, fast, load, pretrained
from embedrun.batch import Tokens
from embedrun.config import BackboneConfig
from embedrun.pooling import Pooling

# Longer than twice the window of the small ModernBERT, which sees 4 tokens to either side, and single words.
TEXTS = [
    "a little dog ran fast over the hill and was happy to see the big red ball again " * 2,
    "the cat",
    "a little dog ran fast over the hill",
    "who runs? nobody's cat liked that; the dogs were running, playing and barking all day",
    "cat",
]
FAMILIES = fast.FAMILIES
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
    found["qwen2 with windows"] = Backbone(
        windowed, plain.tokenizer, max_length=plain.max_length, declared=plain.declared, origin={}
    )
    return found


@pytest.fixture
def anywhere(monkeypatch) -> None:
    """Take every device and precision for one that has the kernel; text by text is what computes then."""
    monkeypatch.setattr(fast, "computable", lambda model: True)


@pytest.fixture
def shapes(monkeypatch) -> list[tuple[int, ...]]:
    """The shapes of the queries that the attention without padding has been asked for."""
    seen: list[tuple[int, ...]] = []
    attend = fast._one_by_one

    def noted(own, ends, *rest):
        seen.append(tuple(own[0].shape))
        return attend(own, ends, *rest)

    monkeypatch.setattr(fast, "_one_by_one", noted)
    return seen


def tokens_of(backbone: Backbone, texts: list[str]) -> Tokens:
    return backbone.tokenize(texts).take(np.arange(len(texts)))


def padded(backbone: Backbone, texts: list[str], pool=MEAN, **options) -> torch.Tensor:
    """The vectors of a padded pass, whatever the machine could do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast, "computable", lambda model: False)
        return backbone(tokens_of(backbone, texts), pool, **options)


@pytest.mark.parametrize("name", [*FAMILIES, "qwen2 with windows"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last_token"])
def test_vectors_are_those_of_a_padded_pass(backbones, name, pooling, anywhere, shapes):
    backbone, pool = backbones[name], Pooling(pooling)
    tokens = tokens_of(backbone, TEXTS)
    with torch.no_grad():
        found = backbone(tokens, pool)
        torch.testing.assert_close(found, padded(backbone, TEXTS, pool), atol=1e-5, rtol=0)
    assert shapes == [(len(tokens.ids), 2, 8)] * 2  # one pass of two layers, and no token of padding


@pytest.mark.parametrize("name", ["roberta", "modernbert", "llama", "qwen2"])
def test_gradients_are_those_of_a_padded_pass(backbones, name, anywhere, shapes):
    grads = []
    for run in (padded, lambda backbone, texts: backbone(tokens_of(backbone, texts), MEAN)):
        backbone = copy.deepcopy(backbones[name])  # in evaluation mode: no dropout
        run(backbone, TEXTS).square().sum().backward()
        grads.append([weight.grad for weight in backbone.model.parameters() if weight.grad is not None])
    assert shapes
    assert len(grads[0]) == len(grads[1])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_text_is_blind_to_those_before_and_behind_it(backbones, name, anywhere, shapes):
    backbone = backbones[name]
    with torch.no_grad():
        alone = backbone(tokens_of(backbone, TEXTS[2:3]), MEAN)
        among = backbone(tokens_of(backbone, TEXTS), MEAN)
    assert shapes
    torch.testing.assert_close(among[2:3], alone, atol=1e-5, rtol=0)


def test_a_padding_token_inside_a_text_has_no_position_in_roberta(backbones, anywhere, shapes):
    backbone = backbones["roberta"]
    texts = ["a dog <pad> ran", "cat"]
    assert backbone.tokenizer.pad_token_id in backbone.tokenize(texts[:1]).ids
    with torch.no_grad():
        found = backbone(tokens_of(backbone, texts), MEAN)
        torch.testing.assert_close(found, padded(backbone, texts), atol=1e-5, rtol=0)
    assert shapes


def test_the_budget_still_bounds_a_pass(backbones, anywhere, shapes):
    backbone = backbones["bert"]
    tokens = tokens_of(backbone, TEXTS)
    with torch.no_grad():
        parts = list(backbone.parts(tokens, MEAN, budget=int(tokens.lengths.max())))
    assert sorted(np.concatenate([index for index, _ in parts]).tolist()) == [0, 1, 2, 3, 4]
    assert max((count for count, _, _ in shapes), default=0) <= tokens.lengths.max()


def test_texts_of_one_length_need_no_other_attention(backbones, anywhere, shapes):
    backbone = backbones["bert"]
    backbone(tokens_of(backbone, ["the cat", "the dog"]), MEAN)
    assert shapes == []


@pytest.mark.parametrize(
    "options", [{"seeds": torch.arange(5)}, {"padded_to": 20}, {"all_layers": True}], ids=str
)
def test_what_needs_rows_of_texts_or_padding_gets_them(backbones, options, anywhere, shapes):
    backbone = backbones["bert"]
    backbone(tokens_of(backbone, TEXTS), MEAN, **options)
    assert shapes == []


def test_dropout_inside_the_attention_pads(backbones, anywhere):
    model = copy.deepcopy(backbones["bert"].model)
    assert model.config.attention_probs_dropout_prob == 0.1
    assert fast.usable(model.eval())
    assert not fast.usable(model.train())
    model.config.attention_probs_dropout_prob = 0.0
    assert fast.usable(model)


def test_a_pass_without_dropout_in_training_is_without_padding(backbones, anywhere, shapes):
    backbone = copy.deepcopy(backbones["bert"]).train()
    backbone(tokens_of(backbone, TEXTS), MEAN)
    assert shapes == []
    backbone(tokens_of(backbone, TEXTS), MEAN, dropout=False)
    assert len(shapes) == 2


def test_gradient_checkpointing_pads_while_it_trains(backbones, anywhere):
    model = copy.deepcopy(backbones["modernbert"].model).train()
    assert fast.usable(model)
    pretrained.enable(model)
    assert not fast.usable(model)
    assert fast.usable(model.eval())


def test_a_pass_of_somebody_elses_making_pads(backbones, anywhere):
    model = copy.deepcopy(backbones["llama"].model)
    assert fast.usable(model)
    model.forward = model.forward
    assert not fast.usable(model)


@pytest.mark.parametrize(
    ("option", "value"),
    [("model_type", "mpnet"), ("_attn_implementation", "eager"), ("is_decoder", True), ("is_causal", False)],
)
def test_other_models_and_other_attentions_pad(backbones, anywhere, option, value):
    model = copy.deepcopy(backbones["llama"].model)
    assert fast.usable(model)
    setattr(model.config, option, value)
    assert not fast.usable(model)


def test_a_cpu_pads(backbones):
    with torch.autocast("cpu", torch.bfloat16):
        assert not fast.usable(backbones["llama"].model)


def test_the_attention_is_back_after_a_failure(backbones, anywhere, monkeypatch):
    backbone = backbones["bert"]

    def fails(*_):
        raise KeyError

    monkeypatch.setattr(fast, "_one_by_one", fails)
    with pytest.raises(KeyError):
        backbone(tokens_of(backbone, TEXTS), MEAN)
    assert backbone.model.config._attn_implementation == "sdpa"


def test_padding_is_zeros(backbones, anywhere):
    model = backbones["bert"].model
    ids, real = np.array([[2, 7, 3], [2, 3, 0]]), np.array([[True, True, True], [True, True, False]])
    with torch.no_grad():
        found = fast.last_layer(model, ids, real)
    assert found.shape == (2, 3, 16)
    assert found[1, 2].tolist() == [0.0] * 16
    assert found[1, 1].abs().sum() > 0


def test_neighbouring_heads_of_queries_share_a_head_of_keys():
    layer = nn.Module()
    layer.is_causal = False
    ends = torch.tensor([0, 2, 5], dtype=torch.int32)
    value = torch.tensor([1.0, 7.0])[None, :, None, None].expand(1, 2, 5, 8)
    query, key = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8)
    found, _ = fast._attend(layer, query, key, value, None, cu_seq_lens_q=ends, max_length_q=3)
    expected = torch.tensor([1.0, 1.0, 7.0, 7.0])[None, None, :, None].expand(1, 5, 4, 8)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("window", [None, 3])
def test_torch_has_the_kernel_with_the_arguments_that_it_is_given(monkeypatch, window):
    monkeypatch.setattr(fast, "_computed_in", lambda tensor: tensor.dtype)
    layer = nn.Module()
    layer.is_causal = False
    query, key, value = (  # (1, heads, tokens, dim) each, on no device: nothing is computed
        torch.empty(1, heads, 9, 8, dtype=torch.bfloat16, device="meta", requires_grad=True)
        for heads in (4, 2, 2)
    )
    ends = torch.empty(4, dtype=torch.int32, device="meta")
    found, _ = fast._attend(
        layer, query, key, value, None, cu_seq_lens_q=ends, max_length_q=5, scaling=0.3, sliding_window=window
    )
    assert found.shape == (1, 9, 4, 8)
    found.sum().backward()
    assert key.grad is not None
    assert key.grad.shape == key.shape


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*FAMILIES, "qwen2 with windows"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_kernel_is_as_near_to_float32_as_a_padded_pass_is(backbones, name, dtype):
    exact = copy.deepcopy(backbones[name])
    with torch.no_grad():
        expected = padded(exact, TEXTS)
    errors, grads = {}, {}
    for kind, run in (("padded", padded), ("flat", lambda one, texts: one(tokens_of(one, texts), MEAN))):
        backbone = copy.deepcopy(backbones[name]).to("cuda")
        with torch.autocast("cuda", dtype):
            assert fast.usable(backbone.model)
            found = run(backbone, TEXTS).float()
        found.square().sum().backward()
        errors[kind] = float((found.detach().cpu() - expected).norm() / expected.norm())
        weights = dict(backbone.model.named_parameters())
        grads[kind] = {key: weight.grad for key, weight in weights.items() if weight.grad is not None}
    assert errors["flat"] <= 2 * errors["padded"] + 1e-3
    assert grads["flat"].keys() == grads["padded"].keys()
    for key, grad in grads["padded"].items():
        assert (grads["flat"][key] - grad).norm() <= 0.05 * grad.norm() + 1e-3
