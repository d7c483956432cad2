"""The tokenizer of a model folder, refused where its files are incomplete.

transformers silently makes an empty tokenizer of a folder without its files: for BERT one of five tokens,
to which every word is unknown, for RoBERTa and Qwen2 one that gives no tokens at all.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.errors import DataError
from embedrun.files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# A tokenizer is whole with one of these, or with both of the others.
_ALONE = ("tokenizer.json", "tekken.json", "byte_maps.json", "*vocab.txt", "*.model", "*.tiktoken")
_TOGETHER = ("*vocab.json", "*merges.txt")
# Letters or bytes are their tokens, and they have no files.
_WITHOUT = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer", "byt5", "canine", "perceiver")
# Models have more rows than tokens, to be divisible by 64 or 128, or for tokens to come; that is a tenth at
# most. An empty tokenizer has about a hundred tokens at most, the marks of T5.
_LEAST = 0.5  # tokens to rows
_PROBED = 64  # tokens, evenly spread
_WAY_ON = "copy or download the folder again, or name another"


def lacking(folder: Path) -> str | None:
    """Which files of a tokenizer a model folder lacks, as a sentence; None: they are there."""

    def there(pattern: str) -> bool:
        # An interrupted copy can leave an empty file.
        return any(path.is_file() and path.stat().st_size for path in folder.glob(pattern))

    if any(map(there, _ALONE)) or all(map(there, _TOGETHER)) or _needs_none(folder):
        return None
    half = [pattern.lstrip("*") for pattern in _TOGETHER if not there(pattern)]
    if len(half) < len(_TOGETHER):
        return f"{folder} has half of a tokenizer: {half[0]} is missing; {_WAY_ON}"
    return (
        f"{folder} has no tokenizer: it needs tokenizer.json, or vocab.txt, or vocab.json with merges.txt, "
        f"or a SentencePiece file (*.model), and none is there; {_WAY_ON}"
    )


def read(folder: Path, rows: int | None) -> "PreTrainedTokenizerBase":
    """The tokenizer of a folder, of transformers; only data is read, no code.

    `rows` is the size of the model's embedding table, None if unknown.

    Raises:
        DataError: if files are missing or cannot be read, or they make a tokenizer that knows no word.
    """
    from transformers import AutoTokenizer

    if fault := lacking(folder):
        raise DataError(fault)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except MemoryError:
        raise
    except Exception as fault:  # files from anywhere fail in any way
        said = " ".join(str(fault).split()) or type(fault).__name__
        way_on = "" if isinstance(fault, ImportError) else f"; {_WAY_ON}"  # it names a package to install
        raise DataError(f"{folder}: its tokenizer cannot be read: {said}{way_on}") from fault
    if rows is not None and len(tokenizer) < _LEAST * rows:
        raise DataError(
            f"{folder}: its tokenizer has {len(tokenizer):,} tokens, and the model has vectors for {rows:,}: "
            f"tokenizer files are missing or cut off; {_WAY_ON}"
        )
    if rows is not None and (last := max(tokenizer("a")["input_ids"], default=0)) >= rows:
        raise DataError(
            f"{folder}: its tokenizer puts token {last:,} into every text, and the model has vectors for "
            f"{rows:,}: tokenizer files belong to another model; {_WAY_ON}"
        )
    if rows is not None and (beyond := _beyond(tokenizer, rows)):
        number, token = beyond
        raise DataError(
            f"{folder}: its tokenizer gives texts with {token!r} the token {number:,}, and the model has "
            f"vectors for {rows:,}: tokenizer files belong to another model, or words were added to them "
            f"alone; {_WAY_ON}"
        )
    if not _knows_a_word(tokenizer):
        raise DataError(
            f"{folder}: to its tokenizer every word is unknown, so that all texts would be alike: tokenizer "
            f"files are missing or cut off; {_WAY_ON}"
        )
    return tokenizer


def _beyond(tokenizer: "PreTrainedTokenizerBase", rows: int) -> tuple[int, str] | None:
    """A number beyond the model's vectors that a text of words can have, and its token; None: there is none.

    Models are in use whose vocabulary has unused words beyond, or added marks such as one for padding: a word
    counts only if it is read back as its number, and a mark, which no text but one that names it has, never.
    """
    marks = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    beyond = {number: token for token, number in tokenizer.get_vocab().items() if number >= rows}
    words = sorted(beyond.keys() - marks - set(tokenizer.all_special_ids))
    for number in words[:: max(1, len(words) // _PROBED)]:
        text = tokenizer.convert_tokens_to_string([beyond[number]])
        if number in tokenizer(text, add_special_tokens=False)["input_ids"]:
            return number, beyond[number]
    return None


def _knows_a_word(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether at least one of the tokenizer's own words has tokens, and none of them is the unknown one.

    Its own, since to a tokenizer of another script or of proteins every English word may be unknown.
    """
    special = set(tokenizer.all_special_ids)
    ids = set(range(0, len(tokenizer), max(1, len(tokenizer) // _PROBED))) - special
    tokens = [token for token in tokenizer.convert_ids_to_tokens(sorted(ids)) if token]
    texts = [tokenizer.convert_tokens_to_string([token]) for token in tokens]
    if not texts:
        return False
    read = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return any(tokenizer.unk_token_id not in found and set(found) - special for found in read)


def _needs_none(folder: Path) -> bool:
    """Whether the folder names a tokenizer that has no files."""
    for name in ("tokenizer_config.json", "config.json"):
        try:
            said = read_json(folder / name)
        except (OSError, ValueError):
            continue  # who reads the file says so
        if isinstance(said, dict) and any(
            said.get(key) in _WITHOUT for key in ("tokenizer_class", "model_type")
        ):
            return True
    return False
