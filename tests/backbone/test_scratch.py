import pytest

from embedrun.backbone.scratch import make, word_pieces
from embedrun.config import ScratchConfig
from embedrun.errors import ConfigError

TEXTS = ["Bad cab.", "a bad ADD", "cab bad"]
CHARACTERS = [".", "a", "b", "c", "d"]
FIRST_15 = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *CHARACTERS,
    *(f"##{character}" for character in CHARACTERS),
]


def test_special_tokens_then_characters_then_words_by_count_then_alphabet():
    # bad 3 times, cab 2, add 1; "a" and "." are characters already.
    assert word_pieces(TEXTS, 100) == [*FIRST_15, "bad", "cab", "add"]


def test_a_size_below_the_characters_is_refused_with_the_size_that_would_do():
    with pytest.raises(ConfigError, match="at least 15 are needed"):
        word_pieces(TEXTS, 14)


def test_accents_and_case_are_folded_and_words_over_100_characters_ignored():
    assert word_pieces(["É" + "x" * 100, "é"], 100)[5:] == ["e", "##e"]


def test_a_tokenizer_over_it_spells_a_new_word_and_knows_no_unknown_one():
    _, tokenizer = make(
        ScratchConfig(vocabulary=100, layers=1, width=8, heads=1, positions=8), TEXTS, attention="sdpa"
    )
    assert tokenizer.tokenize("BAD dab.") == ["bad", "d", "##a", "##b", "."]
    assert tokenizer("bad")["input_ids"] == [2, 15, 3]


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ConfigError, match="3 heads do not divide a width of 8"):
        make(ScratchConfig(width=8, heads=3), TEXTS, attention="sdpa")
