import random
from datetime import UTC, datetime

import pytest

from embedrun.curation.generation.http import LONGEST, delay, passes, told

NOW = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("0", 0.0),
        ("7", 7.0),
        ("1.5", 1.5),
        ("Wed, 01 May 2024 12:00:30 GMT", 30.0),
        ("Wed, 01 May 2024 11:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(header, seconds):
    assert told(header, NOW) == seconds


def test_waiting_doubles_up_to_a_minute_with_a_factor_from_a_half_to_one():
    for attempt, whole in [(0, 1), (1, 2), (2, 4), (5, 32), (6, LONGEST), (50, LONGEST), (5000, LONGEST)]:
        waits = [delay(attempt, None, random.Random(seed)) for seed in range(50)]
        assert whole / 2 <= min(waits) < max(waits) <= whole


def test_what_the_endpoint_asks_for_is_waited_out_and_not_much_longer():
    waits = [delay(0, 20.0, random.Random(seed)) for seed in range(50)]
    assert 20 <= min(waits) < max(waits) <= 22
    assert delay(3, 0.0, random.Random(0)) == 0


def test_the_same_source_gives_the_same_waiting():
    assert delay(2, None, random.Random("a")) == delay(2, None, random.Random("a"))


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_these_statuses_pass(status):
    assert passes(status)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422])
def test_these_do_not(status):
    assert not passes(status)
