"""From texts to tokens to one vector each: groups, lengths, attention, prompts.

How many tokens of a text a model reads.
"""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import FAMILIES, put
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer

from embedrun.backbone import Backbone, load, transformer
from embedrun.backbone.declared import Declared
from embedrun.backbone.transformer import absolute_positions, groups, token_ids, without_flash
from embedrun.batch import Tokens
from embedrun.config import BackboneConfig, ScratchConfig
from embedrun.errors import ConfigError
from embedrun.pooling import Pooling

TEXTS = ["a dog runs fast over the wide green hill", "a cat", "dogs", "a cat sits", "the hill is green"]
SHAPE = ScratchConfig(vocabulary=100, layers=2, width=16, heads=2, positions=12)


@pytest.fixture(scope="module")
def tiny():
    return load(BackboneConfig(name=None, scratch=SHAPE), TEXTS, seed=1).eval()


def tokens_of(backbone: Backbone, texts: list[str]) -> Tokens:
    return backbone.tokenize(texts).take(np.arange(len(texts)))


MEAN = Pooling("mean")


def test_tokens_carry_the_special_tokens_and_no_padding(tiny):
    table = tiny.tokenize(["a cat", "a"])
    vocabulary = tiny.tokenizer.get_vocab()
    assert table.ids.tolist() == [2, vocabulary["a"], vocabulary["cat"], 3, 2, vocabulary["a"], 3]
    assert table.starts.tolist() == [0, 4, 7]
    assert table.ids.dtype == np.int32


def test_the_mask_token_is_no_text_to_be_lowered(tiny):
    lowered = Backbone(
        tiny.model, tiny.tokenizer, max_length=12, declared=Declared(lowercase=True), origin={}
    )
    ids = lowered.tokenize([f"A {tiny.tokenizer.mask_token} RUNS"]).ids.tolist()
    assert tiny.tokenizer.mask_token_id in ids
    assert ids == lowered.tokenize([f"a {tiny.tokenizer.mask_token} runs"]).ids.tolist()


def test_gradients_do_not_depend_on_the_groups(tiny, monkeypatch):
    weight = tiny.model.encoder.layer[0].output.dense.weight
    factors = torch.arange(1.0, 1 + len(TEXTS)).unsqueeze(1)
    found = []
    for overhead in (0, 10_000):
        monkeypatch.setitem(transformer._OVERHEAD, "cpu", overhead)
        loss = (factors * tiny(tokens_of(tiny, TEXTS), MEAN).tanh()).sum()
        found.append(torch.autograd.grad(loss, weight)[0])
    assert found[0].abs().max() > 0
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-5)


def cost(lengths, found, overhead):
    return sum(len(group) * max(lengths[i] for i in group) + overhead for group in found)


def test_the_cut_is_as_cheap_as_the_best_of_all_cuts():
    generator = np.random.default_rng(0)
    for _ in range(20):
        lengths = generator.integers(1, 30, size=8)
        ordered = np.sort(lengths)
        cheapest = min(
            cost(ordered, np.split(np.arange(8), cuts), 6)
            for count in range(8)
            for cuts in itertools.combinations(range(1, 8), count)
        )
        assert cost(lengths, groups(lengths, overhead=6), 6) == cheapest


def test_no_group_is_over_budget_and_every_text_is_in_one_group():
    for budget in [1, 7, 16, 64]:
        lengths = np.random.default_rng(1).integers(1, 17, size=200)
        found = groups(lengths, overhead=30, budget=budget)
        assert sorted(np.concatenate(found)) == list(range(200))
        assert all(len(group) == 1 or len(group) * lengths[group].max() <= budget for group in found)


TINY = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}


def test_the_table_of_positions_is_found_in_every_kind_of_model():
    for kind, options, positions in [
        ("bert", {**TINY, "intermediate_size": 8, "max_position_embeddings": 10}, 10),
        ("roberta", {**TINY, "intermediate_size": 8, "max_position_embeddings": 10, "pad_token_id": 1}, 8),
        ("gpt2", {"vocab_size": 20, "n_positions": 10, "n_embd": 8, "n_layer": 1, "n_head": 1}, 10),
        ("opt", {**TINY, "ffn_dim": 8, "word_embed_proj_dim": 8, "max_position_embeddings": 10}, 10),
        ("llama", {**TINY, "intermediate_size": 8, "max_position_embeddings": 10}, None),
    ]:
        assert absolute_positions(AutoModel.from_config(AutoConfig.for_model(kind, **options))) == positions


class Model:
    """As much of a model of transformers as is asked; no CPU has flash attention."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.attention = "flash_attention_2"
        self.embeddings = nn.Embedding(2, 2, dtype=dtype)

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def set_attn_implementation(self, name: str) -> None:
        self.attention = name


def test_flash_attention_gives_way_in_float32_alone():
    for dtype, autocast, within in [
        (torch.float32, False, "sdpa"),
        (torch.float32, True, "flash_attention_2"),
        (torch.bfloat16, False, "flash_attention_2"),
    ]:
        model = Model(dtype)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast), without_flash(model):
            assert model.attention == within
        assert model.attention == "flash_attention_2"


BEFORE, AFTER = 'Summarize sentence "', '" in one word:"'
PROMPTED_TEXTS = [
    "the dogs were running",
    "",
    'the cat sits."',  # a full stop and a quotation mark may be one token with the one behind them
    "  two  spaces ",
    "Ünïcödé 漢字 😀 nobody's",
    "a little dog ran fast over the hill and was happy to see the big red ball again " * 5,
]
MODELS = os.environ.get("EMBEDRUN_MODELS")  # folder with stories260K-llama, a LLaMA of 260 thousand weights


@pytest.fixture(scope="module", params=[*FAMILIES, "stories260K-llama"])
def tokenizer(request, tmp_path_factory):
    if request.param in FAMILIES:
        return AutoTokenizer.from_pretrained(put(tmp_path_factory.mktemp("model"), request.param))
    if MODELS is None:
        pytest.skip("EMBEDRUN_MODELS is not set")
    return AutoTokenizer.from_pretrained(Path(MODELS) / request.param)


def plain(tokenizer, text):
    return tokenizer(BEFORE + text + AFTER, verbose=False)["input_ids"]


def test_what_fits_is_the_plain_tokenisation_of_the_filled_template(tokenizer):
    found = token_ids(tokenizer, PROMPTED_TEXTS, BEFORE, AFTER, max_length=2000)
    assert found == [plain(tokenizer, text) for text in PROMPTED_TEXTS]


def test_what_is_cut_is_the_plain_tokenisation_of_a_shorter_text(tokenizer):
    for room in [1, 2, 5, 6, 7, 11, 30]:
        length = len(plain(tokenizer, "")) + room
        for text, ids in zip(
            PROMPTED_TEXTS,
            token_ids(tokenizer, PROMPTED_TEXTS, BEFORE, AFTER, max_length=length),
            strict=True,
        ):
            if len(plain(tokenizer, text)) <= length:
                assert ids == plain(tokenizer, text)
                continue
            assert len(ids) <= length
            # The only freedom is how much of the text is left: the template and special tokens are whole.
            shorter = [plain(tokenizer, text[:end]) for end in range(len(text))]
            assert ids in shorter
            # At the seam a token may need up to three more, and a sign of several bytes is left out whole.
            assert len(ids) >= length - 4


def test_a_prompt_that_leaves_no_room_for_a_text_is_refused(tokenizer):
    own = len(plain(tokenizer, ""))
    with pytest.raises(ConfigError, match=rf"backbone\.prompt: takes {own} tokens by itself.* cut to {own}"):
        token_ids(tokenizer, ["a dog"], BEFORE, AFTER, max_length=own)
