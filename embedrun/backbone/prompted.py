"""Token ids of texts in a prompt: the text is cut, never the prompt."""

from collections.abc import Sequence
from typing import Any

from embedrun.errors import ConfigError


def token_ids(
    tokenizer: Any, texts: Sequence[str], before: str, after: str, *, max_length: int
) -> list[list[int]]:
    """Token ids of ``before + text + after``, special tokens included, as of one whole string.

    A string that is too long gets a shorter text: its beginning, up to the end of a token, the longest one
    with which all of the prompt fits. So prompt and special tokens stand whole behind every text, and a model
    never sees a string that could not have been written out.

    Args:
        tokenizer: of transformers.
        texts: any number.
        before: prompt before the text.
        after: prompt behind it.
        max_length: tokens, special ones included.

    Raises:
        ConfigError: if the prompt leaves no token for the text, or the tokenizer does not say where its
            tokens stand in the string.
    """
    _check_room(tokenizer, before + after, max_length)
    filled = [before + text + after for text in texts]
    if not after and tokenizer.truncation_side == "right":  # the end of the string is the end of the text
        return _tokenized(tokenizer, filled, truncation=True, max_length=max_length)["input_ids"]
    found = _tokenized(tokenizer, filled)
    ids: list[list[int]] = found["input_ids"]
    long = [place for place, own in enumerate(ids) if len(own) > max_length]
    if not long:
        return ids
    if not tokenizer.is_fast:
        raise ConfigError(
            "backbone.prompt: this tokenizer does not say where its tokens stand in a text, so that a long "
            "text cannot be cut within the prompt; raise backbone.max_length, or end the prompt with {text}"
        )
    # Where a text may end: behind each of its own tokens, in characters of the text.
    ends = {
        place: _ends(found.encodings[place].offsets, len(before), len(before) + len(texts[place]))
        for place in long
    }
    kept = {place: len(ends[place]) - (len(ids[place]) - max_length) for place in long}  # tokens
    while long:
        cut = [texts[place][: ends[place][kept[place] - 1] if kept[place] > 0 else 0] for place in long]
        again = _tokenized(tokenizer, [before + text + after for text in cut])["input_ids"]
        for place, own in zip(long, again, strict=True):
            ids[place] = own
            # At the new seam a token more may be needed than stood there before.
            kept[place] -= len(own) - max_length
        long = [place for place in long if len(ids[place]) > max_length]
    return ids


def _tokenized(tokenizer: Any, texts: list[str], **cut: Any) -> Any:
    return tokenizer(
        texts,
        padding=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,  # a string that is too long is cut by us
        **(cut or {"truncation": False}),
    )


def _ends(offsets: Sequence[tuple[int, int]], first: int, last: int) -> list[int]:
    """Where tokens end that end inside the text, from its beginning, in order."""
    return sorted(end - first for begin, end in offsets if begin < end and first < end <= last)


def _check_room(tokenizer: Any, prompt: str, max_length: int) -> None:
    (own,) = _tokenized(tokenizer, [prompt])["input_ids"]
    if len(own) >= max_length:
        raise ConfigError(
            f"backbone.prompt: takes {len(own)} tokens by itself, and a text with it is cut to {max_length}; "
            "shorten the prompt, or raise backbone.max_length (of a view of a loss: its max_length)"
        )
