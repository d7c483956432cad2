"""A new small BERT and its vocabulary."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from embedrun.config import ScratchConfig
from embedrun.errors import ConfigError
from embedrun.files import Plain

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LONGEST_WORD = 100  # characters; WordPiece reads a longer word as [UNK]


def word_pieces(texts: Iterable[str], size: int) -> list[str]:
    """The at most `size` pieces in the order of their ids.

    First the special tokens; then every character, each as itself and as a continuation (``##``), in
    code point order; then whole words, the most frequent first and equal ones in code point order, until
    `size` is reached. Texts are lower-cased, stripped of accents and split as BERT's own tokenizer does. With
    every character in it, no word of `texts` is unknown. Trained vocabularies (Schuster & Nakajima 2012;
    Devlin et al. 2019) merge pieces instead; their order of ties is not fixed between processes, ours is.
    """
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalizer, splitter = BertNormalizer(lowercase=True), BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        split = splitter.pre_tokenize_str(normalizer.normalize_str(text))
        words.update(word for word, _ in split if len(word) <= _LONGEST_WORD)
    characters = sorted(set().union(*words))
    pieces = [*SPECIAL, *characters, *(f"##{character}" for character in characters)]
    if len(pieces) > size:
        raise ConfigError(
            f"backbone.scratch.vocabulary: {size} pieces do not hold the {len(SPECIAL)} special tokens and "
            f"the {len(characters)} characters of the texts, twice each; at least {len(pieces)} are needed"
        )
    # A word of one character is a piece already.
    frequent = sorted((-count, word) for word, count in words.items() if len(word) > 1)
    return pieces + [word for _, word in frequent[: size - len(pieces)]]


_WINDOW, _MIN_WINDOW = 256, 16  # tokens; of RAN's released configuration


def make(
    shape: ScratchConfig, texts: Iterable[str], *, attention: str
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """A model with random weights and its tokenizer, both of transformers; `texts` make the vocabulary.

    The feed-forward layers of a BERT (Devlin et al. 2019, arXiv:1810.04805) are four times as wide as the
    token vectors, as in BERT-base; a RAN (Li et al. 2023, arXiv:2306.06843) has none. Weights come from
    torch's global random state; the caller seeds it. `attention` is ``sdpa`` or ``eager``.
    """
    from transformers import AutoConfig, AutoModel, BertTokenizer

    from embedrun.backbone import ran  # noqa: F401, transformers knows RAN by it

    if wrong := problems(shape):
        raise ConfigError(wrong)
    pieces = word_pieces(texts, shape.vocabulary)
    config = AutoConfig.for_model(**configuration(shape, len(pieces)))
    model = AutoModel.from_config(config, dtype=torch.float32, attn_implementation=attention)
    # Other code passes a model all inputs that its tokenizer lists; a RAN has no token types.
    inputs: dict = (
        {"model_input_names": ["input_ids", "attention_mask"]} if shape.architecture == "ran" else {}
    )
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = BertTokenizer(vocab=vocabulary, model_max_length=shape.positions, **inputs)
    return model, tokenizer


def configuration(shape: ScratchConfig, vocabulary: int) -> Plain:
    """The `config.json` of such a model, of a shape without `problems` and a number of word pieces."""
    both = {
        "vocab_size": vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
    }
    if shape.architecture == "ran":
        kind = {"model_type": "embedrun_ran", "dropout": shape.dropout}
        return {**kind, **both, **_of_ran(shape)}
    return {
        "model_type": "bert",
        **both,
        "intermediate_size": 4 * shape.width,
        "max_position_embeddings": shape.positions,
        "hidden_dropout_prob": shape.dropout,
        "attention_probs_dropout_prob": shape.dropout,
    }


def _of_ran(shape: ScratchConfig) -> dict[str, int]:
    window = shape.window or _WINDOW
    return {
        "head_size": shape.head_size or shape.width // shape.heads,
        "window": window,
        "min_window": shape.min_window or min(_MIN_WINDOW, window),
    }


def problems(shape: ScratchConfig) -> list[str]:
    """What is wrong with a shape, beyond what each option's own range says."""
    where = "backbone.scratch"
    is_ran, of_ran = shape.architecture == "ran", _of_ran(shape)
    wrong = [
        f"{where}.{name}: only architecture=ran has one, got {value}; leave it null"
        for name in of_ran
        if (value := getattr(shape, name)) is not None and not is_ran
    ]
    head, window, min_window = of_ran.values()
    if shape.head_size is None and shape.width % shape.heads:
        wrong.append(
            f"{where}.heads: {shape.heads} heads do not divide a width of {shape.width}; choose a divisor"
        )
    elif is_ran and head % 2:
        wrong.append(f"{where}.head_size: must be even in a RAN, got {head}; null is width by heads")
    if is_ran and min_window > window:
        wrong.append(f"{where}.min_window: must be at most {where}.window ({window}), got {min_window}")
    return wrong
