"""Rows as examples, folds and orders."""

import numpy as np
import torch
from torch import Tensor

from embedrun.evaluation.classifier import examples
from embedrun.rows import Rows


def encode(texts: list[str]) -> Tensor:
    """Each text as its length and a constant."""
    return torch.tensor([[float(len(text)), 2.0] for text in texts])


def texts(values: list[str], labels: list[int]) -> Rows:
    return Rows("mr", "train", "text", {"text": values}, {"category": np.array(labels)})


def test_rows_are_sorted_by_words_then_class_and_else_stay_in_order():
    found = examples(texts(["a b", "ccc", "dddd", "", "e f", "gg"], [1, 1, 0, 1, 0, 0]), encode)
    assert found.order.tolist() == [3, 2, 5, 1, 4, 0]
    assert found.labels.tolist() == [1, 0, 0, 1, 0, 1]
    assert found.features[:, 0].tolist() == [0, 4, 2, 3, 3, 3]
    assert found.features.dtype == np.float32
    assert found.labels.dtype == np.int64


def test_pairs_are_sorted_by_the_left_text_first():
    sides = {"left": ["a b", "c", "d", "e"], "right": ["f", "g h", "i", "j"]}
    rows = Rows("mrpc", "train", "pair", sides, {"category": np.array([0, 0, 1, 0])})
    assert examples(rows, encode).order.tolist() == [3, 2, 1, 0]


def test_features_of_a_pair_are_distance_and_product():
    sides = {"left": ["abc"], "right": ["defgh"]}
    rows = Rows("mrpc", "train", "pair", sides, {"category": np.array([0])})
    assert examples(rows, encode).features.tolist() == [[2, 0, 15, 4]]  # |3 - 5|, |2 - 2|, 3 × 5, 2 × 2


def test_texts_are_their_words_and_only_those_that_change_are_encoded_anew():
    calls: list[list[str]] = []

    def seen(given: list[str]) -> Tensor:
        calls.append(given)
        return encode(given)

    found = examples(texts(["x", "a  b ", ""], [0, 0, 0]), seen)
    assert calls == [["x", "a  b ", ""], ["a b"]]
    assert found.features[:, 0].tolist() == [0, 1, 3]
