import pytest

from embedrun.curation.collection.github import back_off, is_rate_limit, until_allowed, until_quota

NOW = 1_700_000_000.0
DATE = "Tue, 14 Nov 2023 22:13:20 GMT"  # the same moment


@pytest.mark.parametrize(
    ("status", "headers", "body", "limited"),
    [
        (429, {}, "", True),
        (403, {"retry-after": "60"}, "", True),
        (403, {"x-ratelimit-remaining": "0"}, "", True),
        (403, {}, "You have exceeded a secondary rate limit.", True),
        (403, {}, "You have triggered an abuse detection mechanism.", True),
        (403, {"x-ratelimit-remaining": "12"}, "Resource not accessible", False),
        (500, {"retry-after": "60"}, "", False),
        (404, {}, "", False),
    ],
)
def test_a_403_is_a_rate_limit_or_a_refusal(status, headers, body, limited):
    assert is_rate_limit(status, headers, body) is limited


def test_retry_after_counts_before_the_reset():
    headers = {"retry-after": "7", "x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 900)}
    assert until_allowed(headers, 0, NOW) == 7
    assert until_allowed({"retry-after": "0"}, 0, NOW) == 1


def test_the_reset_is_on_the_clock_of_the_server():
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 90)}
    assert until_quota(headers, NOW) == 91
    assert until_quota({**headers, "date": DATE}, NOW + 5000) == 91  # our clock is fast
    assert until_quota({**headers, "date": "yesterday"}, NOW) == 91
    assert until_quota({**headers, "x-ratelimit-remaining": "1"}, NOW) is None
    assert until_quota({"x-ratelimit-remaining": "0"}, NOW) is None


def test_a_reset_that_has_passed_asks_for_a_second():
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) - 90)}
    assert until_allowed(headers, 0, NOW) == 1


def test_a_limit_without_a_time_doubles_from_a_minute():
    assert [until_allowed({}, attempt, NOW) for attempt in range(3)] == [60, 120, 240]


def test_back_off_doubles_to_a_minute_with_a_quarter_of_jitter():
    waits = [back_off("u", attempt) for attempt in range(9)]
    for wait, base in zip(waits, (1, 2, 4, 8, 16, 32, 60, 60, 60), strict=True):
        assert base <= wait < 1.25 * base
    assert waits == [back_off("u", attempt) for attempt in range(9)]
    assert back_off("u", 0) != back_off("v", 0)
