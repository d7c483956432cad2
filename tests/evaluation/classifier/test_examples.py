"""Rows as examples, folds and orders."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor

from embedrun.evaluation.classifier import Permutations, examples, stratified
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


def test_the_vectors_of_the_encoder_are_not_written_to():
    given = torch.ones(1, 2)
    calls = iter([given, torch.zeros(1, 2)])
    assert examples(texts(["a  b"], [0]), lambda _: next(calls)).features.tolist() == [[0, 0]]
    assert given.tolist() == [[1, 1]]


def test_every_fold_holds_out_its_share_of_each_class():
    labels = np.array([1] * 6 + [0] * 4)
    held_out = [labels[out] for _, out in stratified(labels, 2, seed=0)]
    assert [sorted(classes.tolist()) for classes in held_out] == [[0, 0, 1, 1, 1]] * 2


def test_rows_are_trained_on_or_held_out_and_held_out_once():
    labels = np.array([0, 1, 2, 0, 1, 2, 0, 1, 0, 0, 1])
    folds = stratified(labels, 3, seed=5)
    assert sorted(np.concatenate([out for _, out in folds]).tolist()) == list(range(11))
    for train, out in folds:
        assert sorted([*train.tolist(), *out.tolist()]) == list(range(11))


@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("seed", range(12))
def test_the_folds_are_those_of_scikit_learn(seed: int):
    from sklearn.model_selection import StratifiedKFold

    random = np.random.default_rng(seed)
    count = 2 + seed % 9
    labels = np.concatenate([np.full(count, 3), random.integers(0, 5, 97)])
    random.shuffle(labels)
    reference = StratifiedKFold(count, shuffle=True, random_state=seed).split(labels, labels)
    for (train, out), (wanted, wanted_out) in zip(stratified(labels, count, seed), reference, strict=True):
        np.testing.assert_array_equal(train, wanted)
        np.testing.assert_array_equal(out, wanted_out)


@pytest.mark.parametrize(("labels", "folds"), [([0, 0, 1, 1], 3), ([0, 0, 1, 1], 1)])
def test_what_cannot_be_folded_is_refused(labels: list[int], folds: int):
    with pytest.raises(ValueError, match=f"{folds} folds need"):
        stratified(np.array(labels), folds, seed=0)


def test_rounds_go_on_where_the_last_one_ended_whatever_they_are_asked_for():
    generator = np.random.RandomState(7)
    wanted = [generator.permutation(9) for _ in range(6)]
    permutations = Permutations(7, epochs=2)
    np.testing.assert_array_equal(permutations.round(2, 9, drawn=0), wanted[4:6])
    np.testing.assert_array_equal(permutations.round(0, 9, drawn=0), wanted[:2])


def test_the_permutation_before_training_comes_from_the_same_generator():
    generator = np.random.RandomState(7)
    first, wanted = generator.permutation(10), generator.permutation(9)
    permutations = Permutations(7, epochs=1)
    np.testing.assert_array_equal(permutations.first(10), first)
    np.testing.assert_array_equal(permutations.round(0, 9, drawn=10)[0], wanted)
    assert not np.array_equal(permutations.round(0, 9, drawn=0)[0], wanted)


def test_threads_get_the_same_orders():
    permutations = Permutations(3, epochs=4)
    asked = [(index % 5, 30 + index % 3) for index in range(60)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: permutations.round(*one, drawn=0), asked))
    alone = Permutations(3, epochs=4)
    for one, orders in zip(asked, found, strict=True):
        np.testing.assert_array_equal(orders, alone.round(*one, drawn=0))


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()
    Permutations(3, epochs=4).round(1, 10, drawn=20)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
