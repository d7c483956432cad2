from itertools import product

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata, spearmanr

from embedrun.evaluation.intervals import ranks, swapped_mean, swapped_ranks

GOLD = np.array([1.0, 2, 2, 3, 5, 4])
A = np.array([0.1, 0.2, 0.2, 0.9, 0.5, 0.7])
B = np.array([30.0, 10, 25, 40, 60, 60])  # on another scale


def every_gain(a: np.ndarray, b: np.ndarray, gold: np.ndarray) -> list[float]:
    """The gain of each of the 2^rows ways in which ranks can change places, one after the other."""
    left, right, true = rankdata(a), rankdata(b), rankdata(gold)
    gains = []
    for bits in product([False, True], repeat=len(gold)):
        swap = np.array(bits)
        first, second = np.where(swap, right, left), np.where(swap, left, right)
        gains.append(pearsonr(second, true).statistic - pearsonr(first, true).statistic)  # type: ignore[attr-defined]
    return gains


def test_ranks_share_ties_and_are_centred():
    np.testing.assert_array_equal(
        ranks(np.array([5, 1, 5, 3])), [1, -1.5, 1, -0.5]
    )  # 3.5, 1, 3.5, 2 less 2.5


def test_without_a_swap_the_gain_is_the_difference_of_spearman():
    found, _ = swapped_ranks(A, B, GOLD, 1, 0)
    assert found == pytest.approx(spearmanr(B, GOLD).statistic - spearmanr(A, GOLD).statistic, abs=1e-12)  # type: ignore[attr-defined]


def test_every_draw_is_one_of_the_64_possible_gains_and_all_of_them_come_equally_often():
    _, drawn = swapped_ranks(A, B, GOLD, 6400, 0)
    possible, expected = np.unique(np.round(every_gain(A, B, GOLD), 9), return_counts=True)
    values, counts = np.unique(np.round(drawn, 9), return_counts=True)
    np.testing.assert_array_equal(values, possible)
    np.testing.assert_allclose(counts / 100, expected, rtol=0.5)  # each about 100 times, give or take 10


def test_blocks_of_draws_are_put_together(monkeypatch):
    monkeypatch.setattr("embedrun.evaluation.intervals._PERMUTED_BLOCK", 20)  # three draws of six rows
    _, drawn = swapped_ranks(A, B, GOLD, 640, 0)
    possible = np.unique(np.round(every_gain(A, B, GOLD), 9))
    assert len(drawn) == 640
    np.testing.assert_array_equal(np.unique(np.round(drawn, 9)), possible)


@pytest.mark.filterwarnings("error")
def test_a_constant_column_has_no_gain():
    found, drawn = swapped_ranks(np.ones(4), np.arange(4.0), np.arange(4.0), 5, 0)
    assert np.isnan(found)
    assert len(drawn) == 5


def test_models_that_mix_to_a_constant_column_are_undefined_in_that_draw_alone():
    # Ranks 1, 2 and 2, 1: one row that changes places alone gives 2, 2 and 1, 1.
    _, drawn = swapped_ranks(np.array([1.0, 2]), np.array([2.0, 1]), np.array([1.0, 2]), 400, 0)
    assert set(drawn[~np.isnan(drawn)]) == {-2.0, 2.0}
    assert 0.4 < np.isnan(drawn).mean() < 0.6


def test_only_rows_that_one_model_alone_gets_right_change_the_mean():
    drawn = swapped_mean(np.array([1, 1, 0, 0, 0, 0, 0, -1]), 8000, 0)
    values, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(values, np.array([-3, -1, 1, 3]) / 8)
    np.testing.assert_allclose(counts / 1000, [1, 3, 3, 1], atol=0.2)  # the binomial of three rows
