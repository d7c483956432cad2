import pytest
from github_server import issue, running

from embedrun.curation.collection.github import Server
from embedrun.errors import DataError


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
    with pytest.raises(DataError, match="refused 10 times for the request rate"):
        server.ask(url)


def test_a_wait_of_hours_is_refused(hub, server, url, monkeypatch):
    hub.faults = {1: "429"}
    monkeypatch.setattr("embedrun.curation.collection.github.until_allowed", lambda *_: 3 * 3600.0)
    with pytest.raises(DataError, match=r"asks to wait 3\.0 hours"):
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
