"""The issues of a repository, read through PyGithub, and which of them are duplicates."""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from github import Auth, BadAttributeException, Github, GithubException, GithubRetry
from github.Issue import Issue
from github.PaginatedList import PaginatedList
from github.Repository import Repository as Remote
from requests import RequestException

from embedrun.console import duration, say
from embedrun.curation.claims import Reference, claims, references
from embedrun.curation.pairs import Repository
from embedrun.errors import DataError

_LABEL = re.compile(r"\bdup(?:e|licate)?s?\b", re.IGNORECASE)
_MARKS = {"closed": True, "marked_as_duplicate": True, "unmarked_as_duplicate": False}
_LONGEST_WAIT = 2 * 3600  # seconds; GitHub's quota is filled every hour
# Items of one listing before it is begun anew further on: GitHub ends those of comments after 40,000, and
# PyGithub holds all that it has given.
WINDOW = 10_000
_GONE = (404, 410, 451)


class _Retry(GithubRetry):
    def sleep(self, response: Any = None) -> None:
        seconds = (self.get_retry_after(response) if response else None) or self.get_backoff_time()
        if seconds > 10:
            say(f"GitHub's limit is reached; resuming in {duration(seconds)}")
        super().sleep(response)


def connect(api: str, token: str | None, *, timeout: float, retries: int) -> Github:
    """A client of one server, which alone gets the token; it waits for the server's limits and says so."""
    retry = _Retry(
        max_rate_limit_wait=_LONGEST_WAIT,
        total=retries,
        backoff_factor=0.5,
        status_forcelist=[429, *range(500, 600)],
    )
    return Github(
        auth=None if token is None else Auth.Token(token),
        base_url=api.rstrip("/"),
        timeout=math.ceil(timeout),
        retry=retry,
        per_page=100,
        seconds_between_requests=None,
        user_agent="embedrun",
    )


def find(client: Github, name: str) -> Remote:
    """The repository of a name, which may be an old one; DataError if it cannot be read, or has no issues."""
    with _explained(name):
        remote = client.get_repo(name)
        if not remote.has_issues:
            raise DataError(f"{name}: its issues are switched off; leave it out")
        return remote


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except (
        GithubException, BadAttributeException, RequestException, RuntimeError, AssertionError, LookupError,
        TypeError, ValueError,
    ) as fault:  # fmt: skip
        if isinstance(fault, GithubException) and fault.status in _GONE:
            raise DataError(f"{name}: no such repository, or the token may not read it") from fault
        raise DataError(
            f"{name}: no answer that can be used ({type(fault).__name__}: {fault}); repositories that were "
            "read are kept: run the same command to resume"
        ) from fault


def read(remote: Remote, name: str, *, most: int | None, note: Callable[[str], None]) -> Repository:
    """The newest `most` issues, None for all, and the duplicates among them; `name` is as the user gave it.

    A claim of a comment counts where its issue is closed. An issue that the platform itself marks as a
    duplicate (`marked_as_duplicate` without a later `unmarked_as_duplicate`, or closed with the reason
    `duplicate`) and for which no comment claims an original is a duplicate of the one issue that its comments
    refer to: the events of the REST API do not name it. Without such a reference, or with several, it is left
    out.

    Departure from the AnglE paper, Sec. 4.1: it speaks of comments by maintainers; here everybody's count,
    for it was a maintainer who closed the issue. And a duplicate of another repository's issue is left out.
    """
    with _explained(name):
        return _Reader(remote, name, note).read(most)


class _Reader:
    def __init__(self, remote: Remote, name: str, note: Callable[[str], None]) -> None:
        self._remote, self._note, self._repository = remote, note, Repository(name)
        self._texts, self._counts = self._repository.texts, self._repository.counts
        self._names = {name.lower(), remote.full_name.lower()}
        self._host = urlsplit(remote.requester.base_url).netloc.lower().removeprefix("api.")
        self._pulls: set[int] = set()
        self._closed: set[int] = set()
        self._flagged: dict[int, Issue] = {}  # a label or the reason of its closing says duplicate

    def read(self, most: int | None) -> Repository:
        oldest = self._read_issues(most)
        originals = self._claimed(oldest if most else None) if self._texts else {}
        self._counts["by_comment"] = sum(map(len, originals.values()))
        for number, issue in sorted(self._flagged.items()):
            if number in self._closed and not originals.get(number):
                originals[number] = self._marked(issue)
        claimed = {(number, original) for number, claims in originals.items() for original in claims}
        pairs = {(number, original.number) for number, original in claimed if self._is_pair(number, original)}
        self._counts.update(
            issues=len(self._texts), pull_requests=len(self._pulls), left_out=len(claimed) - len(pairs)
        )
        self._repository.duplicates = sorted(pairs)
        return self._repository

    def _read_issues(self, most: int | None) -> datetime | None:
        if most is None:
            listing = _windows(lambda **options: self._remote.get_issues(state="all", **options), None)
        else:
            listing = self._remote.get_issues(state="all", sort="created", direction="desc")
        oldest = None
        for count, issue in enumerate(listing):
            if self._keep(issue):
                oldest = min(oldest or issue.created_at, issue.created_at)
            if len(self._texts) == most:
                break
            if count % 1000 == 0:
                self._note(f"{self._repository.name}: {len(self._texts):,} issues")
        return oldest

    def _keep(self, issue: Issue) -> bool:
        number = issue.number
        if "/pull/" in issue.html_url:  # PyGithub would ask for an issue again for its `pull_request`
            self._pulls.add(number)
            return False
        body = (issue.body or "").replace("\r\n", "\n").strip()
        text = f"{issue.title.strip()}\n\n{body}".rstrip()
        # JSON can hold half a surrogate pair, UTF-8 cannot.
        self._texts.setdefault(number, text.encode("utf-8", "replace").decode())
        if issue.state == "closed":
            self._closed.add(number)
        if issue.state_reason == "duplicate" or any(_LABEL.search(label.name) for label in issue.labels):
            self._flagged[number] = issue
        return True

    def _local(self, reference: Reference) -> Reference:
        return Reference(None, reference.number) if reference.repository in self._names else reference

    def _claimed(self, since: datetime | None) -> dict[int, set[Reference]]:
        """The originals that comments claim, by the number of the duplicate; later denials take them back."""
        originals: dict[int, set[Reference]] = {}
        for count, comment in enumerate(_windows(self._remote.get_issues_comments, since)):
            number = int(comment.issue_url.rpartition("/")[2])
            for original, holds in claims(comment.body or "", self._host) if number in self._texts else ():
                change = set.add if holds else set.discard
                change(originals.setdefault(number, set()), self._local(original))
            if count % 1000 == 0:
                self._note(f"{self._repository.name}: {count:,} comments")
        return originals

    def _marked(self, issue: Issue) -> set[Reference]:
        """The original of an issue that the platform's own events mark, if its comments name just one."""
        events = list(issue.get_timeline())
        bodies = [event.raw_data.get("body") or "" for event in events if event.event == "commented"]
        mentioned = {self._local(named) for body in bodies for named in references(body, self._host)}
        mentioned -= {Reference(None, other) for other in {*self._pulls, issue.number}}
        relevant = [e for e in events if e.event != "closed" or e.raw_data.get("state_reason") == "duplicate"]
        marks = [_MARKS[event.event] for event in relevant if event.event in _MARKS]
        if True not in marks[-1:]:
            return set()
        is_clear = len(mentioned) == 1
        self._counts["by_event" if is_clear else "event_without_original"] += 1
        return mentioned if is_clear else set()

    def _is_pair(self, number: int, original: Reference) -> bool:
        if number not in self._closed or original.repository is not None:
            return False
        if original.number not in self._texts and original.number not in self._pulls:
            self._find(original.number)
        return self._texts.get(original.number, self._texts[number]) != self._texts[number]

    def _find(self, number: int) -> None:
        """Add an issue that was not listed, if it exists: one older than the newest that were asked for."""
        try:
            issue = self._remote.get_issue(number)
        except GithubException as fault:
            if fault.status not in _GONE:
                raise
            return
        # An issue that was moved to another repository is answered from there.
        if issue.repository_url.partition("/repos/")[2].lower() in self._names:
            self._keep(issue)


def _windows(listing: Callable[..., PaginatedList[Any]], since: datetime | None) -> Iterator[Any]:
    """A long listing in the order of `updated_at`, from `since` on; an item may come twice."""
    since = since or datetime(1970, 1, 1, tzinfo=UTC)
    while True:
        reached = since
        for count, item in enumerate(listing(sort="updated", direction="asc", since=since), 1):
            yield item
            reached = max(reached, item.updated_at)
            # Where all items of the window have one time, only its own links lead on.
            if count >= WINDOW and reached > since:
                break
        else:
            return
        since = reached
