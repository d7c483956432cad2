"""What a comment says of duplicates: which issues it names, and which of them as the original."""

import re
from dataclasses import dataclass

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
