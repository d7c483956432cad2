"""What a comment says of duplicates: which issues it names, and which of them as the original."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NAME = r"[\w.-]+/[\w.-]+"
# `#12`, `GH-12`, `owner/repository#12`, or the address of an issue or pull request.
_REFERENCE = (
    rf"(?:https?://(?:www\.)?(?P<host>[\w.-]+(?::\d+)?)/(?P<place>{_NAME})/(?:issues|pull)/(?P<there>\d{{1,9}})\b"
    rf"(?:[/?#][^\s)>\]]*)?|(?:(?P<name>{_NAME})\#|(?<![\w#/])\#|\bGH-)(?P<number>\d{{1,9}})\b)"
)
_MENTION = re.compile(_REFERENCE, re.IGNORECASE)
_AND = r"(?:\s*(?:,|&|\+|/|\band\b))+\s*(?:also\s+)?"
_ANY = re.sub(r"\?P<\w+>", "?:", _REFERENCE)
_LIST = re.compile(rf"{_ANY}(?:{_AND}{_ANY})*", re.IGNORECASE)
_WORD = re.compile(r"\b(?:duplicate[sd]?|dupe[sd]?|dup(?:s|ed)?)\b", re.IGNORECASE)
# What may stand between the word and the number. No `by`: "duplicated by #12" says the opposite.
_BETWEEN = re.compile(
    r"(?:[^\w#?!]{0,4}\b(?:of|to|for|with|from|as|in|is|at|see|also|the|an?|issues?|bug|ticket|report|request|"
    r"number|no|original|older|earlier|existing|open|main|here|already|reported|tracked|favou?r|closing|close|"
    r"please|follow)\b){0,8}[^\w#?!]{0,4}",
    re.IGNORECASE,
)
_OF = re.compile(r"\s+(?:of\s+)?")  # after a word in -s: "Duplicates: #12" lists what duplicates this issue
_NO = re.compile(
    r"\b(?:no|not|non|never|nor|neither|cannot|hardly|unmark\w*|wrongly|incorrectly|mistaken\w*|"
    r"(?:is|was|are|do|does|did|ca|could|would|should)n['’]?t)\b",
    re.IGNORECASE,
)
# Before the word: a doubt, another issue ("#10 is a duplicate of #12"), or "has duplicates".
_NO_CLAIM = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:if|whether|unless|might|may|maybe|perhaps|possibl[ey]|potential(?:ly)?|suspect\w*|"
        r"(?:not|un|n['’]t)\s*sure|could(?:\s+\w+)?\s+be)\b",
        rf"{_REFERENCE}\W+(?:(?:is|was|are|were|be|to|as|looks?|seems?|like|also|indeed|just|an?|the|exact|marked|"
        r"closed|and)\W+)*$",
        r"\b(?:has|have|had)\b(?:\W+(?:an?|another|some|many|the|several))*\W*$",
    )
]
_SENTENCE = re.compile(r"[.!?;](?=\s|$)|\n")
_CLAUSE = re.compile(r"[,:(–—]|\s-\s")
_DROPPED = re.compile(  # text that is not the comment's own statement
    r"<!--.*?(?:-->|\Z)|^(?P<fence>```|~~~).*?(?:^(?P=fence)|\Z)|`[^`\n]*`|^[ \t]*>[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
_MARKDOWN_LINK = re.compile(r"\[([^\]\n]{0,200})\]\(\s*(\S{1,400}?)\s*\)")


@dataclass(frozen=True)
class Reference:
    """An issue or pull request; `repository` is ``owner/name`` in lower case, or None for the text's own."""

    repository: str | None
    number: int


def claims(text: str, host: str = "github.com") -> list[tuple[Reference, bool]]:
    """The claims of a comment in Markdown, in its order; `host` is that of the addresses that count.

    Each has the original of which the comment's issue is a duplicate, and False for "not a duplicate of #12",
    which withdraws an earlier claim.

    A word for duplicate, `of` or a few other small words, and one or more issues. Left out are questions,
    conditions and guesses ("possible duplicate of", "might be a duplicate of", which bots write under every
    issue), statements about another issue ("#10 is a duplicate of #12"), quoted lines, code and HTML
    comments. "Looks like", "I think" and "probably" count as claims: whoever closed the issue agreed.
    """
    if "dup" not in text.lower():
        return []  # most comments: ten times as fast
    text, made = _plain(text), []
    for word in _WORD.finditer(text):
        link = (_OF if word[0].lower().endswith("s") else _BETWEEN).match(text, word.end())
        listed = link and _LIST.match(text, link.end())
        if not listed:
            continue
        ends = _SENTENCE.search(text, listed.end())
        before = _SENTENCE.split(text[max(0, word.start() - 500) : word.start()])[-1]
        if (ends and ends[0] == "?") or any(pattern.search(before) for pattern in _NO_CLAIM):
            continue
        holds = not _NO.search(_CLAUSE.split(before)[-1])
        made += [(original, holds) for original in _references(_MENTION.finditer(text, *listed.span()), host)]
    return made


def references(text: str, host: str = "github.com") -> list[Reference]:
    """Every issue or pull request that the text itself names, in its order."""
    return _references(_MENTION.finditer(_plain(text)), host)


def _references(matches: Iterable[re.Match[str]], host: str) -> list[Reference]:
    made = []
    for match in matches:
        name, number = match["place"] or match["name"], match["there"] or match["number"]
        if match["host"] is None or match["host"].lower() == host:
            made.append(Reference(name and name.lower(), int(number)))
    return made


def _plain(text: str) -> str:
    """The comment's own words: links by their addresses, without quotes, code and emphasis."""
    text = _DROPPED.sub(" ", text.replace("\r\n", "\n"))
    text = _MARKDOWN_LINK.sub(lambda link: link[2] if _MENTION.match(link[2]) else link[1], text)
    return text.replace("*", "").replace("__", "")
