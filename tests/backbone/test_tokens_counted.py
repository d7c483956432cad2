from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from embedrun.backbone.tokens import tokens_of


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A tokenizer whose tokens are words, with one at either end, that would cut to three."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [("[CLS]", 1), ("[SEP]", 2)]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "$A $B", ends)
    tokenizer.enable_truncation(3)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_tokens_are_counted_with_the_ends_or_without(words):
    texts = ["a b c d e", ""] * 150  # more than are encoded at a time
    assert tokens_of(words, "tokenizer")(texts) == [5, 0] * 150
    assert tokens_of(words, "tokenizer", ends=True)(texts) == [7, 2] * 150
