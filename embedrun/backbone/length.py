"""How many tokens of a text are read."""

from typing import TYPE_CHECKING

from torch import nn

from embedrun.backbone.declared import Declared
from embedrun.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

USUAL = 512  # tokens: the positions of BERT and RoBERTa


def scored_length(reads: int, declared: Declared, *, trained: int | None, is_new: bool) -> int:
    """Tokens of a text that is scored, where no option says so.

    Scores of published tables are of whole sentences, whatever length a model was trained on: SentEval and
    SimCSE do not truncate. So this is all that the model reads, but no more than 512 tokens, or than it is
    trained on.

    Args:
        reads: tokens that the model reads by its files.
        declared: what they say; of a model saved by embedrun, its length is taken as it is.
        trained: tokens of a training text, where an option says so.
        is_new: whether the model is made from scratch, so that its configuration says what it reads.
    """
    if is_new or declared.is_ours:
        return reads
    return min(reads, max(USUAL, trained or 0))


_TABLES = ("position_embeddings", "wpe", "embed_positions")  # the second is GPT's, the third OPT's


def longest_text(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", *, asked: int | None, declared: int | None
) -> int:
    """Tokens of a text, special tokens included; longer texts are cut.

    What is `asked` by the configuration wins. What is `declared` by the model's own files comes next, up to
    the model's positions, since whoever trained it on longer texts than its tokenizer's files say has
    recorded that there. Without both, it is the smallest of the limits of tokenizer and model.

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
