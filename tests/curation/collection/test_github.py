"""One GitHub server: quotas, retries, pages kept."""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from github_server import issue, running

pytest.importorskip("hishel.httpx2")

import httpx2

from embedrun.curation.collection import github
from embedrun.curation.collection.github import (
    is_rate_limit,
    until_allowed,
    until_quota,
)
from embedrun.errors import ConfigError, DataError, exit_code

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


def test_a_page_is_kept_for_as_long_as_nobody_asks_to_refresh(five, client, again, monkeypatch):
    five.headers = {
        "Cache-Control": "private, no-cache, must-revalidate, max-age=0",
        "Vary": "Authorization, *",
    }
    titles(client)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 5 * 365 * 86400)
    assert titles(again(token="another")) == ["t1", "t2", "t3", "t4", "t5"]
    assert len(five.requests) == 3


def test_no_page_is_dropped_for_want_of_room(client):
    assert client._storage.max_size is None
    assert client._storage.default_ttl is client._storage.default_tti is None


def test_the_cache_is_one_file_and_holds_no_token(five, client, tmp_path):
    titles(client)
    client.close()
    (file,) = (tmp_path / "pages").iterdir()  # and none that would keep the folder out of git
    assert file.name == "pages.db"
    content = file.read_bytes()
    assert b"/repos/o/r/issues" in content
    assert b"canary" not in content
    assert b"uthorization" not in content


def stored(tmp_path):
    """The cache's own tables."""
    return sqlite3.connect(tmp_path / "pages" / "pages.db", isolation_level=None)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE streams SET chunk_data = substr(chunk_data, 1, length(chunk_data) - 40)",
        "UPDATE streams SET chunk_data = CAST(x'1f8b' || substr(chunk_data, 4) AS BLOB)",
        "UPDATE streams SET chunk_data = x''",
        "UPDATE entries SET data = x'c1'",
    ],
)
def test_a_damaged_page_is_asked_for_again(five, client, again, tmp_path, damage, capfd):
    titles(client)
    with closing(stored(tmp_path)) as tables:
        assert tables.execute(f"{damage} WHERE rowid = 2").rowcount == 1
    for _ in range(2):
        assert titles(again()) == ["t1", "t2", "t3", "t4", "t5"]
    assert len(five.requests) == 4
    assert capfd.readouterr() == ("", "")


def no_database(path):
    path.write_bytes(b"no database at all, " * 500)


def half_a_database(path):
    path.write_bytes(path.read_bytes()[:6000])


def holes(path):
    content = bytearray(path.read_bytes())
    for place in range(4096, len(content), 4096):  # the first page says where the others are
        content[place : place + 64] = bytes(64)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [no_database, half_a_database, holes])
def test_a_damaged_cache_is_begun_anew_and_said_so_once(five, client, again, told, tmp_path, damage, capfd):
    titles(client)
    client.close()
    damage(tmp_path / "pages" / "pages.db")
    for _ in range(2):
        assert titles(again()) == ["t1", "t2", "t3", "t4", "t5"]
    assert len(five.requests) == 6
    (said,) = told
    assert said.startswith(f"{tmp_path}/pages/pages.db is damaged (")
    assert said.endswith("); begun anew, what it held is asked for again")
    assert capfd.readouterr() == ("", "")


def test_a_cache_of_another_hishel_is_left_as_it_is(five, client, again, told, tmp_path):
    with closing(stored(tmp_path)) as tables:
        tables.execute("CREATE TABLE entries (id, something)")
    with pytest.raises(
        DataError, match=r"no pages can be kept there \(.* left as it is.*; name another folder"
    ):
        titles(again())
    with closing(stored(tmp_path)) as tables:
        assert tables.execute("SELECT sql FROM sqlite_master").fetchall() == [
            ("CREATE TABLE entries (id, something)",)
        ]
    assert (told, five.requests) == ([], [])


def test_a_disk_that_damages_everything_is_given_up(five, client, again, tmp_path, monkeypatch):
    client.close()
    no_database(tmp_path / "pages" / "pages.db")
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(DataError, match=r"pages\.db: damaged again and again; name another folder"):
        titles(again())
    assert five.requests == []


def test_a_cache_that_another_process_holds_is_no_damage(five, client, told, tmp_path):
    client.get("repos/o/r")
    client._storage.connection.execute("PRAGMA busy_timeout = 1")
    with closing(stored(tmp_path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DataError, match=r"no pages can be kept there \(database is locked\)"):
            titles(client)
    assert told == []
    assert titles(client) == ["t1", "t2", "t3", "t4", "t5"]


def test_a_folder_that_cannot_be_written_to_is_named(five, client, again, tmp_path):
    client.close()
    (tmp_path / "pages" / "pages.db").unlink()
    (tmp_path / "pages" / "pages.db").mkdir()
    with pytest.raises(
        DataError, match=r"pages\.db: no pages can be kept there \(unable to open .*; name another"
    ):
        again()


def test_a_full_disk_is_told_as_one(five, client):
    titles(client, state="open")
    connection = client._storage.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    five.repositories["o/r"]["issues"][0]["body"] = os.urandom(20_000).hex()
    with pytest.raises(OSError, match="No space left on device") as failed:
        titles(client)
    assert exit_code(failed.value) == 5


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


def test_a_next_page_that_is_no_address_is_refused(five, client):
    five.api = "http://[::1"
    with pytest.raises(DataError, match=r"which is no address"):
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


ONE = "repos/o/r/issues/1"


@pytest.fixture
def one(hub):
    """A server with one issue."""
    hub.add("o/r", [issue(1, "One")])
    return hub


def test_a_request_says_who_asks_and_what_for(one, client):
    assert client.get(ONE).items["title"] == "One"
    ((path, headers),) = one.requests
    assert path == "/repos/o/r/issues/1"
    assert headers["authorization"] == "Bearer ghp_canary0123456789"
    assert headers["accept"] == "application/vnd.github+json"
    assert headers["user-agent"] == "embedrun"


def test_without_a_token_none_is_sent(one, again):
    again(token=None).get(ONE)
    assert "authorization" not in one.requests[0][1]


@pytest.mark.parametrize("fault", ["500", "drop", "cut", "stall", "garbage", "noise", "unpacked"])
def test_a_failure_is_tried_again_after_a_back_off(one, again, slept, fault):
    one.faults = {1: fault, 2: fault}
    client = again(timeout=0.5)
    assert client.get(ONE).items["title"] == "One"
    assert len(one.requests) == client.server.requests == 3
    assert slept == [1, 2]


def test_a_slow_answer_is_waited_for(one, again, slept):
    one.faults = {1: "drip"}
    assert again(timeout=0.2).get(ONE).items["title"] == "One"
    assert slept == []


@pytest.mark.parametrize("fault", ["slow body", "slow head"])
def test_an_answer_that_comes_byte_by_byte_ends_with_the_time_of_one_try(one, again, slept, fault):
    one.faults = {1: fault}
    started = time.monotonic()
    assert again(timeout=0.3).get(ONE).items["title"] == "One"
    assert time.monotonic() - started < 3
    assert (len(one.requests), slept) == (2, [1])
    one.faults = dict.fromkeys(range(3, 9), fault)
    with pytest.raises(DataError, match=r"no whole answer \(ReadTimeout: .*\), 3 times in a row; what was"):
        again(timeout=0.1).get("repos/o/r/issues/2")


def test_an_answer_that_unpacks_to_more_than_any_page_is_not_held(one, again, monkeypatch):
    monkeypatch.setattr(github, "_LONGEST_BODY", 1 << 20)
    one.faults = dict.fromkeys(range(1, 4), "bomb")
    with pytest.raises(DataError, match=r"no whole answer \(DecodingError: it is over 1.0 MiB\), 3 times"):
        again().get(ONE)


def test_waits_between_tries_double_to_a_minute(one, again, slept):
    one.faults = dict.fromkeys(range(1, 9), "500")
    assert again(retries=8).get(ONE).status == 200
    assert slept == [1, 2, 4, 8, 16, 32, 60, 60]


def test_after_all_retries_it_gives_up_and_says_how_to_go_on(one, client, slept):
    one.faults = dict.fromkeys(range(1, 9), "500")
    with pytest.raises(DataError, match=r"HTTP status 500, 3 times in a row; what was fetched is kept"):
        client.get(ONE)
    assert (len(one.requests), len(slept)) == (3, 2)


def test_a_server_that_is_not_there_is_a_data_error(again):
    client = again(api="http://127.0.0.1:1", retries=1)
    with pytest.raises(DataError, match=r"no whole answer \(ConnectError: .*2 times in a row"):
        client.get("repos/o/r")


def test_a_certificate_that_is_not_trusted_is_not_tried_again(again, slept, monkeypatch):
    client = again()

    def untrusted(request, **_):
        raise httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")

    monkeypatch.setattr(client.server._client, "send", untrusted)
    with pytest.raises(DataError, match=r"self-signed certificate.*, once"):
        client.get(ONE)
    assert slept == []


def test_the_proxy_of_the_environment_is_used(one, again, monkeypatch):
    monkeypatch.setenv("http_proxy", one.api)
    assert again(api="http://api.example.invalid").get(ONE).items["title"] == "One"
    assert one.requests[0][0] == "http://api.example.invalid/repos/o/r/issues/1"


def test_a_proxy_that_cannot_be_used_is_named_before_anything_is_asked(again, monkeypatch):
    monkeypatch.setenv("all_proxy", "gopher://me:hunter2@127.0.0.1:9")
    with pytest.raises(
        ConfigError, match=r"proxies and certificates of the environment .*; change or unset"
    ) as said:
        again()
    assert "hunter2" not in str(said.value)


def test_a_used_up_quota_is_waited_for(one, client, slept):
    one.faults = {1: "quota"}
    assert client.get(ONE).status == 200
    (wait,) = slept
    assert 3 <= wait <= 5  # the reset is 3 seconds away, and both clocks are cut to whole seconds


def test_retry_after_is_obeyed_and_told(one, again, slept, told):
    one.faults = {1: "429"}
    assert again(retries=0).get(ONE).status == 200
    assert (slept, told) == ([7], ["rate limit reached; resuming in 7.0 s"])


def test_a_secondary_limit_is_waited_for_longer_each_time(one, client, slept):
    one.faults = {1: "secondary", 2: "secondary"}
    assert client.get(ONE).status == 200
    assert slept == [60, 120]


def test_limits_without_end_are_given_up(one, client):
    one.faults = dict.fromkeys(range(1, 99), "429")
    with pytest.raises(DataError, match="refused 10 times by the rate limit"):
        client.get(ONE)


def test_a_wait_of_hours_is_refused(one, client, monkeypatch):
    one.faults = {1: "429"}
    monkeypatch.setattr(github, "until_allowed", lambda *_: 3 * 3600.0)
    with pytest.raises(DataError, match=r"asks to wait 3 h 0 min"):
        client.get(ONE)


@pytest.mark.parametrize(
    ("fault", "said"),
    [("forbidden", r"403 \(Resource not accessible\); the token lacks"), ("401", "the token is not valid")],
)
def test_a_refusal_for_good_is_not_tried_again(one, client, slept, fault, said):
    one.faults = {1: fault}
    with pytest.raises(DataError, match=said):
        client.get(ONE)
    assert (len(one.requests), slept) == (1, [])


def test_a_move_on_the_server_is_followed_with_the_token(one, client, again):
    one.moved = {"/repos/o/r/issues/1": "/repos/n/r/issues/1"}
    one.add("n/r", [issue(1, "Moved")])
    for later in (client, again()):
        assert later.get(ONE).items["title"] == "Moved"
    assert ["authorization" in headers for _, headers in one.requests] == [True, True]


def test_the_token_never_leaves_the_server(one, client):
    with running() as elsewhere:
        one.moved = {"/repos/o/r/issues/1": f"{elsewhere.api}/repos/o/r/issues/1"}
        with pytest.raises(DataError, match="issues/1: leads to another server"):
            client.get(ONE)
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    "location", ["https://{host}/x", "http://me:you@{host}/x", "ftp://{host}/x", "//127.0.0.2:9/x"]
)
def test_another_scheme_user_or_address_is_another_server(one, client, location):
    one.moved = {"/repos/o/r/issues/1": location.format(host=one.api.removeprefix("http://"))}
    with pytest.raises(DataError, match="leads to another server"):
        client.get(ONE)
    assert len(one.requests) == 1


def test_moves_in_a_circle_end(one, client):
    one.moved = {"/repos/o/r/issues/1": "/repos/o/r/issues/1"}
    with pytest.raises(DataError, match="HTTP status 301"):
        client.get(ONE)
    assert len(one.requests) == 6


def test_a_move_to_nowhere_is_refused(one, client):
    one.moved = {"/repos/o/r/issues/1": "http://[::1"}
    with pytest.raises(DataError, match=r"HTTP status 301|Invalid URL in location header"):
        client.get(ONE)
