import math

import pytest

from embedrun.console import duration, number, numbers, score, short, size


@pytest.mark.parametrize("value", [None, True, "3", [1], math.nan, math.inf, -math.inf, 10**400, 1e301])
def test_what_is_no_finite_number_is_none(value):
    assert number(value) is None


def test_numbers_keeps_what_is_one_by_key():
    assert numbers({"a": 1, "b": None, "c": 2.5, "d": "x"}) == {"a": 1.0, "c": 2.5}
    assert numbers(["a"]) == {}


def test_scores_have_two_digits_and_those_of_the_geometry_four():
    assert score("sts/stsb/spearman", 86.375) == "86.38"
    assert score("geometry/uniformity", -2.71828) == "−2.7183"
    assert score("a", 3.5, sign="+") == "+3.50"
    assert score("a", -3.5, sign="+") == "−3.50"
    assert score("a", -0.004) == "0.00"
    assert score("a", -0.004, sign="+") == "+0.00"
    assert score("a", None) == "–"
    assert score("a", 1e300) == "1e+300"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.001, "0.001"), (2e-5, "2e-5"), (-2e-5, "−2e-5"), (1.5, "1.5"), (-0.25, "−0.25"), 
     (1500, "1,500"), (2.5e7, "2.5e7")],
)  # fmt: skip
def test_an_axis_has_numbers_in_their_shortest_form(value, text):
    assert short(value) == text


def test_times_are_in_the_units_of_their_size():
    said = [duration(seconds) for seconds in (3.24, 59.4, 59.7, 200, 7500, 172_800, 875_000)]
    assert said == ["3.2 s", "59 s", "1 min 0 s", "3 min 20 s", "2 h 5 min", "2 days 0 h", "10 days 3 h"]


def test_sizes_are_in_the_units_of_memory():
    assert [size(count) for count in (0, 999, 12_345, 1.3e6, 1.32e9)] == [
        "0 B",
        "999 B",
        "12.1 KiB",
        "1.2 MiB",
        "1.2 GiB",
    ]
