"""From the answers about one sentence to its pairs, and to what was rejected and why."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from embedrun.dataset.generation.answers import parse
from embedrun.dataset.generation.filter import differs_enough
from embedrun.dataset.generation.llm import Answer
from embedrun.dataset.generation.prompt import SCORES

Row = dict[str, Any]


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
    and as a negative is neither; the paper does not say what it does with such. Letter case and white space
    make no other sentence.

    Args:
        text: the input sentence.
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
