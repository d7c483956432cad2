"""How many seeds a plan asks for, held to published numbers and to simulated studies."""

import numpy as np
import pytest

from embedrun.study.claims import Scored, Spreads, estimate

LEVEL = 0.05


def test_the_seeds_are_those_of_a_paired_t_test():
    # Cohen's d of 1 (0.5 points, sd 0.5) takes ten pairs for 80 % at 5 % two-sided (Cohen 1988; G*Power 3 has
    # 10, with a power of 0.803); a difference of half of that takes 34.
    assert Spreads(0.5, 0.0).needed(0.5, LEVEL) == 10
    assert Spreads(0.5, 0.0).power(10, 0.5, LEVEL) == pytest.approx(0.803, abs=0.001)
    assert Spreads(0.5, 0.0).needed(0.25, LEVEL) == 34
    assert Spreads(0.5, 0.5).needed(0.5, LEVEL) is None  # the test rows alone hide it


def test_the_spread_of_finished_runs_leaves_out_what_rows_do():
    # Scores 1 and 3, of variance 2; rows move the first by 0.3 and the second by -0.3, 2 * 0.09 of it.
    stray = np.array([-1.0, 1.0])
    found = Spreads.of([[Scored(1, 1 + 1.3 * stray), Scored(3, 3 + 0.7 * stray)]])
    assert found.seeds**2 == pytest.approx(2 - 0.18)
    assert found.rows**2 == pytest.approx(2)  # of the mean of both, which moves by 1
    # One degree of freedom: chi-squared has 0.0642 at its fifth.
    assert found.upper.seeds / found.seeds == pytest.approx((1 / 0.0642) ** 0.5, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "difference", "rows"), [(3, 0.9, 0.1), (5, 0.6, 0.2), (8, 0.3, 0.05)])
def test_the_power_is_that_of_simulated_studies(seeds: int, difference: float, rows: float):
    spreads, generator = Spreads(0.3, rows), np.random.default_rng(0)
    shown = 0
    for _ in range(2000):
        mean = difference + rows * generator.standard_normal()  # what these test rows do to all seeds
        stray = rows * generator.standard_normal(400)
        scores = mean + 0.3 * generator.standard_normal(seeds)  # (seeds,)
        low, _ = estimate([Scored(score, score + stray) for score in scores]).interval(LEVEL)
        shown += low > 0
    assert shown / 2000 == pytest.approx(spreads.power(seeds, difference, LEVEL), abs=0.05)
