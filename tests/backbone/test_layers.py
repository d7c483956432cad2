"""The first layers of a model: the same vectors, and a folder whose parts agree."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_models import FAMILIES, put
from transformers import AutoConfig, AutoModel

from embedrun import backbone
from embedrun.backbone import layers
from embedrun.backbone.layers import cut
from embedrun.backbone.pretrained import read
from embedrun.backbone.scratch import make
from embedrun.backbone.shape import shape_of
from embedrun.config import AdapterConfig, BackboneConfig, PoolingConfig, ScratchConfig
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError

# A norm of these stands behind the last layer, which it is now another.
NORMED = ("modernbert", "llama", "qwen2")
TEXTS = ["a dog runs", "the happy cat"]
IDS = torch.tensor([[2, 7, 8, 3], [2, 9, 5, 3]])  # (texts, tokens)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: put(tmp_path_factory.mktemp("models") / family, family) for family in FAMILIES}


def after(model, layer: int):
    """The vectors of each token after a layer, (texts, tokens, dim)."""
    with torch.no_grad():
        return model.eval()(IDS, output_hidden_states=True).hidden_states[layer]


def vectors(model):
    """Those of the last layer, (texts, tokens, dim)."""
    with torch.no_grad():
        return model.eval()(IDS).last_hidden_state


@pytest.mark.parametrize("family", FAMILIES)
def test_the_vectors_are_those_of_the_layer(folders, family: str):
    for kept in [0, 1, 2]:
        whole, _ = read(folders[family], attention="sdpa")
        model, _ = read(folders[family], attention="sdpa", layers=kept)
        expected = after(whole, kept)
        if family in NORMED and kept < 2:  # of the last layer, transformers gives what is behind the norm
            norm = whole.final_norm if family == "modernbert" else whole.norm
            expected = norm(expected)  # (texts, tokens, dim)
        assert torch.equal(vectors(model), expected)
        assert model.config.num_hidden_layers == kept


SHAPE = {
    "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
    "intermediate_size": 8,
}  # fmt: skip


def test_layers_that_share_weights_cannot_be_cut():
    model = AutoModel.from_config(AutoConfig.for_model("albert", embedding_size=8, **SHAPE))
    with pytest.raises(ConfigError, match=r"backbone\.layers: this model cannot be cut \(it has no list of"):
        cut(model, 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_saved_has_the_layers_that_it_says(folders, tmp_path, family: str):
    config = BackboneConfig(name=str(folders[family]), layers=1)
    made = Encoder.build(config, PoolingConfig(), seed=0).eval()
    made.save(tmp_path / "cut")
    assert json.loads((tmp_path / "cut/config.json").read_text())["num_hidden_layers"] == 1
    named = load_file(tmp_path / "cut/model.safetensors")
    assert not any(".1." in name for name in named)
    again = Encoder.load(tmp_path / "cut")
    assert (again.encode(TEXTS) == made.encode(TEXTS)).all()


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("adapter", [None, AdapterConfig(r=2)])
def test_tokens_of_a_bidirectional_decoder_see_what_follows_also_once_it_is_saved(tmp_path, family, adapter):
    folder = put(tmp_path / "base", family)
    config = BackboneConfig(name=str(folder), bidirectional=True, adapter=adapter)
    made = Encoder.build(config, PoolingConfig(name="cls"), seed=0).eval()  # of the first token
    texts = ["a dog runs", "a dog sleeps", "a dog runs over the hill and far away"]
    first = made.encode(texts)
    assert abs(first[0] - first[1]).max() > 1e-4
    seen_once = Encoder.build(BackboneConfig(name=str(folder)), PoolingConfig(name="cls"), seed=0).eval()
    assert abs(seen_once.encode(texts)[0] - seen_once.encode(texts)[1]).max() < 1e-6
    alone = np.stack([made.encode(text) for text in texts])  # without padding
    np.testing.assert_allclose(alone, first, atol=1e-6)
    tokens = made.tokenize(texts).take(np.arange(3))
    for model in made.modules():
        if isinstance(model, torch.nn.Dropout):
            model.p = 0.0
    seeded = made(tokens, seeds=torch.arange(3)).detach()
    np.testing.assert_allclose(seeded, first, atol=1e-6)
    made.save(tmp_path / "saved")
    np.testing.assert_array_equal(Encoder.load(tmp_path / "saved").encode(texts), first)


def test_a_model_that_sees_the_whole_text_is_refused(folders):
    with pytest.raises(ConfigError, match=r"backbone\.bidirectional: known for llama, .* this model is bert"):
        backbone.load(BackboneConfig(name=str(folders["bert"]), bidirectional=True), seed=0)


def test_what_is_read_without_transformers_is_cut_too_and_completed_alike(bert_shaped_folder):
    kept = 1
    config = BackboneConfig(name=str(bert_shaped_folder), layers=kept)
    light = backbone.load(config, seed=0, encodes_only=True)
    assert type(light.encoding).__name__ == "Bert"
    assert len(light.encoding.encoder.layer) == light.encoding.config.num_hidden_layers == kept
    light_vectors = vectors(light.encoding)
    assert light.model.config.num_hidden_layers == kept
    assert type(light.encoding).__name__ == "BertModel"
    assert torch.allclose(vectors(light.model), light_vectors, rtol=0, atol=1e-6)


def test_more_layers_than_the_model_has_are_refused_before_it_is_read(folders):
    config = BackboneConfig(name=str(folders["bert"]), layers=3)
    said = "backbone.layers: 3 asked for, and the model has 2; lower it, or leave it null"
    for work in (shape_of, lambda one: backbone.load(one, seed=0)):
        with pytest.raises(ConfigError) as refusal:
            work(config)
        assert refusal.value.problems == [said]


def test_what_contradicts_it_is_refused():
    for config, pooling, said in [
        (
            BackboneConfig(name=None, layers=1, scratch=ScratchConfig()),
            PoolingConfig(),
            "backbone.layers: cuts a pretrained model, and backbone.scratch makes a new one; leave it null, "
            "and give backbone.scratch.layers",
        ),
        (
            BackboneConfig(name="m", layers=0),
            PoolingConfig(name="first_last_mean", first_layer=1),
            "pooling.first_layer: layer 1 is dropped by backbone.layers=0; raise that, or choose "
            "pooling.first_layer=0",
        ),
    ]:
        assert layers.problems(config, pooling) == [said]


@pytest.fixture
def bert_shaped_folder(tmp_path: Path) -> Path:
    model, words = make(
        ScratchConfig(vocabulary=60, layers=2, width=8, heads=2, positions=12), TEXTS, attention="sdpa"
    )
    model.save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    return tmp_path
