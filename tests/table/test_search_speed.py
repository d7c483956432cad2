import pytest

from embedrun.table.search import speeds


def line(step: int, rate: float, memory: int | None = None) -> dict:
    return {"step": step, "time": 1.0, "rows_per_second": rate, "memory": memory}


def test_a_thousand_steps_of_sixty_rows_at_a_hundred_rows_a_second_take_ten_minutes():
    found = speeds([line(1, 1.0), line(11, 100.0), line(21, 100.0)], 60)
    assert found == {"minutes_per_1000_steps": pytest.approx(10.0)}


def test_steps_count_by_how_many_a_line_stands_for():
    # 10 steps of 0.1 s and 30 of 0.2 s: 7 s for 40 steps.
    found = speeds([line(1, 5.0), line(11, 100.0), line(41, 50.0)], 10)
    assert found["minutes_per_1000_steps"] == pytest.approx(1000 * 7 / 40 / 60)


def test_the_first_line_counts_only_where_it_is_alone():
    assert speeds([line(1, 50.0)], 50)["minutes_per_1000_steps"] == pytest.approx(1000 / 60)


def test_steps_that_come_back_after_a_stop_are_passed_over():
    found = speeds([line(1, 100.0), line(21, 100.0), line(11, 1.0), line(21, 100.0)], 100)
    assert found["minutes_per_1000_steps"] == pytest.approx(1000 / 60)


def test_memory_is_the_highest_in_units_of_a_billion_bytes():
    assert speeds([line(1, 1.0, 2 * 10**9), line(2, 1.0, 21_170_000_000)], 1)["peak_memory_gb"] == 21.17


def test_lines_that_say_nothing_give_nothing():
    assert speeds([], 8) == {}
    assert speeds([{"step": None}, {"step": "a"}, {"step": True}, {"step": 10**400}, line(1, 1.0)], 8)
    assert speeds([line(1, float("inf"), 10**400), line(2, float("nan"))], 8) == {}
    assert speeds([{"step": 5}, {"rows_per_second": "fast"}, line(7, 0.0)], 8) == {}
