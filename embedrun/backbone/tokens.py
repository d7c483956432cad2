"""Token ids kept in the cache, and token counts of a tokenizer file."""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.backbone.transformer import Backbone
from embedrun.batch import TokenTable
from embedrun.errors import DataError
from embedrun.files import copy_mode, whole_file
from embedrun.prompt import Prompt

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_FROM = 1000  # texts: fewer are tokenised faster than a file is looked for and written
_VERSION = "1"  # of the file's layout; another one is another key
_log = logging.getLogger("embedrun")


def folder() -> Path:
    """`embedrun/tokens` in the user's cache folder; any file in it may be deleted at any time."""
    # The XDG base directory specification says to ignore a relative path.
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "embedrun" / "tokens"


def tokenize(
    backbone: Backbone, texts: list[str], max_length: int | None = None, prompt: Prompt | None = None
) -> TokenTable:
    """As `Backbone.tokenize`, but cached on disk, except for few texts.

    The name of a file is a SHA-256 over the texts in order, the whole definition of the tokenizer, the length
    and the prompt. A file is written aside and renamed, so that several runs may write at once; one that is
    damaged, or fails its checksum, is not used. If the cache cannot be written, nothing is kept.

    Raises:
        ConfigError: as `Backbone.tokenize`.
    """
    backend = getattr(backbone.tokenizer, "backend_tokenizer", None)
    if len(texts) < _FROM or backend is None:
        return backbone.tokenize(texts, max_length, prompt)
    definition = json.loads(backend.to_str())
    # It also holds truncation and padding of the last call, which do not affect this one.
    definition |= {"truncation": None, "padding": None}
    settings = (
        _VERSION,
        version("tokenizers"),
        definition,
        backbone.tokenizer.truncation_side,
        max_length or backbone.max_length,
        backbone.declared.lowercase,
        prompt,
    )
    path = folder() / f"{_digest(repr(settings), texts)}.safetensors"
    found = _read(path)
    if found is None:
        found = backbone.tokenize(texts, max_length, prompt)
        _write(path, found)
    return found


def _digest(settings: str, texts: Sequence[str]) -> str:
    digest = hashlib.sha256(settings.encode())
    for text in texts:
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(8, "little"))  # or two lists of texts could run together alike
        digest.update(encoded)
    return digest.hexdigest()


def _checksum(table: TokenTable) -> str:
    return hashlib.sha256(table.ids.tobytes() + table.starts.tobytes()).hexdigest()


def _read(path: Path) -> TokenTable | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            table = TokenTable(file.get_tensor("ids"), file.get_tensor("starts"))
            kept = (file.metadata() or {}).get("sha256")
    except (OSError, SafetensorError):
        return None
    return table if kept == _checksum(table) else None


def _write(path: Path, table: TokenTable) -> None:
    from safetensors.numpy import save_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # safetensors replaces the file that is made here with one of its own.
        with whole_file(path, sync=False) as aside, aside.open("xb") as made:
            save_file(
                {"ids": table.ids, "starts": table.starts}, aside, metadata={"sha256": _checksum(table)}
            )
            copy_mode(made.fileno(), [aside])
    except Exception as fault:  # a full disk comes as an error of its own type; a cache is never needed
        _log.info("token ids are not kept in %s: %s", path.parent, fault)


_PART = 256  # texts at a time: an encoding takes many times the memory of its text


def tokens_of(file: Path, option: str) -> Callable[[Sequence[str]], list[int]]:
    """A function that counts the tokens of each text, without special tokens; raises as `opened` does."""
    return counter(opened(file, option), ends=False)


def opened(file: Path, option: str) -> "Tokenizer":
    """The tokenizer of a `tokenizer.json`, without truncation and padding.

    `option` is the option that named the file, for the message.

    Raises:
        DataError: if the file holds no tokenizer.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as fault:  # the library raises nothing narrower
        raise DataError(f"{option}: {file} cannot be read: {fault}") from fault
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def counter(tokenizer: "Tokenizer", *, ends: bool) -> Callable[[Sequence[str]], list[int]]:
    """A function that counts the tokens of each text; with `ends`, the special tokens at its ends too."""

    def count(texts: Sequence[str]) -> list[int]:
        parts = (list(texts[begin : begin + _PART]) for begin in range(0, len(texts), _PART))
        encoded = (tokenizer.encode_batch(part, add_special_tokens=ends) for part in parts)
        return [len(one) for part in encoded for one in part]

    return count
