import math
import re
from typing import Any, Literal

import pytest
import torch

from embedrun.loss.terms import (
    nothing_to_order,
    require_choice,
    require_positive,
    require_scale,
    require_shape,
)


@pytest.mark.parametrize("value", [0, -0.5, -math.inf, math.nan])
def test_zero_less_and_nan_are_not_positive(value: float):
    with pytest.raises(ValueError, match=f"Term: temperature must be > 0, got {value}"):
        require_positive("Term", "temperature", value)


def test_smallest_number_above_zero_is_positive():
    require_positive("Term", "temperature", 5e-324)


@pytest.mark.parametrize("value", ["c", "A", None, False])
def test_only_the_names_of_a_literal_are_accepted(value: Any):
    with pytest.raises(ValueError, match=f"Term: mode must be one of a, b; got {value!r}"):
        require_choice("Term", "mode", value, Literal["a", "b"])
    require_choice("Term", "mode", "b", Literal["a", "b"])


@pytest.mark.parametrize(
    ("value", "hint"),
    [(0.05, "; a temperature of 0.05 is scale=20"), (0.999, "; a temperature of 0.999 is scale=1.001")],
)
def test_small_scale_is_taken_for_a_temperature(value: float, hint: str):
    expected = f"Term: scale multiplies the similarity and must be >= 1, got {value}{hint}"
    with pytest.raises(ValueError, match=rf"\A{re.escape(expected)}\Z"):
        require_scale("Term", value)


@pytest.mark.parametrize("value", [0.0, -20.0, math.nan])
def test_scale_that_is_no_temperature_either_gets_no_hint(value: float):
    with pytest.raises(ValueError, match=rf"must be >= 1, got {value}\Z"):
        require_scale("Term", value)


def test_scale_of_one_is_accepted():
    require_scale("Term", 1)


@pytest.mark.parametrize(
    ("shape", "wanted", "message"),
    [
        ((3, 1), (3,), r"Term: score must have shape \(3,\), got \(3, 1\)"),
        ((1,), (3,), r"must have shape \(3,\), got \(1,\)"),
        ((4, 2, 5), (4, 3, None), r"must have shape \(4, 3, any\), got \(4, 2, 5\)"),
        ((3, 2), (3, 0), r"must have shape \(3, 0\), got \(3, 2\)"),
        ((), (3,), r"must have shape \(3,\), got \(\)"),
    ],
)
def test_other_shape_is_named(shape: tuple[int, ...], wanted: tuple[int | None, ...], message: str):
    with pytest.raises(ValueError, match=message):
        require_shape("Term", "score", torch.zeros(shape), *wanted)


def test_any_length_stands_for_every_one():
    require_shape("Term", "vectors", torch.zeros(4, 3, 5), 4, 3, None)
    require_shape("Term", "vectors", torch.zeros(0, 0), None, 0)


def test_one_row_or_one_score_is_nothing_to_order():
    one = "a batch of one row has nothing to compare; raise training.batch_size"
    assert nothing_to_order(1, None) == one
    assert nothing_to_order(1, torch.arange(3.0)) == one
    assert nothing_to_order(2, torch.ones(3)) == "all scores of the training rows are equal"


def test_two_rows_with_two_or_unknown_scores_can_be_ordered():
    assert nothing_to_order(2, None) is None
    assert nothing_to_order(2, torch.tensor([1.0, 1.0, 1.5])) is None
