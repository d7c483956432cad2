"""From a name to model and tokenizer; layers that are computed twice."""

import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
)

from embedrun.backbone import adapter, load, pretrained
from embedrun.backbone.dropout import SeededDropout
from embedrun.backbone.pretrained import read
from embedrun.backbone.ran import RanConfig, RanModel
from embedrun.backbone.scratch import make
from embedrun.config import AdapterConfig, BackboneConfig, ScratchConfig
from embedrun.errors import ConfigError, DataError

SHAPE = ScratchConfig(vocabulary=60, layers=1, width=8, heads=2, positions=12)
TEXTS = ["a dog runs", "a cat sits"]


@pytest.fixture
def folder(tmp_path):
    model, tokenizer = make(SHAPE, TEXTS, attention="sdpa")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def scratch(**changes):
    return BackboneConfig(**{"name": None, "scratch": SHAPE, **changes})


def test_weights_stored_in_half_precision_are_read_in_float32(folder):
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: weight.half() for name, weight in weights.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float16"}))
    model, _ = read(folder, attention="sdpa")
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


class _Hostile:
    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return open, (str(self.canary), "w")


def test_code_inside_torch_weights_does_not_run(folder):
    canary = folder / "canary"
    (folder / "model.safetensors").unlink()
    torch.save({"weight": _Hostile(canary)}, folder / "pytorch_model.bin")
    with pytest.raises(DataError, match="cannot be read as a model"):
        read(folder, attention="sdpa")
    assert not canary.exists()
    pickle.loads(pickle.dumps(_Hostile(canary))).close()  # the same object does run where code is allowed
    assert canary.exists()


def test_a_model_that_brings_its_own_code_is_refused_and_the_code_does_not_run(folder):
    canary = folder / "canary"
    (folder / "own.py").write_text(f"open({str(canary)!r}, 'w')\nclass Own: pass\n")
    config = {"model_type": "own-kind", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Own"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match="code that comes with a model is never run"):
        read(folder, attention="sdpa")
    assert not canary.exists()


def test_a_known_architecture_is_read_without_the_code_beside_it(folder):
    canary = folder / "canary"
    (folder / "own.py").write_text(f"open({str(canary)!r}, 'w')\nclass Own: pass\n")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "own.Own"}}))
    model, _ = read(folder, attention="sdpa")
    assert isinstance(model, BertModel)
    assert not canary.exists()


@pytest.mark.parametrize(
    "says",
    [
        {"_attn_implementation": "kernels-community/flash-attn2"},
        {"_experts_implementation": "sonicmoe"},
    ],
)
def test_no_kernel_of_the_hub_is_fetched(folder, says, monkeypatch):
    def fetch(*_: object, **__: object) -> None:
        raise AssertionError("a kernel is fetched")

    monkeypatch.setattr("transformers.integrations.hub_kernels.get_kernel", fetch)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **says}))
    with pytest.raises(DataError, match=r"config\.json: .*implementation.* is none of .*code to fetch from"):
        read(folder, attention="sdpa")
    with pytest.raises(DataError, match="code to fetch from the hub"):
        load(BackboneConfig(name=str(folder)), seed=0, encodes_only=True)


def test_weights_that_lack_a_layer_are_refused_but_a_lacking_pooler_is_not(folder):
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    read(folder, attention="sdpa")
    del kept["encoder.layer.0.output.dense.weight"]
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"lack 1 .*encoder\.layer\.0\.output\.dense\.weight"):
        read(folder, attention="sdpa")


def test_a_pooler_that_the_file_lacks_depends_on_the_seed_alone(folder):
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    before = torch.get_rng_state()
    first, again = (load(BackboneConfig(name=str(folder)), seed=3).model for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.pooler.dense.weight, again.pooler.dense.weight)
    assert not first.pooler.dense.weight.requires_grad


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (scratch(name="x"), "either name says"),
        (BackboneConfig(name=None), "either name says"),
        (scratch(max_length=13), "13 tokens asked for, and the model has 12 positions"),
        (scratch(revision="main"), "name is null"),
    ],
)
def test_options_that_contradict_each_other_are_refused(config, says):
    with pytest.raises(ConfigError, match=says):
        load(config, TEXTS, seed=0)


def test_a_model_without_sdpa_is_read_with_eager_attention(folder):
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    MPNetModel(MPNetConfig(vocab_size=60, **shape)).save_pretrained(folder)
    model, _ = read(folder, attention="sdpa")
    assert model.config.model_type == "mpnet"
    assert model.config._attn_implementation == "eager"


RECOMPUTE_SHAPE = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 24}
_RAN = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "head_size": 8}
IDS = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 6, 5], [5, 5, 6, 6, 7]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])
KINDS = ("bert", "modernbert", "llama with an adapter", "ran")


def model_of(kind: str):
    torch.manual_seed(0)
    if kind == "bert":
        model = BertModel(BertConfig(**RECOMPUTE_SHAPE, num_attention_heads=2))
    elif kind == "modernbert":
        tokens = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")}
        dropout = {"attention_dropout": 0.1, "mlp_dropout": 0.1, "embedding_dropout": 0.1}
        model = ModernBertModel(
            ModernBertConfig(**RECOMPUTE_SHAPE, **tokens, **dropout, num_attention_heads=2)
        )
    elif kind == "ran":
        model = RanModel(RanConfig(**_RAN, window=2, min_window=1, dropout=0.1))
    else:
        model = LlamaModel(LlamaConfig(**RECOMPUTE_SHAPE, num_attention_heads=2, attention_dropout=0.1))
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


@pytest.mark.parametrize(("kind", "seeded"), [("bert", False), *((kind, True) for kind in KINDS)])
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
