"""From the text of an answer to its sentences: numbered, bulleted and JSON lists, and nothing else."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from embedrun.console import clean
from embedrun.dataset.columns import sentence
from embedrun.dataset.generation.llm import Answer

# `1.` `1)` `(1)` `1:` and `-` `*` `+` and the bullet; each with white space after it.
_NUMBERED = re.compile(r"\s*(?:\(\d{1,3}\)|\d{1,3}[.):])\s+(.*)", re.ASCII)
_BULLETED = re.compile(r"\s*[-*+•]\s+(.*)")
_FENCED = re.compile(r"^[ \t]*```[\w-]*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
# Models that think aloud first end that with this tag; lists before it are not the answer.
_THOUGHT = "</think>"
_QUOTES = (("**", "**"), ("__", "__"), ("*", "*"), ('"', '"'), ("“", "”"), ("'", "'"), ("‘", "’"), ("«", "»"))


@dataclass
class Parsed:
    """What an answer gave.

    Args:
        sentences: in their order.
        rejects: reason and text of what is no sentence, in the order found.
    """

    sentences: list[str] = field(default_factory=list)
    rejects: list[tuple[str, str]] = field(default_factory=list)


def parse(answer: Answer, size: int) -> Parsed:
    """The sentences of an answer, each a whole item of one list.

    A list is JSON (an array of texts, an array of objects with one text each, or an object that holds one
    such array or only texts), alone or inside the one ``` fence of the answer; or lines that begin with a
    number; or lines that begin with a bullet. Other lines around the items are rejected one by one, and an
    answer without a list is rejected whole. Of an answer that its longest length cut off, the last item is
    rejected, and JSON is rejected whole because it does not end.

    Args:
        answer: as it came.
        size: sentences that were asked for; what goes beyond is rejected.
    """
    parsed = Parsed()
    if answer.refused is not None:
        parsed.rejects.append((f"no answer: {answer.refused}", answer.text))
        return parsed
    text = answer.text.rpartition(_THOUGHT)[2].strip()
    if not text:
        parsed.rejects.append(("the answer is empty", answer.text))
        return parsed
    fenced = _FENCED.findall(text + "\n")
    body = fenced[0].strip() if len(fenced) == 1 else text
    if body[:1] in ("[", "{"):
        _json(body, parsed)
    else:
        _lines(body, answer.cut, parsed)
    _hold(parsed, size)
    return parsed


def _json(body: str, parsed: Parsed) -> None:
    try:
        parsed.sentences = _texts(json.loads(body))
    except (ValueError, RecursionError) as fault:
        reason = str(fault) if type(fault) is ValueError else "the answer is not JSON"
        parsed.rejects.append((reason, body))


def _texts(data: Any) -> list[str]:
    """The texts of a JSON list.

    Raises:
        ValueError: if it is not of a known shape.
    """
    if isinstance(data, dict) and len(data) == 1 and isinstance(next(iter(data.values())), list):
        (data,) = data.values()
    if isinstance(data, dict):
        data = list(data.values())
    elif isinstance(data, list) and data and all(isinstance(item, dict) and len(item) == 1 for item in data):
        data = [value for item in data for value in item.values()]
    if not isinstance(data, list) or not all(isinstance(item, str) for item in data):
        raise ValueError("the answer is JSON, and not a list of texts")
    return data


def _lines(body: str, cut: bool, parsed: Parsed) -> None:
    lines = body.split("\n")
    mark = _mark(lines)
    if mark is None:
        parsed.rejects.append(("the answer has no numbered, bulleted or JSON list", body))
        return
    last_is_item = False
    for line in lines:
        found = mark.fullmatch(line.rstrip())
        if found:
            parsed.sentences.append(found[1])
        elif line.strip() and line[0].isspace() and last_is_item:
            # Its sentence goes on below it: neither of the two lines is a whole one.
            parsed.rejects.append(("an item of several lines", f"{parsed.sentences.pop()}\n{line}"))
        elif line.strip():
            parsed.rejects.append(("a line that is no item of the list", line))
        last_is_item = found is not None
    if cut and last_is_item:
        parsed.rejects.append(("cut off at the longest length", parsed.sentences.pop()))


def _mark(lines: list[str]) -> re.Pattern[str] | None:
    """What the items of the list begin with: the mark of the first line that has one."""
    for line in lines:
        for mark in (_NUMBERED, _BULLETED):
            if mark.fullmatch(line.rstrip()):
                return mark
    return None


def _hold(parsed: Parsed, size: int) -> None:
    """Keep what can be a sentence, at most `size` of them."""
    kept: list[str] = []
    for item in parsed.sentences:
        text = _unquoted(item)
        if reason := _unfit(text):
            parsed.rejects.append((reason, item))
        elif len(kept) == size:
            parsed.rejects.append(("more items than were asked for", item))
        else:
            kept.append(text)
    parsed.sentences = kept


def _unquoted(item: str) -> str:
    text = item.strip()
    for left, right in _QUOTES:
        inner = text[len(left) : -len(right)]
        around = text.startswith(left) and text.endswith(right) and len(text) >= len(left + right)
        if around and left not in inner:
            return _unquoted(inner)  # emphasis may stand around quotes
    return text


def _unfit(text: str) -> str | None:
    try:
        sentence(text)
    except ValueError as fault:
        return str(fault)
    if clean(text) != text or "\n" in text or "\t" in text:
        return "a control character in the text"
    return None
