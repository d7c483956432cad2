import pytest
import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel, ModernBertConfig, ModernBertModel

from embedrun.backbone import adapter, pretrained
from embedrun.backbone.dropout import SeededDropout
from embedrun.backbone.ran import RanConfig, RanModel
from embedrun.config import AdapterConfig
from embedrun.errors import ConfigError

SHAPE = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 24}
_RAN = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "head_size": 8}
IDS = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 6, 5], [5, 5, 6, 6, 7]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])
KINDS = ("bert", "modernbert", "llama", "llama with an adapter", "ran")


def model_of(kind: str):
    torch.manual_seed(0)
    if kind == "bert":
        model = BertModel(BertConfig(**SHAPE, num_attention_heads=2))
    elif kind == "modernbert":
        tokens = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")}
        dropout = {"attention_dropout": 0.1, "mlp_dropout": 0.1, "embedding_dropout": 0.1}
        model = ModernBertModel(ModernBertConfig(**SHAPE, **tokens, **dropout, num_attention_heads=2))
    elif kind == "ran":
        model = RanModel(RanConfig(**_RAN, window=2, min_window=1, dropout=0.1))
    else:
        model = LlamaModel(LlamaConfig(**SHAPE, num_attention_heads=2, attention_dropout=0.1))
    if "adapter" in kind:
        adapter.add(model, AdapterConfig(r=2, dropout=0.2))
        for weight in adapter.weights(model).values():
            torch.nn.init.normal_(weight)
    return model.double().train()


def gradients(model, *, seeded: bool) -> dict[str, torch.Tensor]:
    torch.manual_seed(4)
    model.zero_grad()
    seeds = torch.tensor([1, 2, 3])
    total = torch.zeros((), dtype=torch.float64)
    for _ in range(2):  # two passes, as with and without dropout; each is computed again after both
        if seeded:
            with SeededDropout(seeds, torch.device("cpu")):
                total = total + model(IDS, attention_mask=MASK).last_hidden_state.square().sum()
        else:
            total = total + model(IDS, attention_mask=MASK).last_hidden_state.square().sum()
        seeds = seeds + 10
    total.backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_under_dropout_are_those_without_to_the_last_bit(kind, seeded):
    model = model_of(kind)
    wanted = gradients(model, seeded=seeded)
    again = model_of(kind)
    pretrained.enable(again)
    found = gradients(again, seeded=seeded)
    assert wanted.keys() == found.keys()
    assert wanted
    for name, gradient in wanted.items():
        assert torch.equal(gradient, found[name]), name


def test_layers_are_computed_twice_while_training_and_once_in_use():
    model = model_of("bert")
    pretrained.enable(model)
    calls = []
    model.encoder.layer[1].intermediate.register_forward_hook(lambda *_: calls.append(1))
    model(IDS).last_hidden_state.sum().backward()
    assert len(calls) == 2
    model.eval()
    model(IDS).last_hidden_state.sum().backward()
    assert len(calls) == 3


def test_less_is_kept_for_the_backward_pass():
    kept = []
    for enabled in (False, True):
        model, sizes = model_of("bert"), []
        if enabled:
            pretrained.enable(model)
        count = lambda tensor, sizes=sizes: (sizes.append(tensor.numel()), tensor)[1]  # noqa: E731
        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            model(IDS).last_hidden_state.sum()
        kept.append(sum(sizes))
    assert kept[1] < kept[0] / 5


def test_a_model_that_cannot_is_refused(monkeypatch):
    model = model_of("bert")
    monkeypatch.setattr(type(model), "supports_gradient_checkpointing", False)
    with pytest.raises(ConfigError, match=r"gradient_checkpointing: this model \(bert\) cannot"):
        pretrained.enable(model)
