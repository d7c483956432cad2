import pytest

from embedrun.report.facts import State, headline
from embedrun.report.scores import interval

KEY = "sts/stsb/spearman"


def test_the_main_score_stands_beside_interval_baseline_and_paper():
    results = {
        "main": {"name": KEY, "value": 80.0},
        "baseline": {KEY: 60.0},
        "intervals": {KEY: [78.0, 82.0]},
    }
    found = headline(results, {KEY: 85.0})
    assert found is not None
    assert (found.value, found.interval, found.gain, found.to_paper) == (
        "80.00",
        "78.00 to 82.00",
        "+20.00",
        "−5.00",
    )
    # 60 to 85 on the strip from 12 to 88 %: 76 % for 25 points.
    assert [(mark.kind, mark.at) for mark in found.marks] == [
        ("untrained", 12.0),
        ("paper", 88.0),
        ("main", 72.8),
    ]
    assert found.span == (66.72, 12.16)


def test_there_is_no_strip_where_nothing_is_to_compare():
    found = headline({"main": {"name": KEY, "value": 80.0}, "intervals": {KEY: [78.0, 82.0]}}, {})
    assert found is not None
    assert (found.marks, found.gain, found.to_paper) == ((), "", "")


def test_equal_numbers_stand_in_the_middle():
    found = headline({"main": {"name": KEY, "value": 80}, "baseline": {KEY: 80}}, {})
    assert found is not None
    assert [mark.at for mark in found.marks] == [50.0, 50.0]
    assert found.gain == "+0.00"


def test_an_undefined_main_score_is_said_to_be():
    found = headline({"main": {"name": KEY, "value": None}, "baseline": {KEY: 1.0}}, {})
    assert found is not None
    assert (found.value, found.marks, found.gain) == ("undefined", (), "")


@pytest.mark.parametrize(
    "results", [{}, {"main": None}, {"main": {"name": None, "value": None}}, {"main": [1]}]
)
def test_there_may_be_no_main_score(results):
    assert headline(results, {}) is None


@pytest.mark.parametrize("ends", [None, [1], [1, None], [2, 1], ["a", "b"], {"low": 1}])
def test_an_interval_has_two_ends_in_order(ends):
    assert interval({"intervals": {KEY: ends}}, KEY) is None


def test_times_are_in_utc_and_the_last_sign_is_that_of_a_running_run():
    state = State.of(
        {"state": "running", "started": "2026-03-01T12:00:30+02:00", "heartbeat": "2026-03-01T11:00:00Z"}
    )
    assert state.times == ("started 2026-03-01 10:00 UTC", "last sign 2026-03-01 11:00 UTC")
    state = State.of({"state": "finished", "heartbeat": "2026-03-01T11:00:00Z", "ended": "soon"})
    assert state.times == ("ended soon",)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00"])
def test_a_time_before_or_after_every_year_of_utc_stands_as_it_is(moment):
    assert State.of({"started": moment}).times == (f"started {moment}",)


def test_a_state_that_is_none_of_ours_is_shown_as_it_is():
    assert (State.of({"state": "odd"}).word, State.of({"state": "odd"}).known) == ("odd", "unknown")
    assert State.of({}).word == "no status yet"


def test_an_error_is_said_where_it_says_more_than_the_state():
    assert State.of({"state": "interrupted", "error": "interrupted"}).error == ""
    assert State.of({"state": "failed", "error": "no space"}).error == "no space"
