import pytest
from github_server import issue

from embedrun.curation.collection import github
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
