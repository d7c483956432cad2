"""The issues of a repository, read through PyGithub, and which of them are duplicates."""

import contextlib
import gzip
import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from github import Auth, BadAttributeException, Github, GithubException, GithubRetry
from github.Issue import Issue
from github.PaginatedList import PaginatedList
from github.Repository import Repository as Remote
from requests import RequestException

from embedrun.console import duration
from embedrun.curation.claims import Reference, claims, references
from embedrun.errors import DataError
from embedrun.files import Plain, whole_file

_LABEL = re.compile(r"\bdup(?:e|licate)?s?\b", re.IGNORECASE)
_MARKS = {"marked_as_duplicate": True, "unmarked_as_duplicate": False}
_LONGEST_WAIT = 2 * 3600  # seconds; GitHub's quota is filled every hour
# Items of one listing before it is begun anew further on: GitHub ends those of comments after 40,000, and
# PyGithub holds all that it has given.
WINDOW = 10_000
_GONE = (404, 410, 451)

Named = dict[int, dict[Reference, None]]  # originals by the number of a duplicate, in the order of the claims


def connect(
    api: str, token: str | None, *, timeout: float, retries: int, notice: Callable[[str], None]
) -> Github:
    """A client of one server; `notice` is told of long waits.

    The token is sent to that server alone and written nowhere.
    """

    class Retry(GithubRetry):
        def sleep(self, response: Any = None) -> None:
            asked = self.get_retry_after(response) if response is not None else None
            if (seconds := asked or self.get_backoff_time()) > 10:
                notice(f"GitHub's limit is reached; resuming in {duration(seconds)}")
            super().sleep(response)

    retry = Retry(
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


@dataclass
class Repository:
    """What is kept of a repository while pairs are chosen.

    Args:
        name: ``owner/name`` as the user gave it.
        texts: first 16 bytes of the SHA-256 of each issue's text, by number.
        duplicates: numbers of a duplicate and of its original, sorted, without repeats.
        counts: claims by where they were found, and those left out by reason.
    """

    name: str
    texts: dict[int, bytes] = field(default_factory=dict)
    duplicates: list[tuple[int, int]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def text_of(title: str, body: str | None) -> str:
    """Title, blank line, body: the paper does not say what its texts were made of."""
    body = (body or "").replace("\r\n", "\n").strip()
    text = title.strip() + ("\n\n" + body if body else "")
    # JSON can hold half a surrogate pair, UTF-8 cannot.
    return text.encode("utf-8", "replace").decode("utf-8")


def find(client: Github, name: str) -> Remote:
    """The repository of a name, which may be an old one.

    Raises:
        DataError: if it cannot be read, or has no issues.
    """
    with _explained(name):
        remote = client.get_repo(name)
        if not remote.has_issues:
            raise DataError(f"{name}: its issues are switched off; leave it out")
        return remote


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """What goes wrong with a repository is a DataError that names it."""
    kept = "; repositories that were read are kept: run the same command to resume"
    try:
        yield
    except GithubException as fault:
        if fault.status in _GONE:
            raise DataError(f"{name}: no such repository, or the token may not read it") from fault
        hint = "; make another token, or unset its variable" if fault.status == 401 else ""
        reason = f"HTTP status {fault.status} ({fault.message or fault.data})"
        raise DataError(f"{name}: {reason}{hint}{kept}") from fault
    except (RequestException, RuntimeError) as fault:
        raise DataError(f"{name}: no answer ({fault}){kept}") from fault
    except (BadAttributeException, AssertionError, LookupError, TypeError, ValueError) as fault:
        why = f"{type(fault).__name__}: {fault}"
        raise DataError(
            f"{name}: an answer that is not in the format of GitHub's REST API ({why})"
        ) from fault


def fetch(remote: Remote, name: str, file: Path, *, most: int | None, note: Callable[[str], None]) -> None:
    """Write what `load` and `load_texts` read: the newest `most` issues, None for all, and the duplicates.

    `name` is as the user gave it. A claim of a comment counts where its issue is closed. An issue that the
    platform itself marks as a duplicate (`marked_as_duplicate` without a later `unmarked_as_duplicate`, or
    closed with the reason `duplicate`) and for which no comment claims an original is a duplicate of the one
    issue that its comments refer to: the events of the REST API do not name it. Without such a reference, or
    with several, it is left out.

    Departure from the AnglE paper, Sec. 4.1: it speaks of comments by maintainers; here everybody's count,
    for it was a maintainer who closed the issue. And a duplicate of another repository's issue is left out.

    Raises:
        DataError: if the server refuses for good, cannot be reached, or answers in another format.
    """
    with (
        whole_file(file, aside=f".tmp-{file.name}") as aside,
        gzip.open(aside, "wt", encoding="utf-8", compresslevel=6) as out,
        _explained(name),
    ):
        out.write(json.dumps(_Reader(remote, name, out, note).read(most)) + "\n")


def load(name: str, file: Path) -> Repository:
    """What `fetch` has written, without the texts."""
    repository = Repository(name)
    for row in _rows(file):
        if "text" in row:
            repository.texts[row["number"]] = _mark(row["text"])
        else:
            repository.duplicates = [(left, right) for left, right in row["duplicates"]]
            repository.counts = Counter(row["counts"])
    return repository


def load_texts(file: Path, numbers: set[int]) -> dict[int, str]:
    """The texts of some issues that `fetch` has written, by number."""
    return {row["number"]: row["text"] for row in _rows(file) if row.get("number") in numbers}


def _rows(file: Path) -> Iterator[Plain]:
    try:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)
    except (OSError, EOFError, ValueError) as fault:
        raise DataError(f"{file}: cannot be read ({fault}); delete it, and it is fetched again") from fault


def _mark(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]


class _Reader:
    """One repository, read once: the texts of its issues go to `out` as they come."""

    def __init__(self, remote: Remote, name: str, out: IO[str], note: Callable[[str], None]) -> None:
        self._remote, self._out = remote, out
        self._names = {name.lower(), remote.full_name.lower()}
        self._host = urlsplit(remote.requester.base_url).netloc.lower().removeprefix("api.")
        self._note = lambda more="": note(f"{name}: {len(self._texts):,} issues{more}")
        self._texts: dict[int, bytes] = {}
        self._pulls: set[int] = set()
        self._closed: set[int] = set()
        self._flagged: dict[
            int, Issue
        ] = {}  # a label or the reason of its closing says duplicate, of whatever

    def read(self, most: int | None) -> Plain:
        """The duplicates and the counts."""
        oldest = self._read_issues(most)
        named = self._named(None if most is None else oldest) if self._texts else {}
        counts = Counter({"by_comment": sum(map(len, named.values()))})
        for number, issue in sorted(self._flagged.items()):
            if number in self._closed and not named.get(number):
                self._ask_events(issue, named, counts)
        pairs = set()
        for number, originals in sorted(named.items()):
            for original in originals:
                if reason := self._unusable(number, original):
                    counts[reason] += 1
                else:
                    pairs.add((number, original.number))
        counts.update(issues=len(self._texts), pull_requests=len(self._pulls))
        return {"duplicates": sorted(pairs), "counts": counts}

    def _read_issues(self, most: int | None) -> datetime | None:
        """Read all issues, or the newest; returns when the oldest of them was created."""
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
                self._note()
        return oldest

    def _keep(self, issue: Issue) -> bool:
        """Note an issue or a pull request; whether it is an issue."""
        number = issue.number
        if "/pull/" in issue.html_url:  # PyGithub would ask for an issue again for its `pull_request`
            self._pulls.add(number)
            return False
        if number in self._texts:
            return True
        text = text_of(issue.title, issue.body)
        self._out.write(json.dumps({"number": number, "text": text}, ensure_ascii=False) + "\n")
        self._texts[number] = _mark(text)
        if issue.state == "closed":
            self._closed.add(number)
        if issue.state_reason == "duplicate" or any(_LABEL.search(label.name) for label in issue.labels):
            self._flagged[number] = issue
        return True

    def _local(self, reference: Reference) -> Reference:
        """The same reference, without the repository's name if it is this one."""
        return Reference(None, reference.number) if reference.repository in self._names else reference

    def _named(self, since: datetime | None) -> Named:
        """The originals that comments claim, by the number of the duplicate; in the order of the claims."""
        named: Named = defaultdict(dict)
        for count, comment in enumerate(_windows(self._remote.get_issues_comments, since)):
            number = int(comment.issue_url.rpartition("/")[2])
            for claim in claims(comment.body or "", self._host) if number in self._texts else ():
                if claim.holds:
                    named[number][self._local(claim.original)] = None
                else:
                    named[number].pop(self._local(claim.original), None)
            if count % 1000 == 0:
                self._note(f", {count:,} comments")
        return named

    def _ask_events(
        self, issue: Issue, named: dict[int, dict[Reference, None]], counts: Counter[str]
    ) -> None:
        """Add what the platform's own events say of an issue that no comment claims an original for."""
        marked = False
        mentioned: set[Reference] = set()
        for event in issue.get_timeline():
            marked = _MARKS.get(event.event, marked)
            if event.event == "closed":
                marked = marked or event.raw_data.get("state_reason") == "duplicate"
            elif event.event == "commented":
                text = event.raw_data.get("body") or ""
                mentioned |= set(map(self._local, references(text, self._host)))
        mentioned -= {Reference(None, other) for other in {*self._pulls, issue.number}}
        if marked and len(mentioned) == 1:
            named[issue.number] = dict.fromkeys(mentioned)
        if marked:
            counts["by_event" if len(mentioned) == 1 else "event_without_original"] += 1

    def _unusable(self, number: int, original: Reference) -> str | None:
        """Why a claim gives no pair, or None."""
        if number not in self._closed:
            return "left_out_open"
        if original.repository is not None:
            return "left_out_other_repository"
        if original.number == number:
            return "left_out_itself"
        if original.number not in self._texts and original.number not in self._pulls:
            self._find(original.number)
        if original.number in self._pulls:
            return "left_out_pull_request"
        if original.number not in self._texts:
            return "left_out_not_found"
        return "left_out_same_text" if self._texts[original.number] == self._texts[number] else None

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
