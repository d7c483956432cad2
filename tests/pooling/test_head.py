import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from embedrun.batch import Batch, View
from embedrun.config import BackboneConfig, PoolingConfig, ScratchConfig, TrainingConfig
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError, DataError
from embedrun.gpu import Compute
from embedrun.pooling import behind, new_head, read_head
from embedrun.training.step import Stepper

TEXTS = ["a dog runs fast over the wide green hill", "a cat", "dogs", "a cat sits", "the hill is green"]
SHAPE = ScratchConfig(vocabulary=100, layers=2, width=16, heads=2, positions=12)
TRAINING_ONLY = PoolingConfig(name="cls_mlp")
KEPT = PoolingConfig(name="cls_mlp", keep_head=True)


def tiny(pooling, seed=1):
    return Encoder.build(
        BackboneConfig(name=None, scratch=SHAPE), pooling, seed=seed, vocabulary_texts=TEXTS
    ).eval()


def trained(encoder):
    """The vectors that training gets, without dropout."""
    tokens = encoder.backbone.tokenize(TEXTS).take(np.arange(len(TEXTS)))
    return encoder(tokens)


def without_pooler(folder):
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def test_the_layer_is_tanh_of_a_linear_one():
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.5, -1.0]]))
        layer.bias.fill_(0.25)
    # 0.5 x 3 - 1 x 2 + 0.25 = -0.25
    assert behind(layer, torch.tensor([[3.0, 2.0]])).item() == pytest.approx(math.tanh(-0.25))


def test_a_new_head_has_the_weights_of_a_new_bert_and_its_seed_alone_decides_them():
    model = tiny(TRAINING_ONLY).backbone.model
    model.config.hidden_size = 400  # enough weights to measure
    before = torch.get_rng_state()
    first, again, other = (new_head(model, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)
    assert first.weight.std().item() == pytest.approx(0.02, rel=0.02)  # BertConfig.initializer_range
    assert abs(first.weight.mean().item()) < 2e-4
    assert first.bias.abs().sum() == 0


def test_training_has_the_head_and_encoding_has_not():
    encoder = tiny(TRAINING_ONLY)
    plain = tiny(PoolingConfig(name="cls"))
    assert encoder.head is not None
    assert np.array_equal(encoder.encode(TEXTS), plain.encode(TEXTS))
    expected = torch.tanh(trained(plain) @ encoder.head.weight.T + encoder.head.bias)
    torch.testing.assert_close(trained(encoder), expected)


def test_a_saved_model_has_no_trace_of_a_head_that_only_training_has(tmp_path):
    encoder = tiny(TRAINING_ONLY)
    encoder.save(tmp_path)
    assert not (tmp_path / "2_Dense").exists()
    assert not [name for name in load_file(tmp_path / "model.safetensors") if "head" in name]
    own = json.loads((tmp_path / "embedrun.json").read_text())
    assert (own["pooling"], own["head"]) == ("cls", None)
    loaded = Encoder.load(tmp_path)
    assert (loaded.pooling.name, loaded.head) == ("cls", None)
    np.testing.assert_allclose(loaded.encode(TEXTS), encoder.encode(TEXTS), rtol=0, atol=1e-7)


def test_a_kept_head_comes_back_from_the_files_of_sentence_transformers(tmp_path):
    encoder = tiny(KEPT)
    encoder.save(tmp_path)
    (tmp_path / "embedrun.json").unlink()
    loaded = Encoder.load(tmp_path)
    assert (loaded.pooling.name, loaded.keep_head) == ("cls_mlp", True)
    np.testing.assert_allclose(loaded.encode(TEXTS), encoder.encode(TEXTS), rtol=0, atol=1e-7)


def test_training_goes_on_with_the_head_of_the_files_and_may_drop_it_afterwards(tmp_path):
    tiny(KEPT).save(tmp_path)
    warm = Encoder.build(BackboneConfig(name=str(tmp_path)), TRAINING_ONLY, seed=9).eval()
    torch.testing.assert_close(trained(warm), trained(tiny(KEPT)))
    assert np.array_equal(warm.encode(TEXTS), tiny(PoolingConfig(name="cls")).encode(TEXTS))


def test_a_damaged_head_is_an_input_error(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(DataError, match="not readable as weights"):
        read_head(tmp_path, dim=16)
    save_file(
        {"linear.weight": torch.zeros(4, 16), "linear.bias": torch.zeros(4)}, tmp_path / "model.safetensors"
    )
    with pytest.raises(DataError, match="not a layer from 16 to 16"):
        read_head(tmp_path, dim=16)


def test_the_pooler_gives_the_output_of_the_model_itself_and_is_trained():
    encoder = tiny(PoolingConfig(name="pooler"))
    inputs = encoder.backbone.tokenizer(
        TEXTS, padding=True, truncation=True, max_length=12, return_tensors="pt"
    )
    with torch.no_grad():
        expected = encoder.backbone.model(**inputs).pooler_output.numpy()
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, rtol=0, atol=1e-6)
    trained(encoder).sum().backward()
    assert encoder.backbone.model.pooler.dense.weight.grad.abs().sum() > 0
    assert not tiny(PoolingConfig(name="cls")).backbone.model.pooler.dense.weight.requires_grad


def test_a_pooler_that_the_files_lack_is_refused_and_any_other_pooling_is_not(tmp_path):
    tiny(PoolingConfig(name="cls")).save(tmp_path)
    without_pooler(tmp_path)
    config = BackboneConfig(name=str(tmp_path))
    with pytest.raises(ConfigError, match="lack the weights of its pooler"):
        Encoder.build(config, PoolingConfig(name="pooler"), seed=0)
    assert Encoder.build(config, PoolingConfig(name="cls_mlp"), seed=0).head is not None


class Sum(nn.Module):
    """The sum of all numbers of one view."""

    def __init__(self, view):
        super().__init__()
        self.view = view

    def forward(self, embeddings, targets):
        return embeddings[self.view].sum(), {}


@pytest.mark.parametrize("micro_batch_size", [None, 2])
@pytest.mark.parametrize("view", ["dropped", "whole"])
def test_a_training_step_has_the_head_in_every_view_and_trains_it(view, micro_batch_size):
    shape = ScratchConfig(**{**vars(SHAPE), "dropout": 0.0})  # so that both views have known vectors
    config = BackboneConfig(name=None, scratch=shape)
    encoder = Encoder.build(config, TRAINING_ONLY, seed=1, vocabulary_texts=TEXTS)
    texts = encoder.backbone.tokenize(TEXTS).take(np.arange(len(TEXTS)))
    seeds = torch.arange(len(TEXTS))
    views = {"dropped": View(texts, seeds), "whole": View(texts, seeds, dropout=False)}
    training = TrainingConfig(lr=0.01, warmup_ratio=0.0, micro_batch_size=micro_batch_size)
    stepper = Stepper(encoder, Sum(view), Compute(torch.device("cpu"), "fp32"), training)  # type: ignore[arg-type]
    assert encoder.head is not None
    expected, before = trained(encoder).sum().item(), encoder.head.weight.detach().clone()
    values = stepper.take(1, 1, [Batch(views, {}, np.arange(len(TEXTS)))])
    assert float(values["loss"]) == pytest.approx(expected, abs=1e-5)
    assert (encoder.head.weight - before).abs().min() > 0.001
