import re

import pytest

from embedrun.report.charts import draw, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (12.3, 13.6, [12, 12.5, 13, 13.5, 14]),
        (0, 1, [0, 0.5, 1]),
        (37, 53, [30, 40, 50, 60]),
        (5, 5, [4.5, 5, 5.5]),
        (0, 0, [-1, 0, 1]),
        (0.0, 5e-324, [-1, 0, 1]),
        (-3e-323, 3e-323, [-1, 0, 1]),
        (1e-310, 2e-310, [-1, 0, 1]),
    ],
)
def test_ticks_are_round_and_hold_all_values_between_them(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize("power", [-12, -3, 0, 7, 250])
def test_there_are_two_to_six_ticks_for_any_size_of_number(power):
    for low, high in [(1.0, 1.7), (-3.0, 9.9), (2.0, 2.0001)]:
        found = ticks(low * 10.0**power, high * 10.0**power)
        assert 2 <= len(found) <= 6
        assert found[0] <= low * 10.0**power * (1 + 1e-9 * (1 if low > 0 else -1))
        assert found[-1] >= high * 10.0**power * (1 - 1e-9)


def test_a_line_runs_from_the_left_to_the_right_with_low_values_below():
    chart = draw("loss", {"loss": [(1, 0.0), (2, 0.5), (3, 1.0)]})
    assert chart is not None
    assert chart.lines[0].path == "M0.00 100.00h0L50.00 50.00L100.00 0.00"
    assert [(tick.label, tick.at) for tick in chart.x_ticks] == [("1", 0.0), ("3", 100.0)]
    assert [(tick.label, tick.at) for tick in chart.y_ticks] == [("0", 100.0), ("0.5", 50.0), ("1", 0.0)]


def test_an_undefined_value_breaks_the_line():
    chart = draw("loss", {"loss": [(0, 0.0), (1, None), (2, 1.0)]})
    assert chart is not None
    assert chart.lines[0].path == "M0.00 100.00h0M100.00 0.00h0"
    assert chart.lines[0].dots == "M0.00 100.00h0M100.00 0.00h0"


def test_a_series_without_a_defined_value_is_not_drawn():
    assert draw("loss", {"loss": [(1, None)]}) is None
    assert draw("loss", {"loss": []}) is None
    both = draw("loss", {"a": [(1, None)], "b": [(1, 2.0)]})
    assert both is not None
    assert [line.name for line in both.lines] == ["b"]


def test_one_point_stands_in_the_middle():
    chart = draw("loss", {"loss": [(7, 2.0)]})
    assert chart is not None
    assert chart.lines[0].path == "M50.00 50.00h0"
    assert [tick.label for tick in chart.x_ticks] == ["7"]


def test_shares_have_an_axis_from_nothing_to_all():
    chart = draw("angle", {"active": [(1, 0.25), (2, 0.5)]}, shares=True)
    assert chart is not None
    assert [tick.label for tick in chart.y_ticks] == ["0 %", "50 %", "100 %"]
    assert chart.alt == "angle, active: 25.0 % at step 1, 50.0 % at step 2; lowest 25.0 %, highest 50.0 %"


def test_a_long_line_is_thinned_and_keeps_its_extremes():
    points: list[tuple[int, float | None]] = [(step, 1.0 + (step % 7) / 10) for step in range(100_000)]
    points[54_321] = (54_321, 9.0)
    points[77_777] = (77_777, 0.0)
    chart = draw("loss", {"loss": points})
    assert chart is not None
    path = chart.lines[0].path
    assert len(re.findall("[ML]", path)) <= 700
    assert chart.lines[0].dots == ""
    assert [tick.label for tick in chart.y_ticks] == ["0", "5", "10"]
    assert "54.32 10.00" in path
    assert "77.78 100.00" in path


def test_the_chart_in_words_names_both_ends_and_the_extremes():
    chart = draw("loss", {"loss": [(1, 3.0), (2, 5.0), (1000, 1.0)]}, best=(2, 5.0))
    assert chart is not None
    assert chart.alt == "loss: 3 at step 1, 1 at step 1,000; lowest 1, highest 5"
    assert chart.mark == "M0.10 16.67h0"
