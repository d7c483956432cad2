"""Bootstrap, permutation test, and two models on the same rows."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata, spearmanr

from embedrun.evaluation.intervals import (
    Comparison,
    average,
    differences,
    interval,
    mean_draws,
    resamples,
    spearman_draws,
    swapped_mean,
    swapped_numbers,
    swapped_ranks,
)


def judged(*arguments: Any, **options: Any) -> Comparison:
    """How sure the difference of two models on one data set is."""
    return differences(*arguments, **options).judged()


def columns(rows: int, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Gold scores and predictions, each with about so many distinct values."""
    generator = np.random.default_rng(7)
    gold = generator.integers(levels, size=rows) / 4
    return np.round(gold + generator.normal(size=rows), 1 if levels < rows else 12), gold


@pytest.mark.parametrize(("rows", "levels"), [(2, 2), (9, 3), (60, 5), (60, 10_000)])
@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_every_draw_is_the_correlation_of_explicitly_resampled_rows(rows, levels):
    predicted, gold = columns(rows, levels)
    found = spearman_draws(predicted, gold, draws=150, seed=3)
    by_hand = [
        spearmanr(predicted[places], gold[places]).statistic  # type: ignore[attr-defined]
        for block in resamples(rows, 150, 3)
        for places in block
    ]
    np.testing.assert_allclose(found, by_hand, rtol=0, atol=1e-12)  # NaN where scipy has NaN


def test_the_interval_is_the_middle_95_percent():
    assert interval(np.arange(1001.0)) == (25.0, 975.0)


def test_four_percent_undefined_draws_are_left_out_and_five_percent_leave_no_interval():
    four = np.concatenate([np.full(4, math.nan), np.zeros(96)])
    assert interval(four) == (0.0, 0.0)
    assert np.isnan(interval(np.concatenate([[math.nan], four[:99]]))).all()


def test_the_interval_of_a_mean_is_about_two_standard_errors_wide_on_each_side():
    values = np.repeat([0.0, 1.0], 200)  # mean 0.5, standard error 0.5 / sqrt(400) = 0.025
    low, high = interval(mean_draws(values, draws=4000))
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.005)
    assert high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.005)


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


def test_every_draw_is_one_of_the_64_possible_gains_and_all_of_them_come_equally_often():
    _, drawn = swapped_ranks(A, B, GOLD, 6400, 0)
    possible, expected = np.unique(np.round(every_gain(A, B, GOLD), 9), return_counts=True)
    values, counts = np.unique(np.round(drawn, 9), return_counts=True)
    np.testing.assert_array_equal(values, possible)
    np.testing.assert_allclose(counts / 100, expected, rtol=0.5)  # each about 100 times, give or take 10


def test_only_rows_that_one_model_alone_gets_right_change_the_mean():
    drawn = swapped_mean(np.array([1, 1, 0, 0, 0, 0, 0, -1]), 8000, 0)
    values, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(values, np.array([-3, -1, 1, 3]) / 8)
    np.testing.assert_allclose(counts / 1000, [1, 3, 3, 1], atol=0.2)  # the binomial of three rows


def test_a_gain_of_any_size_changes_its_sign_with_its_row():
    drawn = swapped_numbers(np.array([0.5, 0.25, 0.0]), 4000, 0)
    values, counts = np.unique(np.round(drawn, 9), return_counts=True)
    np.testing.assert_allclose(values, np.array([-0.75, -0.25, 0.25, 0.75]) / 3, atol=1e-9)
    np.testing.assert_allclose(counts / 1000, np.ones(4), atol=0.1)


PAIRED_GOLD = np.array([0.0, 1, 2, 3, 4, 5, 2, 3])
PAIRED_A = np.array([0.1, 0.3, 0.2, 0.5, 0.4, 0.9, 0.3, 0.6])
PAIRED_B = np.array([0.2, 0.3, 0.4, 0.8, 0.6, 0.7, 0.1, 0.8])


def test_equal_models_differ_as_often_as_95_percent_promises():
    generator = np.random.default_rng(20)
    covered = significant = 0
    for seed in range(200):
        gold = generator.normal(size=200)
        a, b = gold + generator.normal(size=200), gold + generator.normal(size=200)
        found = judged("correlation", a, b, gold, draws=400, swaps=400, seed=seed)
        covered += found.low <= 0 <= found.high
        significant += found.p < 0.05
    assert 0.91 <= covered / 200 <= 0.99
    assert 0.01 <= significant / 200 <= 0.09


@pytest.mark.parametrize(
    ("kind", "a", "gold"),
    [
        ("correlation", PAIRED_A, PAIRED_GOLD),
        ("accuracy", [0, 1, 1], [0, 1, 0]),
        ("correct", [0, 1, 1], None),
    ],
)
def test_a_model_does_not_differ_from_itself(kind, a, gold):
    found = judged(kind, a, a, gold)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert found.rows == len(a)


def test_the_difference_of_correlations_is_that_of_spearman_in_points():
    expected = 100 * (spearmanr(PAIRED_B, PAIRED_GOLD).statistic - spearmanr(PAIRED_A, PAIRED_GOLD).statistic)  # type: ignore[attr-defined]
    assert judged("correlation", PAIRED_A, PAIRED_B, PAIRED_GOLD).difference == pytest.approx(
        expected, abs=1e-9
    )


def test_the_p_value_of_a_tiny_case_is_that_of_all_its_swaps():
    a, b = np.array([0, 0, 0, 1, 1, 0, 1]), np.array([1, 1, 1, 1, 0, 1, 1])  # B gains 4 rows, loses 1: 3 of 7
    found = judged("correct", a, b, None, swaps=40_000)
    gains = [abs(sum(signs)) for signs in product([-1, 1], repeat=5)]
    exact = sum(gain >= 3 for gain in gains) / len(gains)
    assert exact == 12 / 32  # 2 * (5 + 1) of 32: four or five of the five signs are equal
    assert found.difference == pytest.approx(300 / 7)
    assert found.p == pytest.approx(exact, abs=0.01)  # four standard errors of the draws


def test_the_average_is_unweighted_and_surer_than_its_parts():
    generator = np.random.default_rng(3)
    parts = []
    for seed, rows in enumerate((100, 300)):
        gold = generator.normal(size=rows)
        a, b = gold + generator.normal(size=rows), gold + 0.9 * generator.normal(size=rows)
        parts.append(differences("correlation", a, b, gold, seed=seed))
    whole, first, second = average(parts).judged(), parts[0].judged(), parts[1].judged()
    assert whole.difference == pytest.approx((first.difference + second.difference) / 2)
    assert whole.rows == 400
    # Independent errors add in squares: half the root of the sum of the squared widths.
    width = math.hypot(first.high - first.low, second.high - second.low) / 2
    assert whole.high - whole.low == pytest.approx(width, rel=0.1)
