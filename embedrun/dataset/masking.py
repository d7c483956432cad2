"""Two copies of a sentence, the second masked more than the first."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from embedrun.config import Checker
from embedrun.files import Plain
from embedrun.rows import Rows

Kind = Literal["mask", "delete"]


class Masking:
    """Hide contiguous words of a sentence, then more of them.

    Of *n* words, the second copy hides round(r₂ n) in `segments` contiguous segments that do not touch, as
    equal in length as they can be, at random places; the first copy hides round(r₁ n) of the same words, a
    contiguous part of each segment at a random place in it. So whatever the first hides the second hides too.

    Source: Zhang et al. 2022 (ArcCSE), Sec. 3.2: contiguous segments, 20 % and 40 %, of sentences of at least
    25 words (Sec. 4.1). The paper leaves open what a word is (here: what blanks separate), whether hidden
    words become mask tokens or go, and how many segments there are; hence the options.

    Args:
        first: r₁, share of the words that the first copy hides, above 0.
        second: r₂, share that the second hides, above `first` and below 1.
        least_words: sentences with fewer have no masked copies.
        segments: how many.
        kind: `mask` puts the tokenizer's mask token in the place of each hidden word, `delete` nothing.
    """

    def __init__(
        self,
        *,
        first: float = 0.2,
        second: float = 0.4,
        least_words: int = 25,
        segments: int = 1,
        kind: Kind = "mask",
    ) -> None:
        if not 0 < first < second < 1:
            raise ValueError(f"masking: 0 < first < second < 1 must hold, got {first} and {second}")
        if segments < 1 or least_words < 1:
            raise ValueError(
                f"masking: segments and least_words must be 1 or more: {segments}, {least_words}"
            )
        if (
            not segments
            <= round(first * least_words)
            <= round(second * least_words)
            <= least_words - segments + 1
        ):
            raise ValueError(
                f"masking: {first:g} of {least_words} words are fewer than {segments} segments, or "
                f"{second:g} leave no word between them; lower segments or second, or raise least_words"
            )
        self.first, self.second, self.segments = first, second, segments
        self.least_words, self.kind = least_words, kind

    def usable(self, text: str) -> bool:
        """Whether the sentence has enough words."""
        return len(text.split()) >= self.least_words

    def copies(self, text: str, mask: str, random: np.random.Generator) -> tuple[str, str]:
        """The sentence, of `least_words` or more, with fewer, and with more of its words hidden by `mask`."""
        words = text.split()
        outer = self._segments(len(words), random)
        lengths = _shares(round(self.first * len(words)), self.segments)
        inner = []
        for (begin, end), length in zip(outer, lengths, strict=True):
            start = begin + int(random.integers(end - begin - length + 1))
            inner.append((start, start + length))
        return self._without(words, inner, mask), self._without(words, outer, mask)

    def _segments(self, words: int, random: np.random.Generator) -> list[tuple[int, int]]:
        lengths = _shares(round(self.second * words), self.segments)
        # The words that stay are dealt out before, between and after the segments: one at least between two.
        free = words - sum(lengths) - (self.segments - 1)
        bars = np.sort(random.choice(free + self.segments, self.segments, replace=False))
        gaps = np.diff(bars, prepend=-1) - 1  # (segments,); stars and bars: every division is as likely
        segments, end = [], -1
        for gap, length in zip(gaps.tolist(), lengths, strict=True):
            begin = end + 1 + gap
            end = begin + length
            segments.append((begin, end))
        return segments

    def _without(self, words: Sequence[str], hidden: Sequence[tuple[int, int]], mask: str) -> str:
        shown = list(words)
        for begin, end in hidden:
            shown[begin:end] = [mask if self.kind == "mask" else ""] * (end - begin)
        return " ".join(word for word in shown if word)


def _shares(total: int, parts: int) -> list[int]:
    least, more = divmod(total, parts)
    return [least + (part < more) for part in range(parts)]


def masking_of(options: Plain | None) -> Masking | None:
    """The masking that a data set's option asks for; a ValueError if one is unknown or out of range."""
    if options is None:
        return None
    checker = Checker()
    checker.signature(Masking, options, "masking")
    if checker.problems:
        raise ValueError("; ".join(checker.problems))
    return Masking(**options)


def with_masking(rows: Rows, masking: Masking | None) -> Rows:
    """The same rows of one text, with masked copies and the target `maskable`: which rows have them."""
    if masking is None:
        return rows
    usable = np.array([masking.usable(text) for text in rows.texts["text"]], dtype=bool)  # (rows,)
    return replace(rows, masked=masking, targets={**rows.targets, "maskable": usable}, kept=None)
