"""Linear layers from packed weights, and passes without padding."""

import contextlib
import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import small_models
import torch
from minilm import minilm_folder
from torch import nn
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModel, BertConfig, LlamaConfig, Qwen2Config

from embedrun.backbone import Backbone, fast, load, pretrained, transformer
from embedrun.backbone.attention import Layout
from embedrun.backbone.fast import packed
from embedrun.batch import Tokens
from embedrun.config import BackboneConfig
from embedrun.pooling import Pooling

MANY = fast._WORTH
TYPES = [torch.float32, torch.bfloat16]

needs_operators = pytest.mark.skipif(
    not fast._available(torch.float32), reason="this build of torch has no such operators"
)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 8, bias=False)).eval()


@pytest.fixture
def unavailable():
    """What was found out about the operators is forgotten before and after."""
    fast._available.cache_clear()
    yield
    fast._available.cache_clear()


def minilm():
    return AutoModel.from_pretrained(minilm_folder())


SMALL: dict[str, Any] = dict(vocab_size=60, hidden_size=48, num_hidden_layers=2, num_attention_heads=4)


def tiny_bert():
    return AutoModel.from_config(BertConfig(**SMALL, intermediate_size=72))


def tiny_llama():
    """One whose linear layers have no bias."""
    return AutoModel.from_config(LlamaConfig(**SMALL, intermediate_size=72, num_key_value_heads=2))


def swapped(model):
    """Names of the layers that compute otherwise than their class."""
    return [name for name, layer in model.named_modules() if "forward" in vars(layer)]


def compute(model, inputs, *, dtype=torch.float32, tokens=MANY):
    with torch.no_grad(), packed(model, tokens=tokens, dtype=dtype):
        return model(inputs)


@needs_operators
@pytest.mark.parametrize("build", [minilm, tiny_bert, tiny_llama])
def test_a_transformer_gives_the_same_token_vectors_packed(build):
    torch.manual_seed(0)
    model = build().eval()
    ids = torch.randint(5, 50, (6, 11))
    mask = torch.ones_like(ids)
    mask[0, 7:] = 0
    with torch.no_grad():
        plain = model(input_ids=ids, attention_mask=mask).last_hidden_state
        with packed(model, tokens=MANY, dtype=torch.float32):
            names = swapped(model)
            same = model(input_ids=ids, attention_mask=mask).last_hidden_state
    linear = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    assert names == linear
    assert swapped(model) == []
    torch.testing.assert_close(same, plain, rtol=0, atol=1e-5)


@needs_operators
@pytest.mark.parametrize("shape", [(24,), (1, 24), (7, 24), (2, 5, 24), (2, 1, 5, 24), (0, 24)])
def test_inputs_of_every_shape_give_what_a_linear_layer_gives(model, shape):
    inputs = torch.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    with torch.no_grad():
        torch.testing.assert_close(compute(model, inputs), model(inputs), rtol=0, atol=1e-5)


@needs_operators
def test_an_input_that_is_not_contiguous_is_read_in_its_own_order(model):
    inputs = torch.linspace(-1, 1, 24 * 10).reshape(24, 10).T
    with torch.no_grad():
        torch.testing.assert_close(compute(model, inputs), model(inputs), rtol=0, atol=1e-5)


@needs_operators
def test_weights_that_change_between_two_uses_give_new_values(model):
    inputs = torch.ones(3, 24)
    before = compute(model, inputs)
    with torch.no_grad():
        model[2].weight.mul_(2)
    torch.testing.assert_close(compute(model, inputs), 2 * before)


@pytest.mark.parametrize("dtype", TYPES)
def test_everything_is_as_before_after_an_exception(model, dtype):
    parameters = dict(model.named_parameters())

    def fail():
        with torch.no_grad(), packed(model, tokens=MANY, dtype=dtype):
            assert swapped(model) == (["0", "2"] if fast._available(dtype) else [])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert swapped(model) == []
    assert all(value is parameters[name] for name, value in model.named_parameters())
    model(torch.ones(3, 24)).sum().backward()
    assert model[0].weight.grad is not None


def test_a_packing_that_fails_midway_leaves_no_trace(model, monkeypatch):
    done = []

    def pack(weight):
        if done:
            raise RuntimeError("no memory")
        done.append(weight)
        return weight

    monkeypatch.setattr(fast, "_available", lambda dtype: True)
    monkeypatch.setattr(fast, "_pack", pack)
    with pytest.raises(RuntimeError, match="no memory"):
        compute(model, torch.ones(3, 24))
    assert swapped(model) == []


def missing(*_):
    raise AttributeError("no such operator")


def refusing(*_):
    raise RuntimeError("no kernel for this processor")


def other_signature(*_):
    raise TypeError("too many arguments")


def wrong(vectors, *_):
    return torch.zeros(*vectors.shape[:-1], 3, dtype=vectors.dtype)


def another_type(vectors, weight, bias):
    return nn.functional.linear(vectors, weight, bias).double()


@pytest.mark.parametrize("broken", [missing, refusing, other_signature, wrong, another_type])
@pytest.mark.parametrize("dtype", TYPES)
def test_layers_compute_as_ever_where_the_operators_are_not_to_be_trusted(
    model, broken, dtype, unavailable, monkeypatch
):
    monkeypatch.setattr(fast, "_pack", lambda weight: weight)
    monkeypatch.setattr(fast, "_linear", broken)
    inputs = torch.ones(3, 24)
    with torch.no_grad():
        assert torch.equal(compute(model, inputs, dtype=dtype), model(inputs))
        with packed(model, tokens=MANY, dtype=dtype):
            assert swapped(model) == []


def test_a_torch_without_the_operators_computes_as_ever(model, unavailable, monkeypatch):
    class Bare:
        pass

    monkeypatch.setattr(torch.ops, "mkldnn", Bare())
    inputs = torch.ones(3, 24)
    with torch.no_grad():
        assert torch.equal(compute(model, inputs), model(inputs))


def test_few_tokens_and_recorded_gradients_leave_the_layers_alone(model):
    with torch.no_grad(), packed(model, tokens=MANY - 1, dtype=torch.float32):
        assert swapped(model) == []
    with packed(model, tokens=MANY, dtype=torch.float32):
        assert swapped(model) == []
        model(torch.ones(3, 24)).sum().backward()
    assert model[0].weight.grad is not None


@needs_operators
def test_gradients_that_are_switched_on_inside_are_right(model):
    with torch.no_grad(), packed(model, tokens=MANY, dtype=torch.float32), torch.enable_grad():
        model(torch.ones(3, 24)).sum().backward()
    assert model[0].weight.grad is not None


def test_a_model_whose_copies_take_too_much_memory_is_left_alone(model, monkeypatch):
    bytes_of_copies = 4 * (24 * 40 + 40 * 8)
    monkeypatch.setattr(fast, "_MEMORY", bytes_of_copies - 1)
    with torch.no_grad(), packed(model, tokens=MANY, dtype=torch.float32):
        assert swapped(model) == []


def test_only_plain_linear_layers_are_packed(model):
    class Own(nn.Linear):
        pass

    class Scale(nn.Module):
        def forward(self, weight):
            return 3 * weight

    scaled, normed, patched = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
    parametrize.register_parametrization(scaled, "weight", Scale())
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(normed)
    patched.forward = lambda input: -input  # type: ignore[method-assign]
    own, wide = Own(8, 8), nn.Linear(8, 8).double()
    others = nn.ModuleList([scaled, normed, patched, own, wide])
    assert fast._plain_layers(nn.ModuleList([model, others]), torch.float32) == [model[0], model[2]]
    with torch.no_grad(), packed(others, tokens=MANY, dtype=torch.float32):
        assert patched(torch.ones(1, 8))[0, 0] == -1
    assert swapped(others) == ["2"]


@needs_operators
def test_hooks_of_a_layer_still_run(model):
    seen = []
    hook = model[0].register_forward_hook(lambda layer, given, output: seen.append(output.shape))
    compute(model, torch.ones(3, 24))
    hook.remove()
    assert seen == [(3, 40)]


@needs_operators
def test_low_rank_adapters_give_the_same_values():
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    adapted = get_peft_model(
        tiny_bert(), LoraConfig(target_modules=["query", "value"], init_lora_weights=False)
    )
    adapted.eval()
    ids = torch.randint(5, 50, (4, 9))
    with torch.no_grad():
        plain = adapted(input_ids=ids).last_hidden_state
        with packed(adapted, tokens=MANY, dtype=torch.float32):
            same = adapted(input_ids=ids).last_hidden_state
    torch.testing.assert_close(same, plain, rtol=0, atol=1e-5)


def test_a_layer_in_bfloat16_gives_bfloat16_as_under_autocast(model):
    inputs = torch.linspace(-1, 1, 240).reshape(10, 24)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        plain = model(inputs)
        found = compute(model, inputs, dtype=torch.bfloat16)
    assert found.dtype == plain.dtype == torch.bfloat16
    torch.testing.assert_close(found, plain, rtol=0, atol=0.01)


# Longer than twice the window of the small ModernBERT, which sees 4 tokens to either side, and single words.
TEXTS = [
    "a little dog ran fast over the hill and was happy to see the big red ball again " * 2,
    "the cat",
    "a little dog ran fast over the hill",
    "who runs? nobody's cat liked that; the dogs were running, playing and barking all day",
    "cat",
]
FAMILIES = fast.FAMILIES
CPU, META = torch.device("cpu"), torch.device("meta")
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
    """Take every device and precision for one that has the kernel."""
    monkeypatch.setattr(fast, "computable", lambda model: True)


@pytest.fixture
def shapes(monkeypatch) -> list[tuple[int, ...]]:
    """The shapes of the queries that the attention without padding has been asked for."""
    seen: list[tuple[int, ...]] = []
    attend = fast.attend

    def noted(query, *rest, **options):
        seen.append(tuple(query.shape))
        return attend(query, *rest, **options)

    monkeypatch.setattr(fast, "attend", noted)
    monkeypatch.setattr(transformer, "worth_unpadding", lambda lengths: True)
    return seen


def tokens_of(backbone: Backbone, texts: list[str]) -> Tokens:
    return backbone.tokenize(texts).take(np.arange(len(texts)))


def padded(backbone: Backbone, texts: list[str], pool=MEAN, **options) -> torch.Tensor:
    """The vectors of a padded pass, whatever the machine could do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast, "computable", lambda model: False)
        return backbone(tokens_of(backbone, texts), pool, **options)


def unpadded(backbone: Backbone, texts: list[str], pool=MEAN, **options) -> torch.Tensor:
    return backbone(tokens_of(backbone, texts), pool, unpadded=True, **options)


@pytest.mark.parametrize("name", [*FAMILIES, "qwen2 with windows"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last_token"])
def test_vectors_are_those_of_a_padded_pass(backbones, name, pooling, shapes):
    backbone, pool = backbones[name], Pooling(pooling)
    tokens = tokens_of(backbone, TEXTS)
    with torch.no_grad():
        found = unpadded(backbone, TEXTS, pool)
        torch.testing.assert_close(found, padded(backbone, TEXTS, pool), atol=1e-6, rtol=1e-6)
    assert shapes == [(len(tokens.ids), 2, 8)] * 2  # one pass of two layers, and no token of padding


def dropping(backbone: Backbone) -> Backbone:
    """A copy in training mode that drops a tenth of the attention's weights, whatever its configuration."""
    found = copy.deepcopy(backbone).train()
    for layer in found.model.modules():
        if hasattr(layer, "attention_dropout"):
            layer.attention_dropout = 0.1
    return found


@pytest.mark.parametrize("options", [{"dropout": False}, {"seeds": torch.arange(5)}], ids=["none", "seeded"])
@pytest.mark.parametrize("name", [*FAMILIES, "qwen2 with windows"])
def test_a_step_of_training_is_that_of_a_padded_pass(backbones, name, options, shapes):
    found = []
    for run in (padded, unpadded):
        backbone = dropping(backbones[name])
        vectors = run(backbone, TEXTS, **options)
        vectors.square().sum().backward()
        weights = dict(backbone.model.named_parameters())
        found.append({key: weight.grad for key, weight in weights.items() if weight.grad is not None})
        found[-1]["vectors"] = vectors.detach()
    assert len(shapes) == 2
    assert found[0].keys() == found[1].keys()
    for key, one in found[0].items():
        # Gradients are up to 20 here; the bar is a millionth of the largest of a weight.
        torch.testing.assert_close(one, found[1][key], atol=1e-6 * max(1.0, float(one.abs().max())), rtol=0)


def test_seeds_drop_other_elements_than_none_and_others_again(backbones):
    backbone = dropping(backbones["bert"])
    with torch.no_grad():
        one, other = (unpadded(backbone, TEXTS, seeds=torch.arange(5) + start) for start in (0, 1))
        assert (one - unpadded(backbone, TEXTS, dropout=False)).abs().max() > 0.01
        assert (one - other).abs().max() > 0.01
        # A text is the same among others, in another place of the batch.
        turned = unpadded(backbone, TEXTS[::-1], seeds=torch.arange(5).flip(0))
    torch.testing.assert_close(turned.flip(0), one, atol=1e-6, rtol=1e-6)


def test_dropout_without_seeds_repeats_with_the_random_state_of_torch(backbones):
    backbone = dropping(backbones["bert"])
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(unpadded(backbone, TEXTS).detach())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_a_pass_in_bfloat16_is_as_near_to_float32_as_a_padded_one(backbones, shapes):
    backbone = backbones["bert"]
    exact = padded(backbone, TEXTS).detach()
    with torch.autocast("cpu", torch.bfloat16):
        errors = [float((run(backbone, TEXTS) - exact).detach().abs().max()) for run in (padded, unpadded)]
    assert shapes
    assert errors[1] <= 2 * errors[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_text_is_blind_to_those_before_and_behind_it(backbones, name, shapes):
    backbone = backbones[name]
    with torch.no_grad():
        alone = padded(backbone, TEXTS[2:3])
        among = unpadded(backbone, TEXTS)
    assert shapes
    torch.testing.assert_close(among[2:3], alone, atol=1e-5, rtol=0)


def test_a_padding_token_inside_a_text_has_no_position_in_roberta(backbones, shapes):
    backbone = backbones["roberta"]
    texts = ["a dog <pad> ran", "cat"]
    assert backbone.tokenizer.pad_token_id in backbone.tokenize(texts[:1]).ids
    with torch.no_grad():
        found = unpadded(backbone, texts)
        torch.testing.assert_close(found, padded(backbone, texts), atol=1e-5, rtol=0)
    assert shapes


def test_the_budget_still_bounds_a_pass(backbones, shapes):
    backbone = backbones["bert"]
    tokens = tokens_of(backbone, TEXTS)
    with torch.no_grad():
        parts = list(backbone.parts(tokens, MEAN, budget=int(tokens.lengths.max()), unpadded=True))
    assert sorted(np.concatenate([index for index, _ in parts]).tolist()) == [0, 1, 2, 3, 4]
    assert max((count for count, _, _ in shapes), default=0) <= tokens.lengths.max()


def test_texts_of_one_length_need_no_other_attention(backbones, shapes):
    backbone = backbones["bert"]
    unpadded(backbone, ["the cat", "the dog"])
    assert shapes == []


@pytest.mark.parametrize("options", [{"padded_to": 20}, {"all_layers": True}], ids=str)
def test_what_needs_padding_or_inner_layers_gets_them(backbones, options, shapes):
    unpadded(backbones["bert"], TEXTS, **options)
    assert shapes == []


def test_a_processor_pads_unless_told_otherwise(backbones, shapes):
    backbone = backbones["bert"]
    backbone(tokens_of(backbone, TEXTS), MEAN)
    assert shapes == []


def test_dropout_inside_the_attention_pads_where_torch_has_no_operator_for_it(
    backbones, anywhere, monkeypatch
):
    model = copy.deepcopy(backbones["bert"].model).train()
    assert model.config.attention_probs_dropout_prob == 0.1
    assert fast.usable(model)
    monkeypatch.setattr(fast, "_operator", lambda: None)
    assert not fast.usable(model)
    assert fast.usable(model.eval())
    model.config.attention_probs_dropout_prob = 0.0
    assert fast.usable(model.train())


@pytest.mark.parametrize("lacking", ["dropout_p", "window_size_left", "everything"])
def test_an_operator_of_other_arguments_is_not_called(monkeypatch, lacking):
    assert fast._operator() is not None
    names = [argument.name for argument in fast._operator().default._schema.arguments]
    other = SimpleNamespace(arguments=[SimpleNamespace(name=name) for name in names if name != lacking])
    packet = None if lacking == "everything" else SimpleNamespace(default=SimpleNamespace(_schema=other))
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", packet)
    assert fast._operator.__wrapped__() is None


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_keys_are_repeated_only_where_there_are_fewer_and_dropout_is_passed_on(monkeypatch, dropout):
    calls = []
    monkeypatch.setattr(fast, "_kernel", lambda: lambda *given, **_: calls.append(given) or given[0])
    monkeypatch.setattr(fast, "_operator", lambda: lambda *given, **_: calls.append(given) or [given[0]])
    layer = nn.Module()
    layer.is_causal = True
    query, key, value = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 4, 5, 8)
    ends = torch.tensor([0, 2, 5], dtype=torch.int32)
    found, _ = fast._attend(
        layer, query, key, value, None, cu_seq_lens_q=ends, max_length_q=3, dropout=dropout
    )
    one, other, third, *_, longest = calls[0][:7]
    assert torch.equal(found[0], query[0].transpose(0, 1))
    assert one.data_ptr() == query.data_ptr()
    assert third.data_ptr() == value.data_ptr()
    assert torch.equal(other[:, 3], key[0, 1])
    assert longest == 3
    assert calls[0][7:] == ((0.3, True, False) if dropout else ())


@pytest.mark.parametrize("name", ["bert", "roberta", "llama", "qwen2"])
@pytest.mark.parametrize("seeded", [False, True])
def test_a_padded_pass_does_not_wait_for_the_device(backbones, name, seeded, monkeypatch):
    monkeypatch.setattr(transformer, "fitting", contextlib.nullcontext)  # knows no such device
    backbone = copy.deepcopy(backbones[name]).to(META).train()  # reading a number of it is an error
    tokens = tokens_of(backbones[name], TEXTS)
    copies = []

    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            target = (kwargs or {}).get("device")
            if func is torch.ops.aten._to_copy.default and (args[0].device, target) == (CPU, META):
                copies.append((kwargs or {}).get("non_blocking", False))
            return func(*args, **(kwargs or {}))

    with Copies():
        backbone(tokens, MEAN, seeds=torch.arange(len(TEXTS)) if seeded else None).sum().backward()
    assert copies
    assert all(copies)


@pytest.mark.parametrize("name", [*FAMILIES, "qwen2 with windows"])
def test_the_mask_of_a_layer_gives_what_that_of_the_texts_gives(backbones, name):
    model = backbones[name].model
    ids = torch.randint(5, 50, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(9) < torch.tensor([9, 4, 1])[:, None]).long()
    seen = fast.mask_for(model, mask)
    with torch.no_grad():
        plain, same = (model(ids, attention_mask=one).last_hidden_state for one in (mask, seen))
    assert torch.equal(plain[mask.bool()], same[mask.bool()])
    assert (seen is mask) is (name in ("modernbert", "qwen2 with windows"))


def test_training_on_a_processor_takes_every_type_with_dropout_but_no_second_pass(backbones):
    for name in FAMILIES:
        model = copy.deepcopy(backbones[name].model).train()
        assert fast.trainable(model)
        pretrained.enable(model)
        assert not fast.trainable(model)


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


def test_the_attention_is_back_after_a_failure(backbones, monkeypatch):
    backbone = backbones["bert"]

    def fails(*_, **__):
        raise KeyError

    monkeypatch.setattr(fast, "attend", fails)
    with pytest.raises(KeyError):
        unpadded(backbone, TEXTS)
    assert backbone.model.config._attn_implementation == "sdpa"


def test_padding_is_zeros(backbones):
    model = backbones["bert"].model
    ids, real = np.array([[2, 7, 3], [2, 3, 0]]), np.array([[True, True, True], [True, True, False]])
    with torch.no_grad():
        found = fast.last_layer(model, ids, real, [np.arange(2)])
    assert found.shape == (2, 3, 16)
    assert found[1, 2].tolist() == [0.0] * 16
    assert found[1, 1].abs().sum() > 0


def test_neighbouring_heads_of_queries_share_a_head_of_keys():
    layer = nn.Module()
    layer.is_causal = False
    ends = torch.tensor([0, 2, 5], dtype=torch.int32)
    value = torch.tensor([1.0, 7.0])[None, :, None, None].expand(1, 2, 5, 8)
    query, key = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8)
    layout = Layout(np.array([2, 3]), [np.array([1, 0])], heads=4)
    found, _ = fast._attend(layer, query, key, value, None, cu_seq_lens_q=ends, max_length_q=3, layout=layout)
    expected = torch.tensor([1.0, 1.0, 7.0, 7.0])[None, None, :, None].expand(1, 5, 4, 8)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("window", [None, 3])
def test_torch_has_the_kernel_with_the_arguments_that_it_is_given(monkeypatch, window, dropout):
    monkeypatch.setattr(fast, "_computed_in", lambda tensor: tensor.dtype)
    layer = nn.Module()
    layer.is_causal = False
    query, key, value = (  # (1, heads, tokens, dim) each, on no device: nothing is computed
        torch.empty(1, heads, 9, 8, dtype=torch.bfloat16, device="meta", requires_grad=True)
        for heads in (4, 2, 2)
    )
    ends = torch.empty(4, dtype=torch.int32, device="meta")
    found, _ = fast._attend(
        layer, query, key, value, None, cu_seq_lens_q=ends, max_length_q=5, dropout=dropout, scaling=0.3,
        sliding_window=window,
    )  # fmt: skip
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
