"""One GitHub server: client, quotas, retries, pages kept."""

import gzip
import os
import time

import pytest
from github_server import issue, running

from embedrun.curation.collection import github
from embedrun.curation.collection.github import (
    Cache,
    Page,
    Server,
    back_off,
    is_rate_limit,
    until_allowed,
    until_quota,
)
from embedrun.errors import DataError

ISSUES = "repos/o/r/issues"


def titles(client, **parameters) -> list[str]:
    return [item["title"] for page in client.pages(ISSUES, **parameters) for item in page]


@pytest.fixture
def five(hub):
    hub.add("o/r", [issue(number, f"t{number}") for number in range(1, 6)])
    return hub


def test_a_listing_is_followed_to_its_end(five, client):
    assert titles(client, direction="asc") == ["t1", "t2", "t3", "t4", "t5"]
    assert len(five.requests) == 3
    assert five.requests[0][0] == "/repos/o/r/issues?per_page=100&direction=asc"
    assert five.requests[2][0].endswith("&page=3")


def test_no_page_is_asked_for_twice(five, client, again):
    titles(client)
    assert titles(client) == titles(again()) == ["t1", "t2", "t3", "t4", "t5"]
    assert len(five.requests) == 3


def test_a_killed_listing_goes_on_where_it_stopped(five, client, again):
    five.faults = dict.fromkeys((3, 4, 5), "500")
    with pytest.raises(DataError, match="page=3: HTTP status 500"):
        titles(client)
    assert titles(again()) == ["t1", "t2", "t3", "t4", "t5"]
    assert set(five.answered.values()) == {1}


def test_a_damaged_page_is_asked_for_again(five, client, again, tmp_path):
    titles(client)
    path = next((tmp_path / "pages").rglob("*.json.gz"))
    path.write_bytes(path.read_bytes()[:-5])
    assert titles(again()) == ["t1", "t2", "t3", "t4", "t5"]
    assert len(five.requests) == 4


def test_a_refresh_asks_by_etag_and_keeps_what_has_not_changed(five, client, again):
    titles(client)
    five.repositories["o/r"]["issues"][4]["title"] = "new"
    five.statuses.clear()
    later = again(refresh=True)
    assert titles(later) == ["t1", "t2", "t3", "t4", "new"]
    assert titles(later)[-1] == "new"  # and within one process only once
    assert five.statuses == [304, 304, 200]
    assert titles(again())[-1] == "new"


def test_a_refresh_finds_the_page_behind_a_last_one_that_was_full(five, client, again):
    fifth = five.repositories["o/r"]["issues"].pop()
    assert titles(client) == ["t1", "t2", "t3", "t4"]  # two pages of two
    five.repositories["o/r"]["issues"].append(fifth)
    assert titles(again(refresh=True)) == ["t1", "t2", "t3", "t4", "t5"]
    assert titles(again()) == ["t1", "t2", "t3", "t4", "t5"]


def test_what_is_not_there_is_remembered_too(hub, client, again):
    assert client.get("repos/o/none").status == 404
    assert again().get("repos/o/none").items is None
    assert len(hub.requests) == 1


def test_a_listing_that_is_not_there_is_refused(hub, client):
    with pytest.raises(DataError, match=r"issues\?per_page=100: no listing there \(HTTP status 404\)"):
        titles(client)


def test_a_next_page_on_another_server_is_refused(hub, client, five):
    five.api = "http://127.0.0.1:9"  # what its links will say
    with pytest.raises(DataError, match=r"leads to another server, http://127\.0\.0\.1:9/repos/o/r/issues"):
        titles(client)


def comments(client, since=None) -> list[str]:
    return [item["body"] for page in client.updated(f"{ISSUES}/comments", since) for item in page]


def test_long_listings_are_begun_anew_further_on(hub, client, monkeypatch):
    monkeypatch.setattr(github, "_WINDOW_PAGES", 2)
    hub.add("o/r", [], [(1, f"c{number}") for number in range(1, 6)])
    assert comments(client) == ["c1", "c2", "c3", "c4", "c4", "c5"]  # the last of a window begins the next
    assert max(int(path.partition("&page=")[2] or 1) for path, _ in hub.requests) == 2


def test_a_window_of_one_moment_is_read_to_its_end(hub, client, monkeypatch):
    monkeypatch.setattr(github, "_WINDOW_PAGES", 1)
    hub.add("o/r", [], [(1, f"c{number}") for number in range(1, 6)])
    for comment in hub.repositories["o/r"]["comments"]:
        comment["updated_at"] = "2024-02-01T00:00:00Z"
    assert comments(client, since="2024-02-01T00:00:00Z") == ["c1", "c2", "c3", "c4", "c5"]


def test_a_long_listing_can_begin_at_a_time(hub, client):
    hub.add("o/r", [], [(1, "c1"), (1, "c2"), (1, "c3")])
    assert comments(client, since="2024-02-01T00:00:02Z") == ["c2", "c3"]


PAGE = Page("https://api.github.com/repos/o/r/issues", 200, [{"body": "é \ud800"}], "next", 'W/"1"')


def test_a_page_comes_back_as_it_was(tmp_path):
    cache = Cache(tmp_path)
    assert cache.read(PAGE.url) is None
    cache.write(PAGE)
    assert cache.read(PAGE.url) == PAGE
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [cache.path(PAGE.url)]


def test_the_same_page_is_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        Cache(tmp_path / name).write(PAGE)
    assert (
        Cache(tmp_path / "a").path(PAGE.url).read_bytes() == Cache(tmp_path / "b").path(PAGE.url).read_bytes()
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-9],
        lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
        lambda content: b"",
        lambda content: gzip.compress(b"{}"),
        lambda content: gzip.compress(b"[1]"),
    ],
)
def test_a_damaged_page_is_none(tmp_path, damage):
    cache = Cache(tmp_path)
    cache.write(PAGE)
    path = cache.path(PAGE.url)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read(PAGE.url) is None


def test_a_page_under_the_name_of_another_is_none(tmp_path):
    cache = Cache(tmp_path)
    cache.write(PAGE)
    other = cache.path("https://other")
    other.parent.mkdir(parents=True)
    cache.path(PAGE.url).rename(other)
    assert cache.read("https://other") is None


def test_only_old_remains_of_killed_writers_are_removed(tmp_path):
    cache = Cache(tmp_path)
    cache.write(PAGE)
    folder = cache.path(PAGE.url).parent
    old, new = folder / ".tmp-old", folder / ".tmp-new"
    for path in (old, new):
        path.touch()
    os.utime(old, (time.time() - 3700,) * 2)
    cache.clear_remains()
    assert (old.exists(), new.exists()) == (False, True)
    assert cache.read(PAGE.url) == PAGE


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
    assert until_allowed({"retry-after": "9" * 400}, 0, NOW) == 999_999_999_999  # refused as any long wait


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


@pytest.fixture
def url(hub) -> str:
    hub.add("o/r", [issue(1, "One")])
    return f"{hub.api}/repos/o/r/issues/1"


def test_a_request_says_who_asks_and_what_for(hub, server, url):
    assert server.ask(url).items["title"] == "One"
    ((path, headers),) = hub.requests
    assert path == "/repos/o/r/issues/1"
    assert headers["authorization"] == "Bearer ghp_canary0123456789"
    assert headers["accept"] == "application/vnd.github+json"
    assert headers["user-agent"] == "embedrun"


def test_without_a_token_none_is_sent(hub, url):
    Server(api=hub.api, token=None, timeout=5, retries=0).ask(url)
    assert "authorization" not in hub.requests[0][1]


@pytest.mark.parametrize("fault", ["500", "drop", "cut"])
def test_a_failure_is_tried_again_after_a_back_off(hub, server, slept, url, fault):
    hub.faults = {1: fault, 2: fault}
    assert server.ask(url).status == 200
    assert len(hub.requests) == server.requests == 3
    assert [1 <= slept[0] < 1.25, 2 <= slept[1] < 2.5] == [True, True]


def test_after_all_retries_it_gives_up_and_says_how_to_go_on(hub, server, slept, url):
    hub.faults = dict.fromkeys(range(1, 9), "500")
    with pytest.raises(DataError, match=r"HTTP status 500, 3 times in a row; what was fetched is kept"):
        server.ask(url)
    assert (len(hub.requests), len(slept)) == (3, 2)


def test_a_server_that_is_not_there_is_a_data_error(hub, slept):
    server = Server(api="http://127.0.0.1:1", token=None, timeout=5, retries=1, sleep=slept.append)
    with pytest.raises(DataError, match=r"no whole answer .*2 times in a row"):
        server.ask("http://127.0.0.1:1/repos/o/r")


def test_a_used_up_quota_is_waited_for(hub, server, slept, url):
    hub.faults = {1: "quota"}
    assert server.ask(url).status == 200
    (wait,) = slept
    assert 3 <= wait <= 5  # the reset is 3 seconds away, and both clocks are cut to whole seconds


def test_retry_after_is_obeyed_and_told(hub, slept, url):
    told: list[float] = []
    server = Server(api=hub.api, token=None, timeout=5, retries=0, sleep=slept.append, notice=told.append)
    hub.faults = {1: "429"}
    assert server.ask(url).status == 200
    assert slept == told == [7]


def test_a_secondary_limit_is_waited_for_longer_each_time(hub, server, slept, url):
    hub.faults = {1: "secondary", 2: "secondary"}
    assert server.ask(url).status == 200
    assert slept == [60, 120]


def test_limits_without_end_are_given_up(hub, server, url):
    hub.faults = dict.fromkeys(range(1, 99), "429")
    with pytest.raises(DataError, match="refused 10 times by the rate limit"):
        server.ask(url)


def test_a_wait_of_hours_is_refused(hub, server, url, monkeypatch):
    hub.faults = {1: "429"}
    monkeypatch.setattr("embedrun.curation.collection.github.until_allowed", lambda *_: 3 * 3600.0)
    with pytest.raises(DataError, match=r"asks to wait 3 h 0 min"):
        server.ask(url)


@pytest.mark.parametrize(
    ("fault", "said"),
    [("forbidden", r"403 \(Resource not accessible\); the token lacks"), ("401", "the token is not valid")],
)
def test_a_refusal_for_good_is_not_tried_again(hub, server, slept, url, fault, said):
    hub.faults = {1: fault}
    with pytest.raises(DataError, match=said):
        server.ask(url)
    assert (len(hub.requests), slept) == (1, [])


def test_what_is_not_there_is_an_answer(hub, server, url):
    answer = server.ask(f"{hub.api}/repos/o/r/issues/9")
    assert (answer.status, answer.items) == (404, None)


def test_an_answer_under_a_known_etag_is_304(server, url):
    first = server.ask(url)
    assert server.ask(url, first.headers["etag"]).status == 304
    assert server.ask(url, 'W/"other"').status == 200


def test_a_move_on_the_server_is_followed_with_the_token(hub, server, url):
    hub.moved = {"/repos/o/r/issues/1": "/repos/n/r/issues/1"}
    hub.add("n/r", [issue(1, "Moved")])
    assert server.ask(url).items["title"] == "Moved"
    assert all("authorization" in headers for _, headers in hub.requests)


def test_the_token_never_leaves_the_server(hub, server, url):
    with running() as elsewhere:
        hub.moved = {"/repos/o/r/issues/1": f"{elsewhere.api}/repos/o/r/issues/1"}
        with pytest.raises(DataError, match="leads to another server"):
            server.ask(url)
        assert elsewhere.requests == []


def test_moves_in_a_circle_end(hub, server, url):
    hub.moved = {"/repos/o/r/issues/1": "/repos/o/r/issues/1"}
    with pytest.raises(DataError, match="HTTP status 301"):
        server.ask(url)
    assert len(hub.requests) == 6
