"""A WordPiece vocabulary from texts, by a rule that gives the same bytes everywhere."""

from collections import Counter
from collections.abc import Iterable

from embedrun.errors import ConfigError

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LONGEST_WORD = 100  # characters; WordPiece reads a longer word as [UNK]


def word_pieces(texts: Iterable[str], size: int) -> list[str]:
    """The pieces in the order of their ids.

    First the special tokens; then every character, each as itself and as a continuation (``##``), in
    code point order; then whole words, the most frequent first and equal ones in code point order, until
    `size` is reached. With every character in it, no word of `texts` is unknown. Trained vocabularies
    (Schuster & Nakajima 2012; Devlin et al. 2019) merge pieces instead; their order of ties is not
    fixed between processes, ours is.

    Args:
        texts: are lower-cased, stripped of accents and split as BERT's own tokenizer does.
        size: pieces, at most.

    Raises:
        ConfigError: if the special tokens and the characters alone are more than `size`.
    """
    words = _count(texts)
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


def _count(texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs."""
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalizer, splitter = BertNormalizer(lowercase=True), BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        split = splitter.pre_tokenize_str(normalizer.normalize_str(text))
        words.update(word for word, _ in split if len(word) <= _LONGEST_WORD)
    return words
