import math
from itertools import product
from statistics import fmean

import pytest

from embedrun.evaluation.seeds import OverSeeds, Spread, compared, expected_best


def test_a_spread_divides_by_n_minus_one():
    assert Spread.of([1.0, 3.0]) == Spread(2.0, math.sqrt(2), 2)
    assert Spread.of([1.0]) == Spread(1.0, None, 1)


def test_the_same_seeds_are_paired():
    # Differences 1, 2, 3: mean 2, sd 1, error 1/√3. With two degrees of freedom t is 4.302653, and the
    # two-sided p of t = 2√3 is 1 - t/√(t² + 2) = 1 - √(12/14).
    found = compared({1: 80, 2: 81, 3: 82}, {3: 85, 1: 81, 2: 83})
    half = 4.302653 / math.sqrt(3)
    assert found.paired
    assert found.is_tie
    assert (found.difference, found.low, found.high) == pytest.approx((2, 2 - half, 2 + half))
    assert found.p == pytest.approx(1 - math.sqrt(12 / 14))


def test_other_seeds_are_compared_by_welch():
    # Variances of the means 1 and 0: one degree of freedom, where t is 12.7062 and p is by arc tangent;
    # pooled variances would give three.
    found = compared({1: 0, 2: 2}, {3: 5, 4: 5, 5: 5})
    assert not found.paired
    assert (found.difference, found.low, found.high) == pytest.approx((4, -8.7062, 16.7062), abs=1e-4)
    assert found.p == pytest.approx(1 - 2 / math.pi * math.atan(4))


def test_one_seed_has_no_interval():
    found = compared({1: 80.0}, {1: 81.0, 2: 83.0})
    assert found == OverSeeds(2.0, None, None, None, paired=False)
    assert found.is_tie is None


@pytest.mark.parametrize("seeds", [(1, 2), (3, 4)])
def test_where_no_seed_changes_anything_the_interval_has_no_width(seeds):
    found = compared({1: 80.0, 2: 80.0}, dict.fromkeys(seeds, 81.0))
    assert (found.difference, found.low, found.high, found.p, found.is_tie) == (1, 1, 1, None, False)


def test_the_expected_best_is_the_mean_over_every_draw_of_so_many_trials():
    values = [50.0, 51.5, 51.0, 53.0]
    draws = list(product(values, repeat=3))
    assert expected_best(values, 3) == pytest.approx(fmean(map(max, draws)))
    assert expected_best(values, 3, lowest=True) == pytest.approx(fmean(map(min, draws)))
    assert expected_best(values, 1) == pytest.approx(fmean(values))
