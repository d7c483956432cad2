"""The sentences of answers, the pairs that they make, and why others are rejected."""

import json
import re
from collections.abc import Sequence

from embedrun.console import clean
from embedrun.curation.llm import Answer
from embedrun.files import Plain
from embedrun.store.columns import sentence

# The score of a pair of the input sentence and what the prompt of that kind gave.
SCORES = {"positive": 1, "negative": 0}
# `1.` `1)` `(1)` `1:` and `-` `*` `+` and the bullet; each with white space after it.
_NUMBERED = re.compile(r"\s*(?:\(\d{1,3}\)|\d{1,3}[.):])\s+(.*)", re.ASCII)
_BULLETED = re.compile(r"\s*[-*+•]\s+(.*)")
_FENCED = re.compile(r"^[ \t]*```[\w-]*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
# Models that think aloud first end that with this tag; lists before it are not the answer.
_THOUGHT = "</think>"
_QUOTES = (("**", "**"), ("__", "__"), ("*", "*"), ('"', '"'), ("“", "”"), ("'", "'"), ("‘", "’"), ("«", "»"))


# The sentences of an answer, in their order, and reason and text of each reject.
Parsed = tuple[list[str], list[tuple[str, str]]]


def parse(answer: Answer, size: int) -> Parsed:
    """The sentences of an answer, at most `size`, each a whole item of one list; the others are rejected.

    A list is JSON (an array of texts, an array of objects with one text each, or an object that holds one
    such array or only texts), alone or inside the one ``` fence of the answer; or lines that begin with a
    number; or lines that begin with a bullet. Other lines around the items are rejected one by one, and an
    answer without a list is rejected whole. Of an answer that was cut off at its maximum length, the last
    item is rejected, and JSON is rejected whole because it does not end.
    """
    text = answer.text.rpartition(_THOUGHT)[2].strip()
    if answer.refused is not None:
        return [], [(f"no answer: {answer.refused}", answer.text)]
    if not text:
        return [], [("the answer is empty", answer.text)]
    fenced = _FENCED.findall(text + "\n")
    body = fenced[0].strip() if len(fenced) == 1 else text
    items, rejects = _json(body) if body[:1] in ("[", "{") else _lines(body, answer.cut)
    sentences = []
    for item in items:
        text = _unquoted(item)
        if reason := _unfit(text):
            rejects.append((reason, item))
        elif len(sentences) == size:
            rejects.append(("more items than were asked for", item))
        else:
            sentences.append(text)
    return sentences, rejects


def _json(body: str) -> Parsed:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return [], [("the answer is not JSON", body)]
    values = list(data.values()) if isinstance(data, dict) else data
    if isinstance(data, dict) and len(values) == 1 and isinstance(values[0], list):
        (values,) = values
    single = (item.values() if isinstance(item, dict) and len(item) == 1 else [item] for item in values)
    texts = [text for item in single for text in item if isinstance(text, str)]
    if len(texts) < len(values):
        return [], [("the answer is JSON, and not a list of texts", body)]
    return texts, []


def _lines(body: str, cut: bool) -> Parsed:
    lines, items, rejects = [line.rstrip() for line in body.split("\n")], [], []
    # What the items begin with: the mark of the first line that has one.
    marks = (mark for line in lines for mark in (_NUMBERED, _BULLETED) if mark.fullmatch(line))
    if (mark := next(marks, None)) is None:
        return [], [("the answer has no numbered, bulleted or JSON list", body)]
    after_item = False
    for line in lines:
        item = mark.fullmatch(line)
        if item:
            items.append(item[1])
        elif after_item and line[:1].isspace():
            # Its sentence continues below it: neither of the two lines is a whole one.
            rejects.append(("an item of several lines", f"{items.pop()}\n{line}"))
        elif line:
            rejects.append(("a line that is no item of the list", line))
        after_item = item is not None
    if cut and after_item:
        rejects.append(("cut off at the longest length", items.pop()))
    return items, rejects


def _unquoted(item: str) -> str:
    text = item.strip()
    for left, right in _QUOTES:
        inner = text[len(left) : -len(right)]
        if text == left + inner + right and left not in inner:
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


def missing_words(text1: str, text2: str) -> int:
    """Number of different words of `text1` that are not in `text2`; white space separates words.

    Source: the first released trainer of Li and Li 2024 (AnglE), which leaves a pair with score 0 out if
    fewer than 5 different words of its first sentence are missing from the second, for the sentences of
    ChatGPT and for those of all three models together; the paper does not mention it. Letter case and
    punctuation count, as there, so "cat" and "cat." are two words.
    """
    return len(set(text1.split()) - set(text2.split()))


def sift(
    text: str, answers: Sequence[tuple[str, str, Answer]], *, size: int, words: int | None
) -> tuple[list[Plain], list[Plain]]:
    """The pairs of one input sentence, those of several language models joined, and the rejects.

    A pair that several answers give counts once, for the first. A sentence that is given both as a positive
    and as a negative is neither; the paper does not mention the case. Letter case and white space make no
    difference.

    Args:
        answers: each with the label of its language model and its kind.
        size: sentences that each answer was asked for.
        words: of its input that a negative must lack, by `missing_words`; None keeps every negative.
    """
    given, rejects = [], []
    for llm, kind, answer in answers:
        sentences, without = parse(answer, size)
        given += [(llm, kind, other) for other in sentences]
        rejects += [(llm, kind, *reject) for reject in without]
    kinds = {(kind, _folded(other)) for _, kind, other in given}
    pairs, seen = [], {}
    for llm, kind, other in given:
        folded = _folded(other)
        reasons = {
            "the input sentence itself": folded == _folded(text),
            "given both as a positive and as a negative": all((kind, folded) in kinds for kind in SCORES),
            f"given before by {seen.get(folded)}": folded in seen,
            f"a negative in which fewer than {words} words are missing": (
                kind == "negative" and missing_words(text, other) < (words or 0)
            ),
        }
        if reason := next((reason for reason, holds in reasons.items() if holds), None):
            rejects.append((llm, kind, reason, other))
        else:
            seen[folded] = llm
            pairs.append({"text1": text, "text2": other, "score": SCORES[kind], "llm": llm})
    names = ("llm", "kind", "reason", "text")
    return pairs, [{"text1": text, **dict(zip(names, reject, strict=True))} for reject in rejects]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
