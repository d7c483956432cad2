"""The issues of a repository, and which of them are duplicates."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from embedrun.files import Plain

if TYPE_CHECKING:
    from embedrun.curation.collection.github import Client

_NAME = r"[\w.-]+/[\w.-]+"
# `#12`, `GH-12`, `owner/repository#12`, or the address of an issue or pull request.
_REFERENCE = (
    rf"(?:https?://(?:www\.)?(?P<host>[\w.-]+(?::\d+)?)/(?P<place>{_NAME})/(?:issues|pull)/(?P<there>\d{{1,9}})\b"
    rf"(?:[/?#][^\s)>\]]*)?|(?:(?P<name>{_NAME})\#|(?<![\w#/])\#|\bGH-)(?P<number>\d{{1,9}})\b)"
)
_ONE = re.compile(_REFERENCE, re.IGNORECASE)
_AND = re.compile(r"(?:\s*(?:,|&|\+|/|\band\b))+\s*(?:also\s+)?", re.IGNORECASE)
_WORD = re.compile(r"\b(?:duplicate[sd]?|dupe[sd]?|dup(?:s|ed)?)\b", re.IGNORECASE)
# What may stand between the word and the number. No `by`: "duplicated by #12" says the opposite.
_BETWEEN = re.compile(
    r"(?:[^\w#?!]{0,4}\b(?:of|to|for|with|from|as|in|is|at|see|also|the|an?|issues?|bug|ticket|report|request|"
    r"number|no|original|older|earlier|existing|open|main|here|already|reported|tracked|favou?r|closing|close|"
    r"please|follow)\b){0,8}[^\w#?!]{0,4}",
    re.IGNORECASE,
)
_NO = re.compile(
    r"\b(?:no|not|non|never|nor|neither|cannot|hardly|unmark\w*|wrongly|incorrectly|mistaken\w*|"
    r"(?:is|was|are|do|does|did|ca|could|would|should)n['’]?t)\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:if|whether|unless|might|may|maybe|perhaps|possibl[ey]|potential(?:ly)?|suspect\w*|"
    r"(?:not|un|n['’]t)\s*sure|could(?:\s+\w+)?\s+be)\b",
    re.IGNORECASE,
)
# "#10 is a duplicate of #12", "marking #10 as a duplicate of #12": of another issue than the comment's own.
_OTHER = re.compile(
    rf"{_REFERENCE}\W+(?:(?:is|was|are|were|be|to|as|looks?|seems?|like|also|indeed|just|an?|the|exact|marked|"
    r"closed|and)\W+)*$",
    re.IGNORECASE,
)
_HAS = re.compile(r"\b(?:has|have|had)\b(?:\W+(?:an?|another|some|many|the|several))*\W*$", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?;](?=\s|$)|\n")
_CLAUSE = re.compile(r"[,:(–—]|\s-\s")
_DROPPED = re.compile(  # text that is not the comment's own statement
    r"<!--.*?(?:-->|\Z)|^(?P<fence>```|~~~).*?(?:^(?P=fence)|\Z)|`[^`\n]*`|^[ \t]*>[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
_MARKDOWN_LINK = re.compile(r"\[([^\]\n]{0,200})\]\(\s*(\S{1,400}?)\s*\)")


@dataclass(frozen=True)
class Reference:
    """An issue or pull request that a text names.

    `repository` is ``owner/name`` in lower case, or None for the text's own.
    """

    repository: str | None
    number: int


@dataclass(frozen=True)
class Claim:
    """A statement that the comment's issue is a duplicate of `original`, or that it is not.

    `holds` is False for "not a duplicate of #12", which withdraws an earlier claim.
    """

    original: Reference
    holds: bool


def claims(text: str, host: str = "github.com") -> list[Claim]:
    """The claims of a comment in Markdown, in its order; `host` is that of the addresses that count.

    A word for duplicate, `of` or a few other small words, and one or more issues. Left out are questions,
    conditions and guesses ("possible duplicate of", "might be a duplicate of", which bots write under every
    issue), statements about another issue ("#10 is a duplicate of #12"), quoted lines, code and HTML
    comments. "Looks like", "I think" and "probably" count as claims: whoever closed the issue agreed.
    """
    if "dup" not in text.lower():
        return []  # most comments: ten times as fast
    text = _plain(text)
    found = []
    for word in _WORD.finditer(text):
        begin = word.end()
        if word[0].lower().endswith("s"):
            # "Duplicates: #12" is a list of what duplicates this issue.
            link = re.compile(r"\s+(?:of\s+)?").match(text, begin)
        else:
            link = _BETWEEN.match(text, begin)
        originals, end = _references(text, link.end() if link else begin, host)
        if not originals or not link:
            continue
        holds = _judged(_before(text, word.start()), _after(text, end))
        found += [Claim(original, holds) for original in originals if holds is not None]
    return found


def references(text: str, host: str = "github.com") -> list[Reference]:
    """Every issue or pull request that the text itself names, in its order."""
    return [found for match in _ONE.finditer(_plain(text)) if (found := _reference(match, host)) is not None]


def _plain(text: str) -> str:
    """The comment's own words: links by their addresses, without quotes, code and emphasis."""
    text = _DROPPED.sub(" ", text.replace("\r\n", "\n"))
    text = _MARKDOWN_LINK.sub(lambda link: link[2] if _ONE.match(link[2]) else link[1], text)
    return text.replace("*", "").replace("__", "")


def _references(text: str, begin: int, host: str) -> tuple[list[Reference], int]:
    """The issues listed from a place on, and where the list ends."""
    found: list[Reference] = []
    match = _ONE.match(text, begin)
    end = begin
    while match:
        if (one := _reference(match, host)) is not None:
            found.append(one)
        end = match.end()
        glue = _AND.match(text, end)
        match = _ONE.match(text, glue.end()) if glue else None
    return found, end


def _reference(match: re.Match[str], host: str) -> Reference | None:
    if match["there"]:
        return (
            Reference(match["place"].lower(), int(match["there"])) if match["host"].lower() == host else None
        )
    return Reference(match["name"].lower() if match["name"] else None, int(match["number"]))


def _judged(before: str, after: str) -> bool | None:
    """Whether a sentence claims (True), denies (False) or neither (None)."""
    if after == "?" or _DOUBT.search(before) or _OTHER.search(before) or _HAS.search(before):
        return None
    clause = _CLAUSE.split(before)[-1]
    return not _NO.search(clause)


def _before(text: str, place: int) -> str:
    """The sentence up to a place."""
    begin = max((match.end() for match in _SENTENCE.finditer(text, max(0, place - 500), place)), default=None)
    return text[max(0, place - 500) if begin is None else begin : place]


def _after(text: str, place: int) -> str:
    """The mark that ends the sentence."""
    match = _SENTENCE.search(text, place)
    return match[0] if match else ""


_LABEL = re.compile(r"\bdup(?:e|licate)?s?\b", re.IGNORECASE)
_MARKS = {"marked_as_duplicate": True, "unmarked_as_duplicate": False}


@dataclass(frozen=True, slots=True)
class Issue:
    """What is kept of an issue while pairs are chosen; its text is read again when it is written.

    `text` is the first 16 bytes of its SHA-256. `flagged` says whether a label or the reason of its closing
    marks it as a duplicate, of whatever.
    """

    text: bytes
    closed: bool
    flagged: bool


@dataclass
class Repository:
    """The issues of one repository.

    Args:
        name: ``owner/name`` as the user gave it.
        names: the same in lower case, and its current name.
        issues: by number, without pull requests.
        pulls: numbers of pull requests.
        duplicates: numbers of a duplicate and of its original, sorted, without repeats.
        counts: claims by where they were found, and those left out by reason.
    """

    name: str
    names: frozenset[str] = frozenset()
    issues: dict[int, Issue] = field(default_factory=dict)
    pulls: set[int] = field(default_factory=set)
    duplicates: list[tuple[int, int]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def local(self, reference: Reference) -> Reference:
        """The same reference, without the repository's name if it is this one."""
        return Reference(None, reference.number) if reference.repository in self.names else reference

    def path(self, number: int) -> str:
        """Of an issue in the API."""
        return f"repos/{self.name}/issues/{number}"


def text_of(issue: Plain) -> str:
    """Title, blank line, body: the paper does not say what its texts were made of."""
    body = (issue.get("body") or "").replace("\r\n", "\n").strip()
    text = issue["title"].strip() + ("\n\n" + body if body else "")
    # JSON can hold half a surrogate pair, UTF-8 cannot.
    return text.encode("utf-8", "replace").decode("utf-8")


class Reader:
    """Reads repositories through a client; of each at most the newest `most` issues, None for all.

    A claim of a comment counts where its issue is closed. An issue that the platform itself marks as a
    duplicate (`marked_as_duplicate` without a later `unmarked_as_duplicate`, or closed with the reason
    `duplicate`) and for which no comment claims an original is a duplicate of the one issue that its comments
    refer to: the events of the REST API do not name it. Without such a reference, or with several, it is left
    out.

    Departure from the AnglE paper, Sec. 4.1: it speaks of comments by maintainers; here everybody's count,
    for it was a maintainer who closed the issue. And a duplicate of another repository's issue is left out.
    """

    def __init__(
        self, client: "Client", *, most: int | None, note: Callable[[str], None] = lambda text: None
    ) -> None:
        self._client = client
        self._most = most
        self._note = note
        self._host = urlsplit(client.server.api).netloc.lower().removeprefix("api.")

    def read(self, name: str, full_name: str) -> Repository:
        """The issues and duplicates of a repository; `full_name` is its current name.

        Raises:
            DataError: if the server cannot give them.
        """
        found = Repository(name, frozenset({name.lower(), full_name.lower()}))
        since = self._issues(found)
        named = self._named(found, since)
        found.counts["by_comment"] = sum(map(len, named.values()))
        self._marked(found, named)
        pairs = set()
        for number, originals in sorted(named.items()):
            for original in originals:
                reason = self._unusable(found, number, original)
                if reason is None:
                    pairs.add((number, original.number))
                else:
                    found.counts[reason] += 1
        found.duplicates = sorted(pairs)
        found.counts["issues"], found.counts["pull_requests"] = len(found.issues), len(found.pulls)
        return found

    def texts(self, found: Repository, numbers: Collection[int]) -> dict[int, str]:
        """The texts of some issues, from the answers that `read` has left in the cache."""
        texts = {
            item["number"]: text_of(item) for item in self._listed(found.name) if item["number"] in numbers
        }
        for number in sorted(set(numbers) - texts.keys()):
            texts[number] = text_of(self._client.get(found.path(number)).items)
        return texts

    def _listed(self, name: str) -> Iterator[Plain]:
        """Issues and pull requests; all by age, or the newest first until there are enough issues."""
        direction = "asc" if self._most is None else "desc"
        issues = 0
        for page in self._client.pages(
            f"repos/{name}/issues", state="all", sort="created", direction=direction
        ):
            for item in page:
                yield item
                issues += "pull_request" not in item
                if issues == self._most:
                    return

    def _issues(self, found: Repository) -> str | None:
        """Fill in the issues; returns the earliest time of comments that can be about them, or None."""
        oldest = None
        for count, item in enumerate(self._listed(found.name)):
            if "pull_request" in item:
                found.pulls.add(item["number"])
                continue
            found.issues[item["number"]] = _issue(item)
            oldest = min(oldest or item["created_at"], item["created_at"])
            if count % 1000 == 0:
                self._note(f"{found.name}: {len(found.issues):,} issues")
        return oldest if self._most is not None else None

    def _named(self, found: Repository, since: str | None) -> dict[int, dict[Reference, None]]:
        """The originals that comments claim, by the number of the duplicate; in the order of the claims."""
        named: dict[int, dict[Reference, None]] = defaultdict(dict)
        if not found.issues:
            return named
        for count, page in enumerate(self._client.updated(f"repos/{found.name}/issues/comments", since)):
            for comment in page:
                number = int(comment["issue_url"].rpartition("/")[2])
                if number not in found.issues:
                    continue
                for claim in claims(comment.get("body") or "", self._host):
                    if claim.holds:
                        named[number][found.local(claim.original)] = None
                    else:
                        named[number].pop(found.local(claim.original), None)
            if count % 10 == 0:
                self._note(f"{found.name}: {len(found.issues):,} issues, {100 * count:,} comments")
        return named

    def _marked(self, found: Repository, named: dict[int, dict[Reference, None]]) -> None:
        """Add what the platform's own events say of issues that no comment claims an original for."""
        for number, issue in sorted(found.issues.items()):
            if not (issue.closed and issue.flagged) or named.get(number):
                continue
            marked, mentioned = self._timeline(found, number)
            if marked and len(mentioned) == 1:
                named[number] = dict.fromkeys(mentioned)
                found.counts["by_event"] += 1
            elif marked:
                found.counts["event_without_original"] += 1

    def _timeline(self, found: Repository, number: int) -> tuple[bool, set[Reference]]:
        """Whether the platform marks an issue as a duplicate, and the issues that its comments refer to."""
        marked = False
        mentioned: set[Reference] = set()
        for page in self._client.pages(f"{found.path(number)}/timeline"):
            for event in page:
                kind = event.get("event", "")
                marked = _MARKS.get(kind, marked)
                if kind == "closed":
                    marked = marked or event.get("state_reason") == "duplicate"
                elif kind == "commented":
                    mentioned |= set(map(found.local, references(event.get("body") or "", self._host)))
        unwanted = {Reference(None, other) for other in {*found.pulls, number}}
        return marked, mentioned - unwanted

    def _unusable(self, found: Repository, number: int, original: Reference) -> str | None:
        """Why a claim gives no pair, or None."""
        if not found.issues[number].closed:
            return "left_out_open"
        if original.repository is not None:
            return "left_out_other_repository"
        if original.number == number:
            return "left_out_itself"
        if original.number not in found.issues and original.number not in found.pulls:
            self._fetch(found, original.number)
        if original.number in found.pulls:
            return "left_out_pull_request"
        if original.number not in found.issues:
            return "left_out_not_found"
        if found.issues[original.number].text == found.issues[number].text:
            return "left_out_same_text"
        return None

    def _fetch(self, found: Repository, number: int) -> None:
        """Add an issue that was not listed, if it exists: one older than the newest that were asked for."""
        item = self._client.get(found.path(number)).items
        # An issue that was moved to another repository is answered from there.
        if item is None or item["repository_url"].partition("/repos/")[2].lower() not in found.names:
            return
        if "pull_request" in item:
            found.pulls.add(number)
        else:
            found.issues[number] = _issue(item)


def _issue(item: Plain) -> Issue:
    labels = [label["name"] if isinstance(label, dict) else label for label in item.get("labels", [])]
    return Issue(
        text=hashlib.sha256(text_of(item).encode()).digest()[:16],
        closed=item["state"] == "closed",
        flagged=item.get("state_reason") == "duplicate" or any(map(_LABEL.search, labels)),
    )
