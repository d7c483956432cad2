"""How many tokens a training row has, from a sample of the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedrun.commands.token_counts import counter, opened
from embedrun.prompt import Prompt
from embedrun.rows import MASKED, Rows

_SAMPLE = 512  # rows
_PER_WORD = 1.3  # tokens of BERT's word pieces in a word of English, about
_ENDS = 2  # tokens that a model adds
_MASK = "[MASK]"  # where the tokenizer is not here to say


@dataclass(frozen=True)
class RowTokens:
    """Tokens of a row.

    Args:
        each: of all passes together, of each row that was looked at, ``(sample,)``.
        measured: whether a tokenizer counted them, or words did.
    """

    each: np.ndarray
    measured: bool

    @property
    def mean(self) -> float:
        """Of a row."""
        return float(self.each.mean())

    @property
    def sample(self) -> int:
        """Rows that were looked at."""
        return len(self.each)


def row_tokens(
    rows: Rows,
    passes: Mapping[str, Any],
    *,
    tokenizer: Path | None,
    longest: int,
    prompts: Mapping[str, Prompt | None],
    seed: int,
) -> RowTokens:
    """The tokens of a sample of the rows over all passes, each text cut as in training.

    Args:
        rows: of the training split, at least one.
        passes: ways of the views through the encoder, by key.
        tokenizer: `tokenizer.json` of the backbone; None: words are counted.
        longest: tokens of a text, at most.
        prompts: by view.
        seed: of the masked copies.

    Raises:
        DataError: if the file is none of a tokenizer.
    """
    count, mask = _of_words, _MASK
    if tokenizer is not None:
        own = opened(tokenizer, "backbone.name")
        known = [one for one in (_MASK, "<mask>") if own.token_to_id(one) is not None]
        count, mask = counter(own, ends=True), (known or [_MASK])[0]
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(_SAMPLE, len(rows))).astype(int)).tolist()
    texts = {view: [column[row] for row in chosen] for view, column in rows.texts.items()}
    if any(way.view in MASKED for way in passes.values()):
        texts |= _copies(rows, chosen, mask, seed)
    each = np.zeros(len(chosen), dtype=np.int64)  # (sample,)
    for way in passes.values():
        prompt = prompts.get(way.view)
        read = texts[way.view] if prompt is None else [prompt.filled(text) for text in texts[way.view]]
        each += np.minimum(count(read), way.max_length or longest)
    return RowTokens(each, tokenizer is not None)


def _copies(rows: Rows, chosen: Sequence[int], mask: str, seed: int) -> dict[str, list[str]]:
    """The masked copies of some rows by view; empty where a sentence has none."""
    masked = rows.masked
    assert masked is not None, "the plan has found these views"
    both = [
        masked.copies(text, mask, np.random.default_rng([seed, 0, row])) if masked.usable(text) else ("", "")
        for row, text in ((row, rows.texts["text"][row]) for row in chosen)
    ]
    return {view: [pair[place] for pair in both] for place, view in enumerate(MASKED)}


def _of_words(texts: Sequence[str]) -> list[int]:
    return [round(_PER_WORD * len(text.split())) + _ENDS for text in texts]
