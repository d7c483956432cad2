import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from embedrun.evaluation.scores import cosines, pearson, spearman

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "metrics.json").read_text(encoding="utf-8"))
CASES = [case for case in GOLDEN["cases"] if case["metric"] == "spearman"]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_golden(case):
    found = spearman(case["inputs"]["system"], case["inputs"]["gold"])
    assert found == pytest.approx(float(case["expected"]), abs=GOLDEN["default_tolerance"], nan_ok=True)


def test_there_are_golden_cases_and_one_is_undefined():
    assert len(CASES) >= 4
    assert "nan" in [case["expected"] for case in CASES]


@pytest.mark.parametrize(
    ("predicted", "gold"), [([], []), ([1.0], [2.0]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [2, 2, 2])]
)
@pytest.mark.filterwarnings("error")
def test_a_correlation_that_is_undefined_is_nan_and_never_a_number(predicted, gold):
    assert math.isnan(spearman(predicted, gold))


def test_a_prediction_that_is_no_number_makes_the_correlation_undefined():
    assert math.isnan(spearman([0.1, math.nan, 0.3], [1, 2, 3]))


def test_one_swap_among_three_costs_half():
    assert spearman([1, 3, 2], [1, 2, 3]) == pytest.approx(0.5)  # 1 - 6 * (0 + 1 + 1) / (3 * 8)


def test_only_ranks_count():
    assert spearman([0.1, 0.2, 0.9], [1, 10, 11]) == pytest.approx(1)


def test_different_lengths_are_refused():
    with pytest.raises(ValueError, match="got 2 and 3"):
        spearman([1, 2], [1, 2, 3])


def test_cosines_by_hand_with_zero_for_a_zero_vector():
    vectors = {"x": [3.0, 0.0], "y": [0.0, 2.0], "xy": [1.0, 1.0], "nothing": [0.0, 0.0]}
    found = cosines(
        lambda texts: torch.tensor([vectors[text] for text in texts]),
        ["x", "x", "x", "x"],
        ["x", "y", "xy", "nothing"],
    )
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [1, 0, 1 / math.sqrt(2), 0], atol=1e-7)


def test_pearson_by_hand():
    # Deviations -1 0 1 and -1 -1 2: products sum to 3; 3 / sqrt(2 * 6).
    assert pearson([1, 2, 3], [1, 1, 4]) == pytest.approx(3 / math.sqrt(12))


@pytest.mark.parametrize(("predicted", "gold"), [([], []), ([1.0], [2.0]), ([1, 1, 1], [1, 2, 3])])
@pytest.mark.filterwarnings("error")
def test_an_undefined_pearson_is_nan(predicted, gold):
    assert math.isnan(pearson(predicted, gold))


def test_pearson_refuses_different_lengths():
    with pytest.raises(ValueError, match="got 2 and 3"):
        pearson([1, 2], [1, 2, 3])
