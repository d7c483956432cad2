import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from embedrun.evaluation.intervals import interval, mean_draws, mean_interval, resamples, spearman_draws


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


def test_draws_do_not_depend_on_how_many_are_asked_for_at_once():
    predicted, gold = columns(3000, 20)  # five draws a block
    twelve = spearman_draws(predicted, gold, draws=12)
    np.testing.assert_array_equal(spearman_draws(predicted, gold, draws=7), twelve[:7])
    assert len(twelve) == 12


def test_the_scale_of_a_side_does_not_matter_and_its_direction_is_a_sign():
    predicted, gold = columns(40, 6)
    whole = spearman_draws(predicted, gold, draws=50)
    np.testing.assert_array_equal(spearman_draws(np.exp(predicted), gold, draws=50), whole)
    np.testing.assert_allclose(spearman_draws(-predicted, gold, draws=50), -whole, atol=1e-15)


@pytest.mark.filterwarnings("error")
def test_a_constant_side_and_a_prediction_that_is_no_number_are_undefined():
    assert np.isnan(spearman_draws([1, 1, 1], [1, 2, 3], draws=5)).all()
    assert np.isnan(spearman_draws([0.1, math.nan, 0.3], [1, 2, 3], draws=5)).all()


def test_a_seed_gives_the_same_rows_and_the_global_state_is_left_alone():
    np.random.seed(0)
    before = np.random.get_state()[1].tolist()  # type: ignore[index]
    one, again, other = (mean_draws(np.arange(9.0), draws=20, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]


@pytest.mark.parametrize(("rows", "draws"), [(0, 10), (10, 0)])
def test_nothing_to_draw_is_refused(rows, draws):
    with pytest.raises(ValueError, match=f"got {rows} and {draws}"):
        next(resamples(rows, draws, 0))


def test_columns_of_different_length_are_refused():
    with pytest.raises(ValueError, match="got 3 and 2"):
        spearman_draws([1, 2, 3], [1, 2])


def test_the_interval_is_the_middle_95_percent():
    assert interval(np.arange(1001.0)) == (25.0, 975.0)


def test_four_percent_undefined_draws_are_left_out_and_five_percent_leave_no_interval():
    four = np.concatenate([np.full(4, math.nan), np.zeros(96)])
    assert interval(four) == (0.0, 0.0)
    assert np.isnan(interval(np.concatenate([[math.nan], four[:99]]))).all()


def test_the_interval_of_a_mean_is_about_two_standard_errors_wide_on_each_side():
    values = np.repeat([0.0, 1.0], 200)  # mean 0.5, standard error 0.5 / sqrt(400) = 0.025
    low, high = mean_interval(values, draws=4000)
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.005)
    assert high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.005)


def test_the_mean_of_equal_values_has_no_width_and_that_of_none_is_undefined():
    assert mean_interval(np.full(7, 0.25)) == (0.25, 0.25)
    assert np.isnan(mean_interval(np.array([]))).all()
