"""The tokens of texts, counted in a sample before there is a model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from embedrun.backbone.tokens import counter, opened
from embedrun.loss.terms import Pass
from embedrun.prompt import Prompt
from embedrun.rows import MASKED, Rows, texts_at

_SAMPLE = 512  # rows, or sentences
_PER_WORD = 1.3  # tokens of BERT's word pieces in a word of English, about
_ENDS = 2  # tokens that a model adds
_MASK = "[MASK]"  # where there is no tokenizer to ask


@dataclass(frozen=True)
class RowTokens:
    """Tokens of the texts of each sampled row, one a pass, ``(passes, sample)``.

    `measured`: whether a tokenizer counted them; else they are estimated from words.
    """

    lengths: np.ndarray
    measured: bool

    @property
    def each(self) -> np.ndarray:
        """Tokens of each row over all passes, ``(sample,)``."""
        return self.lengths.sum(axis=0)

    @property
    def mean(self) -> float:
        """Tokens of a row on average."""
        return float(self.each.mean())

    @property
    def sample(self) -> int:
        """How many rows were sampled."""
        return self.lengths.shape[1]


def row_tokens(
    rows: Rows,
    passes: Mapping[str, Pass],
    *,
    tokenizer: Path | None,
    longest: int,
    prompts: Mapping[str, Prompt | None],
    seed: int,
) -> RowTokens:
    """The tokens of a sample of the training rows over all passes, each text truncated as in training.

    There is at least one row. `passes` are the ways of the views through the encoder, by key, `prompts` those
    of each view. `tokenizer` is the backbone's `tokenizer.json`; None: words are counted. `longest` is the
    most tokens of a text; `seed` is that of the masked copies.

    Raises:
        DataError: if the file is no tokenizer.
    """
    count = token_counter(tokenizer)
    chosen = sampled(len(rows))
    texts = {view: texts_at(column, chosen) for view, column in rows.texts.items()}
    if any(way.view in MASKED for way in passes.values()):
        texts |= _copies(rows, chosen, _mask(tokenizer), seed)
    lengths = np.zeros((len(passes), len(chosen)), dtype=np.int64)  # (passes, sample)
    for own, way in zip(lengths, passes.values(), strict=True):
        prompt = prompts.get(way.view)
        read = texts[way.view] if prompt is None else [prompt.filled(text) for text in texts[way.view]]
        own[:] = np.minimum(count(read), way.max_length or longest)
    return RowTokens(lengths, tokenizer is not None)


def _copies(rows: Rows, chosen: Sequence[int], mask: str, seed: int) -> dict[str, list[str]]:
    """The masked copies of some rows by view; empty where a sentence has none."""
    masked = rows.masked
    assert masked is not None, "the plan has found these views"
    both = [
        masked.copies(text, mask, np.random.default_rng([seed, 0, row])) if masked.usable(text) else ("", "")
        for row, text in zip(chosen, texts_at(rows.texts["text"], chosen), strict=True)
    ]
    return {view: [pair[place] for pair in both] for place, view in enumerate(MASKED)}


def _mask(tokenizer: Path | None) -> str:
    own = None if tokenizer is None else opened(tokenizer, "backbone.name")
    known = [one for one in (_MASK, "<mask>") if own is not None and own.token_to_id(one) is not None]
    return next(iter(known), _MASK)


def token_counter(tokenizer: Path | None) -> Callable[[Sequence[str]], Sequence[int]]:
    """Counts the tokens of each text by a `tokenizer.json`, those at its ends too; None: by their words.

    The runs of a table have one tokenizer and the same texts, so both are read and counted once.

    Raises:
        DataError: if the file is no tokenizer.
    """
    if tokenizer is None:
        return _of_words
    try:
        found = tokenizer.stat()
    except OSError:
        return _counter(tokenizer, (0, 0))  # which says what is wrong with it
    return _counter(tokenizer, (found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=4)
def _counter(tokenizer: Path, _content: tuple[int, int]) -> Callable[[Sequence[str]], Sequence[int]]:
    count = counter(opened(tokenizer, "backbone.name"), ends=True)
    kept = lru_cache(maxsize=64)(lambda texts: tuple(count(texts)))
    return lambda texts: kept(tuple(texts))


def _of_words(texts: Sequence[str]) -> list[int]:
    return [round(_PER_WORD * len(text.split())) + _ENDS for text in texts]


def sampled(count: int) -> list[int]:
    """Places of at most 512 of so many rows or texts, at least one, spread over all of them."""
    return np.unique(np.linspace(0, count - 1, min(_SAMPLE, count)).astype(int)).tolist()
