from pathlib import Path

import numpy as np
import pytest

from embedrun.errors import DataError
from embedrun.estimate.steps import row_tokens
from embedrun.loss.terms import Pass
from embedrun.prompt import Prompt
from embedrun.rows import Rows

PAIRS = Rows("mine", "train", "pair", {"left": ["a b", "a b c d"], "right": ["c", "d"]})


def tokens(rows: Rows, *passes: Pass, **more):
    options = {"tokenizer": None, "longest": 100, "prompts": {}, "seed": 1, **more}
    return row_tokens(rows, {one.key: one for one in passes}, **options)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A tokenizer whose tokens are words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_the_tokens_of_all_passes_of_a_row_are_counted(words):
    found = tokens(PAIRS, Pass("left"), Pass("right"), tokenizer=words)
    assert (found.mean, found.measured, found.sample) == ((3 + 5) / 2, True, 2)
    assert found.each.tolist() == [3, 5]


def test_two_passes_of_one_text_count_twice(words):
    assert tokens(PAIRS, Pass("left"), Pass("left", draw=1), tokenizer=words).mean == 6


def test_a_text_is_cut_and_has_its_prompt(words):
    assert tokens(PAIRS, Pass("left"), tokenizer=words, longest=3).mean == 2.5
    assert tokens(PAIRS, Pass("left", max_length=4), tokenizer=words, longest=100).mean == 3
    prompt = {"left": Prompt("one {text} word")}
    assert tokens(PAIRS, Pass("left"), tokenizer=words, prompts=prompt).mean == 5


def test_without_a_tokenizer_words_are_counted():
    found = tokens(PAIRS, Pass("left"))
    assert (found.mean, found.measured) == (
        (3 + 2 + 5 + 2) / 2,
        False,
    )  # 1.3 x 2 and 1.3 x 4, and the two ends


def test_masked_copies_are_of_the_sentences_that_can_be_masked(words):
    class Doubled:
        needs_token = True

        def usable(self, text: str) -> bool:
            return len(text.split()) > 1

        def copies(self, text: str, mask: str, random: np.random.Generator) -> tuple[str, str]:
            return f"{mask} {text}", text

    rows = Rows("mine", "train", "text", {"text": ["a b c", "d"]}, masked=Doubled())
    assert tokens(rows, Pass("masked_once", dropout=False), tokenizer=words).mean == 2


def test_many_rows_are_sampled():
    rows = Rows("mine", "train", "text", {"text": ["a"] * 5000})
    assert tokens(rows, Pass("text")).sample == 512


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(DataError, match=r"backbone\.name: .*tokenizer\.json cannot be read"):
        tokens(PAIRS, Pass("left"), tokenizer=tmp_path / "tokenizer.json")
