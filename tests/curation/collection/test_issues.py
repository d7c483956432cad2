"""The issues of a repository, and which are duplicates."""

import time

import pytest
from github_server import issue, pull

from embedrun.curation.collection.issues import Claim, Reader, Reference, claims, references, text_of


@pytest.fixture
def read(hub, client):
    """The repository o/r with these issues and comments, read."""

    def make(issues, comments=(), most=None, full_name="o/r", **timelines):
        hub.add("o/r", issues, comments, **timelines)
        return Reader(client, most=most).read("o/r", full_name)

    return make


def issues(*numbers: int) -> list:
    return [issue(number, f"t{number}") for number in numbers]


def test_a_text_is_title_blank_line_body():
    assert text_of(issue(1, " T ", "one\r\ntwo \r\n")) == "T\n\none\ntwo"
    assert text_of(issue(1, "T", None)) == "T"
    assert text_of(issue(1, "T\ud800", "")) == "T?"


def test_comments_name_duplicates_of_closed_issues(read):
    found = read(
        issues(1, 2, 3, 4), [(2, "Duplicate of #1"), (4, "dup of O/R#3"), (4, "and duplicate of #3")]
    )
    assert found.duplicates == [(2, 1), (4, 3)]
    assert (found.counts["by_comment"], found.counts["issues"]) == (2, 4)


def test_what_gives_no_pair_is_counted_by_reason(read):
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
    assert {key: count for key, count in found.counts.items() if key.startswith("left_out")} == {
        "left_out_itself": 1,
        "left_out_pull_request": 1,
        "left_out_other_repository": 1,
        "left_out_not_found": 1,
        "left_out_open": 1,
        "left_out_same_text": 1,
    }
    assert found.counts["pull_requests"] == 1


def test_a_later_denial_takes_a_claim_back_however_it_is_spelt(read):
    found = read(
        issues(1, 2, 3), [(3, "duplicate of #1"), (3, "duplicate of #2"), (3, "not a duplicate of o/r#1")]
    )
    assert found.duplicates == [(3, 2)]


def test_a_repository_answers_to_its_old_and_its_new_name(read):
    found = read(issues(1, 2, 3), [(2, "dup of new/name#1"), (3, "dup of o/r#1")], full_name="New/Name")
    assert found.duplicates == [(2, 1), (3, 1)]


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


def test_the_newest_issues_are_taken_and_older_originals_fetched(read, hub, client):
    found = read(
        issues(1, 2, 3, 4, 5), [(2, "dup of #1"), (5, "dup of #1"), (4, "dup of #2")], most=2, full_name="o/r"
    )
    assert sorted(found.issues) == [1, 2, 4, 5]
    assert found.duplicates == [(4, 2), (5, 1)]  # 2 was not listed, so what is said of it is not heard
    comments = [path for path, _ in hub.requests if "comments" in path]
    assert "since=2024-01-01T00%3A00%3A04Z" in comments[0]
    before = len(hub.requests)
    assert Reader(client, most=2).texts(found, {1, 5}) == {1: "t1", 5: "t5"}
    assert len(hub.requests) == before


def test_an_original_that_was_moved_away_is_not_found(read, hub):
    hub.add("else/where", issues(9))
    hub.moved = {"/repos/o/r/issues/9": f"{hub.api}/repos/else/where/issues/9"}
    found = read(issues(1, 2), [(2, "dup of #9")])
    assert (found.duplicates, found.counts["left_out_not_found"]) == ([], 1)


def test_an_empty_repository_is_read_without_its_comments(read, hub):
    assert read([pull(1, "p")], [(1, "dup of #2")]).duplicates == []
    assert not any("comments" in path for path, _ in hub.requests)


SAID = [
    "Duplicate of #12",
    "duplicate of #12.",
    "Duplicate of\r\n#12\r\n",
    "**Duplicate of** #12",
    "Duplicate: #12",
    "Duplicate - #12",
    "Duplicate issue of #12 :)",
    "Duplicates #12",
    "This duplicates #12",
    "Duplicated of #12",
    "dup #12",
    "Dup of #12, thanks!",
    "Closing as dup (#12)",
    "dupe of #12",
    "Closing as a duplicate of #12",
    "closing as duplicate, see #12",
    "Closing as duplicate.\n\nSee #12",
    "Closing this as a duplicate in favor of #12",
    "Marking as duplicate of the original issue #12",
    "This has been marked as duplicate of #12",
    "Thanks! Looks like a duplicate of #12, closing.",
    "I think this is a duplicate of #12",
    "Not a bug, duplicate of #12",
    "As said in #10, this is a duplicate of #12",
    "duplicate of GH-12",
    "> is it new?\n\nNo: duplicate of #12",
]
NOT_SAID = [
    "Is this a duplicate of #12?",
    "Duplicate of #12?",
    "Possible duplicate of #12",
    "potentially a duplicate of #12",
    "This might be a duplicate of #12",
    "could be a dup of #12",
    "not sure if duplicate of #12",
    "If this is a duplicate of #12, close it",
    "#10 is a duplicate of #12",
    "Marking #10 as a duplicate of #12",
    "Duplicated by #12",
    "Duplicates: #12, #13",
    "This has a duplicate: #12",
    "deduplicate #12",
    "duplicate key in #12",
    "We should not duplicate code. Fixed in #12",
    "duplicate PR of #12",
    "duplicate of 12",
    "duplicate of https://gitlab.com/o/r/issues/12",
    "> Duplicate of #12",
    "```\nduplicate of #12\n```",
    "```\nan unclosed fence\nduplicate of #12",
    "`duplicate of #12`",
    "<!-- say if it is a duplicate of #12 -->",
    "Fixed by #12, no duplicate",
    "See #12",
    "",
]
DENIED = [
    "not a duplicate of #12",
    "This isn't a duplicate of #12",
    "I don’t think this is a dup of #12",
    "No longer a duplicate of #12",
    "Unmarking as duplicate of #12",
    "non-duplicate of #12",
]


@pytest.mark.parametrize("text", SAID)
def test_the_usual_spellings_are_claims(text):
    assert claims(text) == [Claim(Reference(None, 12), True)]


@pytest.mark.parametrize("text", NOT_SAID)
def test_false_friends_are_none(text):
    assert claims(text) == []


@pytest.mark.parametrize("text", DENIED)
def test_a_denial_is_known_as_one(text):
    assert claims(text) == [Claim(Reference(None, 12), False)]


@pytest.mark.parametrize(
    ("text", "repository"),
    [
        ("dupe of Owner/repo#12", "owner/repo"),
        ("closing as a duplicate of https://github.com/o/R/issues/12", "o/r"),
        ("duplicate of https://github.com/o/r/pull/12", "o/r"),
        ("duplicate of <https://www.github.com/o/r/issues/12>", "o/r"),
        ("duplicate of https://github.com/o/r/issues/12#issuecomment-5 thanks", "o/r"),
        ("This is a duplicate of [#12](https://github.com/o/r/issues/12).", "o/r"),
        ("duplicate of [this one](https://github.com/three/three.js/issues/12)", "three/three.js"),
    ],
)
def test_other_repositories_are_named_in_lower_case(text, repository):
    assert claims(text) == [Claim(Reference(repository, 12), True)]


def test_one_comment_can_name_several():
    both = [Claim(Reference(None, 12), True), Claim(Reference(None, 13), True)]
    for text in (
        "Duplicate of #12 and #13",
        "dup of #12, #13",
        "Duplicate of #12.\nAlso a duplicate of #13.",
    ):
        assert claims(text) == both


def test_another_host_counts_where_it_is_asked():
    text = "duplicate of https://git.example.org/o/r/issues/12"
    assert claims(text) == []
    assert claims(text, "git.example.org") == [Claim(Reference("o/r", 12), True)]


def test_references_are_all_issues_of_the_own_words():
    text = "See #3, o/r#4 and https://github.com/o/r/issues/5\n> #6\n`#7` abc#8 #1234567890"
    assert references(text) == [Reference(None, 3), Reference("o/r", 4), Reference("o/r", 5)]


@pytest.mark.parametrize(
    "text",
    ["duplicate of the " * 20_000, "[(" * 50_000, "dup " * 50_000, "#1 is " * 30_000 + "dup of #3",
     "`" * 99_999, "<!--" * 50_000, "a/b" * 50_000, "> x\n" * 30_000, "~~~x\n" + "```\n" * 30_000,
     "x-" * 60_000 + "dup"],
    ids=lambda text: text[:12].strip(),
)  # fmt: skip
def test_a_hostile_comment_takes_no_longer_than_its_length(text):
    started = time.process_time()
    claims(text)
    assert time.process_time() - started < 1.5  # 0.1 s; matching that goes back and forth takes minutes
