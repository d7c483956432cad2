"""How many tokens of a text a model reads."""

from types import SimpleNamespace

import pytest
from torch import nn
from transformers import AutoConfig, AutoModel

from embedrun.backbone.transformer import absolute_positions, longest_text
from embedrun.errors import ConfigError


def model(positions: int | None, limit: int | None = None) -> nn.Module:
    """One with a table of so many positions, or with none."""
    made = nn.Module()
    made.config = SimpleNamespace(max_position_embeddings=limit)  # type: ignore[assignment]  # no module
    if positions is not None:
        made.position_embeddings = nn.Embedding(positions, 2)
    return made


def longest(of: nn.Module, tokenizer: int = 128, *, asked: int | None = None, declared: int | None = None):
    return longest_text(of, SimpleNamespace(model_max_length=tokenizer), asked=asked, declared=declared)


def test_what_is_asked_for_wins_up_to_the_positions_that_there_are():
    assert longest(model(256), asked=200, declared=100) == 200
    with pytest.raises(ConfigError, match="257 tokens asked for, and the model has 256 positions"):
        longest(model(256), asked=257)


@pytest.mark.parametrize("positions", [None, 256])
def test_a_model_is_read_at_the_length_that_its_files_declare_whatever_its_tokenizer_says(positions):
    assert longest(model(positions, limit=160), declared=200) == 200


def test_a_declared_length_ends_at_the_positions_that_there_are():
    assert longest(model(256), declared=300) == 256


def test_where_nothing_is_declared_the_smallest_limit_counts():
    assert longest(model(256, limit=256)) == 128
    assert longest(model(None, limit=64)) == 64
    assert longest(model(None), tokenizer=10**30) == 10**30


TINY = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}


@pytest.mark.parametrize(
    ("kind", "options", "positions"),
    [
        ("bert", {**TINY, "intermediate_size": 8, "max_position_embeddings": 10}, 10),
        ("roberta", {**TINY, "intermediate_size": 8, "max_position_embeddings": 10, "pad_token_id": 1}, 8),
        ("gpt2", {"vocab_size": 20, "n_positions": 10, "n_embd": 8, "n_layer": 1, "n_head": 1}, 10),
        ("opt", {**TINY, "ffn_dim": 8, "word_embed_proj_dim": 8, "max_position_embeddings": 10}, 10),
        ("llama", {**TINY, "intermediate_size": 8, "max_position_embeddings": 10}, None),
    ],
)
def test_the_table_of_positions_is_found_in_every_kind_of_model(kind, options, positions):
    assert absolute_positions(AutoModel.from_config(AutoConfig.for_model(kind, **options))) == positions
