"""How many tokens a training row has, from a sample of the rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedrun.errors import DataError
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
        mean: of all passes together.
        measured: whether a tokenizer counted them, or words did.
        sample: rows that were looked at.
    """

    mean: float
    measured: bool
    sample: int


def row_tokens(
    rows: Rows,
    passes: Mapping[str, Any],
    *,
    tokenizer: Path | None,
    longest: int,
    prompts: Mapping[str, Prompt | None],
    seed: int,
) -> RowTokens:
    """The mean number of tokens of a row over all passes, each text cut as in training.

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
        count, mask = _of_pieces(tokenizer)
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(_SAMPLE, len(rows))).astype(int)).tolist()
    texts = {view: [column[row] for row in chosen] for view, column in rows.texts.items()}
    if any(way.view in MASKED for way in passes.values()):
        texts |= _copies(rows, chosen, mask, seed)
    total = 0
    for way in passes.values():
        prompt = prompts.get(way.view)
        own = texts[way.view] if prompt is None else [prompt.filled(text) for text in texts[way.view]]
        limit = way.max_length or longest
        total += sum(min(tokens, limit) for tokens in count(own))
    return RowTokens(total / len(chosen), tokenizer is not None, len(chosen))


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


def _of_pieces(file: Path) -> tuple[Callable[[Sequence[str]], list[int]], str]:
    """What counts the tokens of each text by a tokenizer's file, and its mask token."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as fault:  # the library raises nothing narrower
        raise DataError(f"{file}: cannot be read ({fault})") from fault
    tokenizer.no_truncation()
    tokenizer.no_padding()
    known = [one for one in (_MASK, "<mask>") if tokenizer.token_to_id(one) is not None]
    return lambda texts: [len(one) for one in tokenizer.encode_batch(list(texts))], (known or [_MASK])[0]
