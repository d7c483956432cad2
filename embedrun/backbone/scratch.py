"""A small BERT from nothing: no download, no pretrained weights."""

from collections.abc import Iterable
from typing import Any

import torch

from embedrun.backbone.vocabulary import word_pieces
from embedrun.config import ScratchConfig
from embedrun.errors import ConfigError


def make(shape: ScratchConfig, texts: Iterable[str], *, attention: str) -> tuple[Any, Any]:
    """A BERT with random weights (Devlin et al. 2019, arXiv:1810.04805) and its tokenizer.

    The feed-forward layers are four times as wide as the token vectors, as in BERT-base. Weights come
    from torch's global random state; the caller seeds it.

    Args:
        shape: layers, width, heads, positions, dropout and size of the vocabulary.
        texts: make the vocabulary.
        attention: ``sdpa`` or ``eager``.

    Returns:
        The model and the tokenizer, both of transformers.

    Raises:
        ConfigError: if the heads do not divide the width, or the vocabulary is too small for the texts.
    """
    from transformers import AutoModel, BertConfig, BertTokenizer

    if shape.width % shape.heads:
        raise ConfigError(
            f"backbone.scratch.heads: {shape.heads} heads do not divide a width of {shape.width}; "
            "choose a divisor"
        )
    pieces = word_pieces(texts, shape.vocabulary)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.width,
        max_position_embeddings=shape.positions,
        hidden_dropout_prob=shape.dropout,
        attention_probs_dropout_prob=shape.dropout,
    )
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    model = AutoModel.from_config(config, dtype=torch.float32, attn_implementation=attention)
    return model, BertTokenizer(vocab=vocabulary, model_max_length=shape.positions)
