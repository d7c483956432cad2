import numpy as np
import torch

from embedrun.batch import TokenTable
from embedrun.rows import Rows
from embedrun.training.feed import Feed


class Tokenizer:
    """One token a character; remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str]) -> TokenTable:
        self.calls.append(texts)
        ids = np.array([ord(letter) for text in texts for letter in text], dtype=np.int32)
        return TokenTable(ids, np.cumsum([0, *map(len, texts)]))


ROWS = Rows(
    "toy",
    "train",
    "pair",
    {"left": ["ab", "c", "ab"], "right": ["c", "def", "g"]},
    {"score": np.array([1.0, 0.5, 0.0]), "label": np.array([0, 1, 2])},
)


def text(ids: torch.Tensor) -> str:
    return "".join(map(chr, ids.tolist()))


def test_distinct_texts_are_tokenised_once():
    tokenizer = Tokenizer()
    feed = Feed(ROWS, tokenizer, ["left", "right"], ["score"])
    feed.batch(np.array([0, 1]))
    assert tokenizer.calls == [["ab", "c", "def", "g"]]


def test_a_batch_holds_the_rows_asked_for_in_that_order():
    batch = Feed(ROWS, Tokenizer(), ["left", "right"], ["score"]).batch(np.array([2, 1]))
    assert text(batch.views["left"].ids) == "abc"
    assert batch.views["left"].lengths.tolist() == [2, 1]
    assert text(batch.views["right"].ids) == "gdef"
    assert batch.rows.tolist() == [2, 1]
    assert batch.targets["score"].tolist() == [0.0, 0.5]
    assert batch.targets["score"].dtype == torch.float64


def test_equal_texts_have_one_identity_in_all_views():
    batch = Feed(ROWS, Tokenizer(), ["left", "right"], []).batch(np.array([0, 1, 2]))
    left, right = batch.targets["left_identity"].tolist(), batch.targets["right_identity"].tolist()
    assert left[0] == left[2]  # ab
    assert left[1] == right[0]  # c
    assert len({*left, *right}) == 4


def test_only_the_views_and_targets_that_are_needed_are_there():
    tokenizer = Tokenizer()
    batch = Feed(ROWS, tokenizer, ["right"], ["label"]).batch(np.array([1]))
    assert list(batch.views) == ["right"]
    assert set(batch.targets) == {"label", "right_identity"}
    assert tokenizer.calls == [["c", "def", "g"]]
