import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel, RobertaConfig, RobertaModel

from embedrun.backbone import load
from embedrun.backbone.pretrained import read
from embedrun.backbone.scratch import make
from embedrun.backbone.transformer import absolute_positions, longest_text
from embedrun.config import BackboneConfig, ScratchConfig
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


def test_torch_weights_of_plain_tensors_are_read(folder):
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    model, _ = read(folder, attention="sdpa")
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(model.state_dict()[name], weights[name])


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
    with pytest.raises(DataError, match="needs code that comes with the model"):
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


def test_an_unknown_architecture_is_named(folder):
    (folder / "config.json").write_text('{"model_type": "brt"}')
    with pytest.raises(DataError, match="model_type 'brt'"):
        read(folder, attention="sdpa")


def test_weights_that_lack_a_layer_are_refused_but_a_lacking_pooler_is_not(folder):
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    read(folder, attention="sdpa")
    del kept["encoder.layer.0.output.dense.weight"]
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"lack 1 .*encoder\.layer\.0\.output\.dense\.weight"):
        read(folder, attention="sdpa")


def test_damaged_weights_are_an_input_error(folder):
    (folder / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(DataError, match="cannot be read as a model"):
        read(folder, attention="sdpa")


def test_one_seed_gives_one_set_of_weights_and_leaves_the_random_state():
    before = torch.get_rng_state()
    first, again, other = (load(scratch(), TEXTS, seed=seed).model for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    name = "encoder.layer.0.output.dense.weight"
    assert torch.equal(first.state_dict()[name], again.state_dict()[name])
    assert not torch.equal(first.state_dict()[name], other.state_dict()[name])


def test_a_pooler_that_the_file_lacks_depends_on_the_seed_alone(folder):
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    before = torch.get_rng_state()
    first, again = (load(BackboneConfig(name=str(folder)), seed=3).model for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.pooler.dense.weight, again.pooler.dense.weight)
    assert not first.pooler.dense.weight.requires_grad


def test_the_vocabulary_texts_are_not_asked_for_where_a_name_is_given(folder):
    def never():
        raise AssertionError

    assert load(BackboneConfig(name=str(folder)), never, seed=0).dim == 8
    assert load(scratch(), lambda: TEXTS, seed=0).dim == 8


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


def test_a_new_model_without_texts_is_refused():
    with pytest.raises(ConfigError, match="needs a training set"):
        load(scratch(), None, seed=0)


@pytest.mark.parametrize(
    ("asked", "declared", "length"), [(None, None, 12), (None, 7, 7), (None, 700, 12), (9, 7, 9)]
)
def test_the_length_asked_for_wins_then_the_declared_one_within_the_positions(asked, declared, length):
    model, tokenizer = make(SHAPE, TEXTS, attention="sdpa")
    assert longest_text(model, tokenizer, asked=asked, declared=declared) == length


def test_positions_are_counted_without_the_rows_that_padding_takes():
    shape = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    bert = BertModel(BertConfig(**shape, max_position_embeddings=14))
    roberta = RobertaModel(RobertaConfig(**shape, max_position_embeddings=14, pad_token_id=1))
    assert absolute_positions(bert) == 14
    assert absolute_positions(roberta) == 12
    assert absolute_positions(torch.nn.Linear(2, 2)) is None


def test_a_model_without_sdpa_is_read_with_eager_attention(folder):
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    MPNetModel(MPNetConfig(vocab_size=60, **shape)).save_pretrained(folder)
    model, _ = read(folder, attention="sdpa")
    assert model.config.model_type == "mpnet"
    assert model.config._attn_implementation == "eager"
