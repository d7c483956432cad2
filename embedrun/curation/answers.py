"""Sentences in, pairs out, and why an answer is rejected."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from embedrun.config.check import nearest
from embedrun.console import clean
from embedrun.curation.llm import SCORES, Answer
from embedrun.errors import DataError
from embedrun.files import Plain
from embedrun.rows import Rows, views_of_form
from embedrun.store.columns import sentence

# `1.` `1)` `(1)` `1:` and `-` `*` `+` and the bullet; each with white space after it.
_NUMBERED = re.compile(r"\s*(?:\(\d{1,3}\)|\d{1,3}[.):])\s+(.*)", re.ASCII)
_BULLETED = re.compile(r"\s*[-*+•]\s+(.*)")
_FENCED = re.compile(r"^[ \t]*```[\w-]*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
# Models that think aloud first end that with this tag; lists before it are not the answer.
_THOUGHT = "</think>"
_QUOTES = (("**", "**"), ("__", "__"), ("*", "*"), ('"', '"'), ("“", "”"), ("'", "'"), ("‘", "’"), ("«", "»"))


@dataclass
class Parsed:
    """The sentences of an answer, in their order.

    `rejects` are reason and text of what is no sentence, in the order found.
    """

    sentences: list[str] = field(default_factory=list)
    rejects: list[tuple[str, str]] = field(default_factory=list)


def parse(answer: Answer, size: int) -> Parsed:
    """The sentences of an answer, at most `size`, each a whole item of one list; the others are rejected.

    A list is JSON (an array of texts, an array of objects with one text each, or an object that holds one
    such array or only texts), alone or inside the one ``` fence of the answer; or lines that begin with a
    number; or lines that begin with a bullet. Other lines around the items are rejected one by one, and an
    answer without a list is rejected whole. Of an answer that was cut off at its maximum length, the last
    item is rejected, and JSON is rejected whole because it does not end.
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


def _texts(data: object) -> list[str]:
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


def missing_words(text1: str, text2: str) -> int:
    """Number of different words of `text1` that are not in `text2`; white space separates words."""
    return len(set(text1.split()) - set(text2.split()))


def differs_enough(text1: str, text2: str, words: int) -> bool:
    """Whether a negative pair is kept: at least `words` words of `text1`, the input, are missing in `text2`.

    Source: the first released trainer of Li and Li 2024 (AnglE), which leaves a pair with score 0 out if
    fewer than 5 different words of its first sentence are missing from the second, for the sentences of
    ChatGPT and for those of all three models together; the paper does not mention it. Letter case and
    punctuation count, as there, so "cat" and "cat." are two words. No negative of a shorter sentence is kept.
    """
    return missing_words(text1, text2) >= words


Row = Plain


@dataclass(frozen=True)
class Sifted:
    """What the answers about one sentence gave.

    Args:
        pairs: `text1`, `text2`, `score` (1 same meaning, 0 opposite) and `llm`.
        rejects: `text1`, `llm`, `kind`, `reason` and `text`.
    """

    pairs: list[Row]
    rejects: list[Row]


def sift(
    text: str, answers: Sequence[tuple[str, Mapping[str, Answer]]], *, size: int, words: int | None
) -> Sifted:
    """The pairs of one input sentence, those of several language models joined.

    A pair that several answers give counts once, for the first. A sentence that is given both as a positive
    and as a negative is neither; the paper does not mention the case. Letter case and white space make no
    difference.

    Args:
        answers: label of each language model, and its answer by kind.
        size: sentences that each answer was asked for.
        words: of `differs_enough`; None keeps every negative.
    """
    sifted = Sifted([], [])
    given = []
    for llm, by_kind in answers:
        for kind, answer in by_kind.items():
            parsed = parse(answer, size)
            given += [(llm, kind, other) for other in parsed.sentences]
            sifted.rejects.extend(_reject(text, llm, kind, *reject) for reject in parsed.rejects)
    kinds = defaultdict(set)
    for _, kind, other in given:
        kinds[_folded(other)].add(kind)
    seen: dict[str, str] = {}
    for llm, kind, other in given:
        folded = _folded(other)
        if folded == _folded(text):
            reason = "the input sentence itself"
        elif len(kinds[folded]) > 1:
            reason = "given both as a positive and as a negative"
        elif folded in seen:
            reason = f"given before by {seen[folded]}"
        elif kind == "negative" and words is not None and not differs_enough(text, other, words):
            reason = f"a negative in which fewer than {words} words are missing"
        else:
            seen[folded] = llm
            sifted.pairs.append({"text1": text, "text2": other, "score": SCORES[kind], "llm": llm})
            continue
        sifted.rejects.append(_reject(text, llm, kind, reason, other))
    return sifted


def _reject(text: str, llm: str, kind: str, reason: str, rejected: str) -> Row:
    return {"text1": text, "llm": llm, "kind": kind, "reason": reason, "text": rejected}


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def of_rows(rows: Rows, column: str | None) -> list[str]:
    """One text column of a data set, by its name in the form of the rows; None for the first.

    Raises:
        DataError: if the rows have no such column.
    """
    views = {name: view for view, name in views_of_form(rows.form, rows.texts).items()}
    wanted = column or next(iter(views))
    if wanted not in views:
        raise DataError(
            f"column: {rows.name} {rows.split} has no {wanted!r}{nearest(wanted, views)} "
            f"(columns: {', '.join(views)})"
        )
    return list(rows.texts[views[wanted]])


def distinct(sentences: Sequence[str], limit: int | None) -> list[str]:
    """Each sentence once, in order of first occurrence, at most `limit` of them."""
    return list(dict.fromkeys(sentences))[:limit]
