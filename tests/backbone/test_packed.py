"""Linear layers from packed weights, and whole layers of a BERT, against the plain ones."""

import pytest
import torch
from minilm import minilm_folder
from torch import nn
from torch.nn import functional
from transformers import AutoModel, LlamaConfig

from embedrun.backbone import bert
from embedrun.backbone.packed import LONG, WORTH, attention, available, packed
from embedrun.encoder import Encoder

needs_operators = pytest.mark.skipif(
    not available(torch.float32), reason="this build of torch has no such operators"
)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 8, bias=False)).eval()


@pytest.fixture(scope="module")
def minilm() -> bert.Bert:
    found = Encoder.load(minilm_folder()).backbone.encoding
    assert isinstance(found, bert.Bert)
    return found


def swapped(model):
    """Names of the modules that compute otherwise than their class."""
    return [name for name, layer in model.named_modules() if "forward" in vars(layer)]


def compute(model, *inputs, dtype=torch.float32, tokens=WORTH, **named):
    with torch.no_grad(), packed(model, tokens=tokens, dtype=dtype):
        return model(*inputs, **named)


@needs_operators
def test_a_transformer_gives_the_same_token_vectors_packed():
    config = LlamaConfig(
        vocab_size=60, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=72
    )
    model = AutoModel.from_config(config).eval()
    ids = torch.arange(5, 49).reshape(4, 11)
    with torch.no_grad():
        plain = model(input_ids=ids).last_hidden_state
        with packed(model, tokens=WORTH, dtype=torch.float32) as whole:
            names = swapped(model)
            same = model(input_ids=ids).last_hidden_state
    assert not whole
    assert names == [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    torch.testing.assert_close(same, plain, rtol=0, atol=1e-5)


def test_everything_is_as_before_after_an_exception(model):
    parameters = dict(model.named_parameters())
    with pytest.raises(KeyboardInterrupt), torch.no_grad(), packed(model, tokens=WORTH, dtype=torch.float32):
        raise KeyboardInterrupt
    assert swapped(model) == []
    assert all(value is parameters[name] for name, value in model.named_parameters())


def test_layers_compute_as_ever_where_the_operators_are_not_there(model, monkeypatch):
    available.cache_clear()
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    inputs = torch.ones(3, 24)
    with torch.no_grad():
        assert torch.equal(compute(model, inputs), model(inputs))
    available.cache_clear()


def test_few_tokens_and_recorded_gradients_leave_the_layers_alone(model):
    with torch.no_grad(), packed(model, tokens=WORTH - 1, dtype=torch.float32):
        assert swapped(model) == []
    with packed(model, tokens=WORTH, dtype=torch.float32):
        assert swapped(model) == []
    with torch.no_grad(), packed(model, tokens=WORTH, dtype=torch.float32), torch.enable_grad():
        model(torch.ones(3, 24)).sum().backward()
    assert model[0].weight.grad is not None


@pytest.mark.parametrize(("texts", "tokens"), [(4, 17), (4, LONG), (600, 20)])
def test_attention_is_that_of_torch(texts, tokens):
    for padding in [True, False]:
        three = torch.randn(texts, tokens, 3 * 24, generator=torch.Generator().manual_seed(1))
        lengths = torch.tensor([1, 2, tokens - 1, tokens]).repeat(texts // 4)[:, None]  # (texts, 1)
        seen = (torch.arange(tokens) < lengths)[:, None, None] if padding else None  # (texts, 1, 1, tokens)
        query, key, value = three.view(texts, tokens, 3, 3, 8).permute(2, 0, 3, 1, 4)
        expected = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        found = attention(three, 3, seen)
        torch.testing.assert_close(
            found, expected.transpose(1, 2).reshape(texts, tokens, 24), rtol=0, atol=2e-6
        )


@needs_operators
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_whole_layers_of_a_bert_give_its_token_vectors(minilm, dtype):
    if not available(dtype):
        pytest.skip("torch has these operators for processors with AVX-512 alone")
    ids = torch.randint(1000, 20_000, (5, 40), generator=torch.Generator().manual_seed(2))
    mask = (torch.arange(40) < torch.tensor([40, 38, 3, 17, 39])[:, None]).long()
    with torch.no_grad():
        exact = minilm(ids, mask).last_hidden_state
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            plain = minilm(ids, mask).last_hidden_state
            with packed(minilm, tokens=WORTH, dtype=dtype) as whole:
                names = swapped(minilm)
                found = minilm(ids, mask).last_hidden_state
    assert whole
    assert sorted(names) == [*(f"encoder.layer.{number}" for number in range(6)), "pooler.dense"]
    assert swapped(minilm) == []
    farthest, own = (float((one - exact)[mask.bool()].norm()) for one in (plain, found))
    assert own <= 1.05 * farthest if dtype == torch.bfloat16 else own < 1e-3
