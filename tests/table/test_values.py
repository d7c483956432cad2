import math
from collections.abc import Callable

import pytest

from embedrun.table import Table
from embedrun.table.rows import Spread, statistic


def test_a_spread_of_nothing_is_none():
    assert Spread.of([]) is None


def test_a_spread_divides_by_n_minus_one():
    assert Spread.of([1.0, 3.0]) == Spread(2.0, math.sqrt(2), 2)
    assert Spread.of([1.0]) == Spread(1.0, None, 1)


@pytest.mark.parametrize(
    ("found", "number"),
    [
        ({"a": {"b": 3}, "c": 4}, 7.0),
        ({"a": {"b": 3}}, None),
        ({"a": {"b": "3"}, "c": 4}, None),
        ({"a": {"b": True}, "c": 4}, None),
        ({"a": 3, "c": 4}, None),
        ({"a": {"b": math.inf}, "c": 4}, None),
    ],
)
def test_a_statistic_is_the_sum_of_its_paths_or_nothing(
    made: Callable[[str], Table], found: dict, number: float | None
):
    table = made(
        "{title: A, paper: raoe, source: B, kind: statistics,"
        " columns: {N: {statistic: true}, M: {statistic: true}},"
        " statistics: {command: c, file: f.json}, rows: [{label: r, kind: statistics, keys: {N: [a/b, c]}}]}"
    )
    assert statistic(table.rows[0], "N", found) == number
    assert statistic(table.rows[0], "M", found) is None
