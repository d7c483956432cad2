import os

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from embedrun.backbone import tokens as files
from embedrun.errors import DataError
from embedrun.estimate import tokens


@pytest.fixture
def words(tmp_path):
    """A `tokenizer.json` with a token for each word."""
    made = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_runs_of_one_tokenizer_read_it_once_and_count_equal_texts_once(words, monkeypatch):
    read, counted = [], []

    def count(texts):
        counted.append(list(texts))
        return [len(text.split()) for text in texts]

    monkeypatch.setattr(tokens, "opened", lambda *named: read.append(named) or files.opened(*named))
    monkeypatch.setattr(tokens, "counter", lambda *_, ends: count)
    for texts in (["a b", "c"], ["a b", "c"], ["a b c"]):
        assert list(tokens.token_counter(words)(texts)) == [len(text.split()) for text in texts]
    assert len(read) == 1
    assert counted == [["a b", "c"], ["a b c"]]


def test_a_tokenizer_in_the_place_of_another_is_read(words):
    assert list(tokens.token_counter(words)(["a-b"])) == [3]
    other = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    other.save(str(words))
    os.utime(words, (1, 1))
    assert list(tokens.token_counter(words)(["a-b"])) == [1]


def test_a_tokenizer_that_is_gone_is_named(tmp_path):
    with pytest.raises(DataError, match=r"backbone\.name: .*gone\.json cannot be read"):
        tokens.token_counter(tmp_path / "gone.json")
