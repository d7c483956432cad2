import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import spearmanr

from embedrun.evaluation.intervals import average, compare, differences, figure
from embedrun.evaluation.scores import spearman

GOLD = np.array([0.0, 1, 2, 3, 4, 5, 2, 3])
A = np.array([0.1, 0.3, 0.2, 0.5, 0.4, 0.9, 0.3, 0.6])
B = np.array([0.2, 0.3, 0.4, 0.8, 0.6, 0.7, 0.1, 0.8])


def equal_models(kind: str, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions of two models that are equally good, and gold, 200 rows each."""
    if kind == "correlation":
        gold = generator.normal(size=200)
        return gold + generator.normal(size=200), gold + generator.normal(size=200), gold
    gold = generator.integers(3, size=200)
    # Right in 70 % of the rows and in some third ones at random, each model by itself.
    a, b = (np.where(generator.random(200) < 0.7, gold, generator.integers(3, size=200)) for _ in range(2))
    return a, b, gold


@pytest.mark.parametrize("kind", ["correlation", "accuracy"])
def test_equal_models_differ_as_often_as_95_percent_promises(kind):
    generator = np.random.default_rng(20)
    covered = significant = 0
    for seed in range(200):
        a, b, gold = equal_models(kind, generator)
        found = compare(kind, a, b, gold, draws=400, swaps=1000, seed=seed)
        covered += found.low <= 0 <= found.high
        significant += found.p < 0.05
    assert 0.91 <= covered / 200 <= 0.99
    assert 0.01 <= significant / 200 <= 0.09


@pytest.mark.parametrize(
    ("kind", "a", "gold"),
    [("correlation", A, GOLD), ("accuracy", [0, 1, 1], [0, 1, 0]), ("correct", [0, 1, 1], None)],
)
def test_a_model_does_not_differ_from_itself(kind, a, gold):
    found = compare(kind, a, a, gold)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert found.rows == len(a)


def test_a_clear_gain_is_found_and_changes_its_sign_with_the_order():
    generator = np.random.default_rng(0)
    gold = generator.normal(size=500)
    worse, better = gold + 2 * generator.normal(size=500), gold + 0.5 * generator.normal(size=500)
    found, turned = compare("correlation", worse, better, gold), compare("correlation", better, worse, gold)
    assert found.low > 20
    assert found.p == 1 / 10_001  # as small as 10,000 draws can show
    assert turned.difference == pytest.approx(-found.difference, abs=1e-9)
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low), abs=1e-9)


def test_the_difference_of_correlations_is_that_of_spearman_in_points():
    expected = 100 * (spearmanr(B, GOLD).statistic - spearmanr(A, GOLD).statistic)  # type: ignore[attr-defined]
    assert compare("correlation", A, B, GOLD).difference == pytest.approx(expected, abs=1e-9)


def test_the_scale_of_a_models_scores_does_not_matter():
    assert compare("correlation", A, 0.001 * B + 7, GOLD) == compare("correlation", A, B, GOLD)


def test_the_p_value_of_a_tiny_case_is_that_of_all_its_swaps():
    a, b = np.array([0, 0, 0, 1, 1, 0, 1]), np.array([1, 1, 1, 1, 0, 1, 1])  # B gains 4 rows, loses 1: 3 of 7
    found = compare("correct", a, b, None, swaps=40_000)
    gains = [abs(sum(signs)) for signs in product([-1, 1], repeat=5)]
    exact = sum(gain >= 3 for gain in gains) / len(gains)
    assert exact == 12 / 32  # 2 * (5 + 1) of 32: four or five of the five signs are equal
    assert found.difference == pytest.approx(300 / 7)
    assert found.p == pytest.approx(exact, abs=0.01)  # four standard errors of the draws


def test_accuracy_is_whether_the_class_is_gold():
    gold, a, b = [0, 1, 2, 2], [0, 1, 0, 0], [1, 1, 2, 2]
    assert compare("accuracy", a, b, gold) == compare("correct", [1, 1, 0, 0], [0, 1, 1, 1], None)
    assert compare("accuracy", a, b, gold).difference == 25


@pytest.mark.filterwarnings("error")
def test_a_constant_model_has_no_difference_no_interval_and_no_p_value():
    found = compare("correlation", np.ones(8), B, GOLD)
    assert all(map(math.isnan, (found.difference, found.low, found.high, found.p)))


def test_an_undefined_draw_never_makes_a_difference_look_surer():
    # Half of the draws mix ranks 1, 2 and 2, 1 to a constant column; the others give the full difference.
    assert compare("correlation", [1, 2], [2, 1], [1, 2]).p == 1


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


@pytest.mark.parametrize(
    ("kind", "predicted", "gold", "expected"),
    [
        ("correlation", A, GOLD, 100 * spearman(A, GOLD)),
        ("accuracy", np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]), 75),
        ("correct", np.array([0, 0, 0, 1]), None, 25),
    ],
)
def test_the_figure_of_one_model(kind, predicted, gold, expected):
    assert figure(kind, predicted, gold) == pytest.approx(expected, abs=1e-9)


def test_columns_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"lengths \[2, 3\]"):
        compare("accuracy", [1, 2, 3], [1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match=r"lengths \[0\]"):
        compare("correct", [], [], None)
    with pytest.raises(ValueError, match="correlation needs the gold column"):
        compare("correlation", [1, 2], [2, 1], None)
