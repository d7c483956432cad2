"""The issues of a repository, and which are duplicates."""

import time
from collections.abc import Callable, Iterator

import pytest
from github_server import GitHub, issue, pull, running

pytest.importorskip("github")

from embedrun.curation import github
from embedrun.curation.github import connect, find
from embedrun.curation.pairs import Repository
from embedrun.errors import DataError


@pytest.fixture
def hub() -> Iterator[GitHub]:
    """A GitHub with pages of two items."""
    with running() as hub:
        yield hub


@pytest.fixture
def again(hub: GitHub) -> Callable[..., Repository]:
    """Reads the repository o/r, under the name `name`."""

    def read(most: int | None = None, name: str = "o/r", **changes) -> Repository:
        client = connect(hub.api, "ghp_canary0123456789", **{"timeout": 5, "retries": 2, **changes})
        return github.read(find(client, name), name, most=most, note=lambda text: None)

    return read


@pytest.fixture
def read(hub: GitHub, again: Callable[..., Repository]) -> Callable[..., Repository]:
    """The same once it has these issues and comments."""

    def make(issues, comments=(), most=None, **timelines):
        hub.add("o/r", issues, comments, **timelines)
        return again(most)

    return make


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited, if there had been a clock."""
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


def issues(*numbers: int) -> list:
    return [issue(number, f"t{number}") for number in numbers]


def test_comments_name_duplicates_of_closed_issues(read):
    found = read(
        issues(1, 2, 3, 4), [(2, "Duplicate of #1"), (4, "dup of O/R#3"), (4, "and duplicate of #3")]
    )
    assert found.duplicates == [(2, 1), (4, 3)]
    assert (found.counts["by_comment"], found.counts["issues"]) == (2, 4)


def test_what_gives_no_pair_is_counted(read):
    found = read(
        [*issues(1, 2, 3, 4, 5, 6), pull(7, "p"), issue(8, "open", state="open"), issue(9, "t1")],
        [
            (1, "duplicate of #1"),
            (2, "duplicate of #7"),
            (3, "duplicate of other/place#1"),
            (4, "duplicate of #77"),
            (5, "duplicate of https://github.com/o/r/issues/6"),  # of another host than ours
            (7, "duplicate of #1"),  # a pull request is no issue
            (8, "duplicate of #1"),
            (9, "duplicate of #1"),  # word for word the same
        ],
    )
    assert found.duplicates == []
    assert found.counts["left_out"] == 6
    assert found.counts["pull_requests"] == 1


def mark(event: str) -> dict:
    return {"event": event, "actor": {"login": "somebody"}}


def said(body: str) -> dict:
    return {"event": "commented", "body": body}


def test_the_events_of_the_platform_are_asked_for_where_no_comment_claims(read, hub):
    labelled = {"labels": [{"name": "resolution: duplicate"}]}
    found = read(
        [
            *issues(1),
            issue(2, "t2", **labelled),
            issue(3, "t3", **labelled),
            issue(4, "t4", **labelled),
            issue(5, "t5", state_reason="duplicate"),
            issue(6, "t6", **labelled),
            issue(7, "t7", **labelled),
            issue(8, "t8", state="open", **labelled),
            pull(9, "p"),
        ],
        [(7, "Duplicate of #1")],
        n2=[said("See #1, fixed by #9"), mark("marked_as_duplicate")],
        n3=[mark("marked_as_duplicate"), said("See #1"), mark("unmarked_as_duplicate")],
        n4=[mark("marked_as_duplicate"), said("See #1 or #2")],
        n5=[said("Same as o/r#1, see #5"), {"event": "closed", "state_reason": "duplicate"}],
        n6=[said("See #1"), {"event": "closed", "state_reason": "completed"}],
    )
    assert found.duplicates == [(2, 1), (5, 1), (7, 1)]
    assert (found.counts["by_event"], found.counts["event_without_original"]) == (2, 1)
    asked = {path.split("/")[5] for path, _ in hub.requests if "timeline" in path}
    assert asked == {"2", "3", "4", "5", "6"}  # neither the one that a comment settles nor the open one


def test_the_newest_issues_are_taken_and_older_originals_fetched(read, hub):
    said = [(2, "dup of #1"), (5, "dup of #1"), (4, "dup of #2")]
    found = read([*issues(1, 2, 3, 4, 5), pull(6, "p")], said, most=2)
    assert sorted(found.texts) == [1, 2, 4, 5]
    assert found.duplicates == [(4, 2), (5, 1)]  # 2 was not listed, so what is said of it is not heard
    comments = [path for path, _ in hub.requests if "comments" in path]
    assert "since=2024-01-01T00%3A04%3A00Z" in comments[0]
    assert found.texts[1] == "t1"


def test_limits_and_faults_are_waited_for_and_change_nothing(read, again, hub, waited, capsys):
    whole = read(issues(1, 2, 3, 4), [(2, "dup of #1"), (4, "dup of #3")])
    hub.requests.clear()
    hub.faults = {1: "quota", 2: "500", 4: "drop"}
    assert again() == whole
    assert 2990 < max(waited) <= 3001  # until the quota is filled
    assert "GitHub's limit is reached; resuming in 50 min" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("401", r"o/r: no answer .*401.*repositories that were read are kept: run the same command"),
        ("500", r"o/r: no answer .*; repositories that were read are kept"),
        ("drop", r"o/r: no answer"),
        ("garbage", r"o/r: no answer that can be used"),
    ],
)
def test_what_does_not_pass_is_said(read, hub, waited, fault, words):
    hub.faults = dict.fromkeys(range(2, 9), fault)
    with pytest.raises(DataError, match=words):
        read(issues(1, 2))


def test_a_repository_answers_to_its_old_and_its_new_name(hub, again):
    hub.add("New/Name", issues(1, 2, 3), [(2, "dup of new/name#1"), (3, "dup of o/r#1")])
    hub.moved = {"/repos/o/r": f"{hub.api}/repos/New/Name"}
    assert again().duplicates == [(2, 1), (3, 1)]


def test_a_long_listing_is_begun_anew_and_read_to_its_end(read, hub, monkeypatch):
    monkeypatch.setattr(github, "WINDOW", 3)
    found = read(issues(*range(1, 10)), [(number, "dup of #1") for number in range(2, 10)])
    assert found.duplicates == [(number, 1) for number in range(2, 10)]
    assert sum("since=1970" not in path for path, _ in hub.requests if "comments?" in path) >= 3


def test_a_later_denial_takes_a_claim_back_however_it_is_spelt(read):
    found = read(
        issues(1, 2, 3), [(3, "duplicate of #1"), (3, "duplicate of #2"), (3, "not a duplicate of o/r#1")]
    )
    assert found.duplicates == [(3, 2)]
