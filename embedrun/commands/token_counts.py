"""How many tokens texts have, by the file of a tokenizer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from embedrun.errors import DataError

_PART = 256  # texts at a time: an encoding takes many times the memory of its text


def tokens_of(file: Path, option: str) -> Callable[[Sequence[str]], list[int]]:
    """What counts the tokens of each text, without those that a model adds at its ends.

    Args:
        file: `tokenizer.json`.
        option: that named it, for the message.

    Raises:
        DataError: if the file is none of a tokenizer.
    """
    return counter(opened(file, option), ends=False)


def opened(file: Path, option: str) -> Any:
    """The tokenizer of a file, which neither cuts nor pads.

    Args:
        file: `tokenizer.json`.
        option: that named it, for the message.

    Raises:
        DataError: if the file is none of a tokenizer.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as fault:  # the library raises nothing narrower
        raise DataError(f"{option}: {file} cannot be read: {fault}") from fault
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def counter(tokenizer: Any, *, ends: bool) -> Callable[[Sequence[str]], list[int]]:
    """What counts the tokens of each text.

    Args:
        tokenizer: from `opened`.
        ends: whether those count that a model adds at the ends.
    """

    def count(texts: Sequence[str]) -> list[int]:
        parts = (list(texts[begin : begin + _PART]) for begin in range(0, len(texts), _PART))
        encoded = (tokenizer.encode_batch(part, add_special_tokens=ends) for part in parts)
        return [len(one) for part in encoded for one in part]

    return count
