"""Token ids kept in the cache, and token counts of a tokenizer file."""

import hashlib
import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from embedrun.backbone.transformer import Backbone
from embedrun.batch import TokenTable
from embedrun.console import Progress
from embedrun.errors import DataError
from embedrun.prompts import Prompt
from embedrun.rows import MappedTexts, digest_of
from embedrun.store import cache

_FROM = 1000  # texts: fewer are tokenised faster than a folder is looked for and written
_AT_ONCE = 8192  # texts
_VERSION = 2  # of the layout of what is kept; another one is another key
_IDS, _STARTS = "ids", "starts.npy"


def tokenize(
    backbone: Backbone, texts: Sequence[str], max_length: int | None = None, prompt: Prompt | None = None
) -> TokenTable:
    """As `Backbone.tokenize`, but kept in the cache and mapped from the disk, except for few texts.

    The key is the texts in order, the whole definition of the tokenizer, the length and the prompt. Texts
    that are mapped from a table are known by its name and their places.
    """
    settings = reading(backbone, max_length, prompt) if len(texts) >= _FROM else None
    if settings is None:
        return backbone.tokenize(texts, max_length, prompt)
    key = {
        "version": _VERSION,
        "settings": settings,
        "texts": texts.mark if isinstance(texts, MappedTexts) else digest_of(texts),
    }

    def write(folder: Path) -> None:
        starts, done = np.zeros(len(texts) + 1, np.int64), 0
        with (folder / _IDS).open("wb") as file, Progress("tokenize", len(texts), "texts") as bar:
            for begin in range(0, len(texts), _AT_ONCE):
                part = backbone.tokenize(texts[begin : begin + _AT_ONCE], max_length, prompt)
                file.write(part.ids.tobytes())
                starts[begin + 1 : begin + 1 + len(part)] = done + part.starts[1:]
                done += len(part.ids)
                bar.reach(begin + len(part))
        np.save(folder / _STARTS, starts)

    folder = cache.kept("tokens", key, write, what=f"the token ids of {len(texts):,} texts")
    ids, starts = np.memmap(folder / _IDS, np.int32, mode="r"), np.load(folder / _STARTS, mmap_mode="r")
    return TokenTable(ids, starts, backbone.skipped(prompt))


def reading(backbone: Backbone, max_length: int | None = None, prompt: Prompt | None = None) -> str | None:
    """A hash of what decides the token ids of a text; None for a tokenizer that has no definition."""
    backend = getattr(backbone.words, "backend_tokenizer", None)
    if backend is None:
        return None
    definition = json.loads(backend.to_str())
    # It also holds truncation and padding of the last call, which do not affect the next one.
    definition |= {"truncation": None, "padding": None}
    settings = (
        version("tokenizers"),
        definition,
        backbone.words.truncation_side,
        max_length or backbone.max_length,
        backbone.declared.lowercase,
        backbone.filler,
        prompt,
    )
    return hashlib.sha256(repr(settings).encode()).hexdigest()


_PART = 256  # texts at a time: an encoding takes many times the memory of its text


def tokens_of(file: Path, option: str, *, ends: bool = False) -> Callable[[Sequence[str]], list[int]]:
    """A function that counts the tokens of each text by a `tokenizer.json`, which `option` names.

    With `ends`, it counts the special tokens at its ends too.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as fault:  # the library raises nothing narrower
        raise DataError(f"{option}: {file} cannot be read: {fault}") from fault
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(texts: Sequence[str]) -> list[int]:
        parts = (list(texts[begin : begin + _PART]) for begin in range(0, len(texts), _PART))
        encoded = (tokenizer.encode_batch(part, add_special_tokens=ends) for part in parts)
        return [len(tokens) for part in encoded for tokens in part]

    return count
