"""Which evaluation rows are in the training rows: whole pairs and single sentences, under one rule."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from embedrun.rows import Rows

_OTHER = re.compile(r"[\W_]+")  # \w is what str.isalnum accepts, and the underscore
# The same rule for ASCII, as a table of bytes: three times as fast, and nearly all of NLI is ASCII.
_ASCII = bytes(ord(chr(code).lower()) if chr(code).isalnum() else ord(" ") for code in range(128)).ljust(256)
Pair = tuple[str, str]


@dataclass(frozen=True)
class Shared:
    """What the rows of one evaluation set share with the training rows.

    Args:
        pairs: whether a pair of the row is a training pair, bool, ``(rows,)``.
        sentences: whether a text of the row is a training text, bool, ``(rows,)``.
        unit: what a row is: its pairs, or where it has one text that sentence.
    """

    pairs: np.ndarray
    sentences: np.ndarray
    unit: Literal["pairs", "sentences"] = "pairs"

    @property
    def rows(self) -> np.ndarray:
        """Whether the row, as its unit has it, is in the training rows, bool, ``(rows,)``."""
        return self.pairs if self.unit == "pairs" else self.sentences


def normalise(text: str) -> str:
    """Lower case, with every run of characters other than letters and digits as one space, none at the ends.

    Letters and digits are those of Unicode, so that no script is lost; accents stay. A text without any
    stands for itself: as the empty text, all of them would be one.
    """
    if text.isascii():
        plain = b" ".join(text.encode().translate(_ASCII).split()).decode()
    else:
        plain = _OTHER.sub(" ", text.lower()).strip()
    return plain or text.strip()


def pairs_of(row: Sequence[str]) -> list[Pair]:
    """The pairs of one row of texts in view order, each without an order of its own.

    A pair has one; a triplet two, of the anchor with the positive and with the negative; a text none.
    """
    first = row[0]
    return [(first, other) if first <= other else (other, first) for other in row[1:]]


def overlap(train: Iterable[Rows], evaluations: Sequence[Rows]) -> list[Shared]:
    """What each evaluation set shares with the training rows, whatever the form of either.

    The training rows are gone through once and only what the evaluation sets hold is kept of them, so
    that memory is that of the evaluation sets.

    Args:
        train: rows of one training set or of several.
        evaluations: one or several sets.

    Returns:
        One result for each evaluation set, in order.
    """
    sets = [[tuple(map(normalise, row)) for row in _texts(rows)] for rows in evaluations]
    wanted = {text for rows in sets for row in rows for text in row}
    pairs: set[Pair] = set()
    sentences: set[str] = set()
    for rows in train:
        for texts in _texts(rows):
            row = list(map(normalise, texts))
            if wanted.isdisjoint(row):
                continue
            sentences.update(wanted.intersection(row))
            pairs.update(pair for pair in pairs_of(row) if wanted.issuperset(pair))
    return [
        Shared(
            pairs=np.array([not pairs.isdisjoint(pairs_of(row)) for row in rows], dtype=bool),
            sentences=np.array([not sentences.isdisjoint(row) for row in rows], dtype=bool),
            unit="pairs" if len(whole.texts) > 1 else "sentences",
        )
        for whole, rows in zip(evaluations, sets, strict=True)
    ]


def _texts(rows: Rows) -> Iterable[tuple[str, ...]]:
    """The texts of each row, in view order."""
    return zip(*rows.texts.values(), strict=True)
