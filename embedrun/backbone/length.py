"""How many tokens of a text a model reads."""

from typing import Any

from torch import nn

from embedrun.errors import ConfigError

_TABLES = ("position_embeddings", "wpe", "embed_positions")  # the second is GPT's, the third OPT's


def longest_text(model: Any, tokenizer: Any, *, asked: int | None, declared: int | None) -> int:
    """Tokens of a text, special tokens included; longer texts are cut.

    Args:
        model: of transformers.
        tokenizer: of transformers.
        asked: by the configuration; wins.
        declared: by the model's own files; comes next, as far as the model has positions: whoever trained
            it on longer texts than its tokenizer's files name wrote so. None: the smallest of what tokenizer
            and model take.

    Raises:
        ConfigError: if more is asked for than the model has absolute positions.
    """
    positions = absolute_positions(model)
    if asked is not None:
        if positions is not None and asked > positions:
            raise ConfigError(
                f"max_length: {asked} tokens asked for, and the model has {positions} positions"
            )
        return asked
    if declared is not None:
        return declared if positions is None else min(declared, positions)
    limits = [
        positions,
        tokenizer.model_max_length,  # an enormous number where the tokenizer has no limit
        getattr(model.config, "max_position_embeddings", None),
    ]
    return min(limit for limit in limits if limit is not None and limit > 0)


def absolute_positions(model: nn.Module) -> int | None:
    """Rows of the table of position vectors that a text can use; None for a model without one."""
    for name, module in model.named_modules():
        if name.endswith(_TABLES) and isinstance(module, nn.Embedding):
            # RoBERTa counts from the row after the padding's, so the rows up to it are never a position.
            skipped = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - skipped - getattr(module, "offset", 0)  # OPT's begins after that
    return None
