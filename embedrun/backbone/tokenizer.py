"""The tokenizer of a model folder, refused where its files are incomplete.

transformers silently makes an empty tokenizer of a folder without its files: for BERT one of five tokens,
to which every word is unknown, for RoBERTa and Qwen2 one that gives no tokens at all.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.errors import DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# A tokenizer is whole with one of these, or with both of the others.
_ALONE = ("tokenizer.json", "tekken.json", "byte_maps.json", "*vocab.txt", "*.model", "*.tiktoken")
_TOGETHER = ("*vocab.json", "*merges.txt")
_LEAST = 0.5  # tokens to rows: models have more rows, to be divisible by 128, a tenth at most
_PROBED = 64  # tokens, evenly spread
_NEXT_STEP = "copy or download the folder again, or name another"


def lacking(folder: Path) -> str | None:
    """Which files of a tokenizer a model folder lacks, as a sentence; None: they are there."""

    def there(pattern: str) -> bool:
        # An interrupted copy can leave an empty file.
        return any(path.is_file() and path.stat().st_size for path in folder.glob(pattern))

    if any(map(there, _ALONE)) or all(map(there, _TOGETHER)):
        return None
    return (
        f"{folder} has no tokenizer, or half of one: it needs tokenizer.json, or vocab.txt, or vocab.json "
        f"with merges.txt, or a SentencePiece file (*.model); {_NEXT_STEP}"
    )


def read(folder: Path, rows: int | None) -> "PreTrainedTokenizerBase":
    """The tokenizer of a folder, of transformers; only data is read, no code.

    `rows` is the size of the model's embedding table, None if unknown.

    Raises:
        DataError: if files are missing or cannot be read, or they make a tokenizer that knows no word, or
            belong to another model.
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
        raise DataError(f"{folder}: its tokenizer cannot be read: {said}; {_NEXT_STEP}") from fault
    if fault := _fault(tokenizer, rows):
        raise DataError(
            f"{folder}: {fault}: tokenizer files are missing, cut off or another model's; {_NEXT_STEP}"
        )
    return tokenizer


def _fault(tokenizer: "PreTrainedTokenizerBase", rows: int | None) -> str | None:
    """What is wrong with the tokens of the tokenizer's own words.

    Its own, since to a tokenizer of another script or of proteins every English word may be unknown.
    """
    if rows is not None and len(tokenizer) < _LEAST * rows:
        return f"its tokenizer has {len(tokenizer):,} tokens, and the model has vectors for {rows:,}"
    special = set(tokenizer.all_special_ids)
    probed = set(range(0, len(tokenizer), max(1, len(tokenizer) // _PROBED))) - special
    tokens = [token for token in tokenizer.convert_ids_to_tokens(sorted(probed)) if token]
    texts = [tokenizer.convert_tokens_to_string([token]) for token in tokens]
    ids = [set(text) for text in tokenizer([*texts, "a"])["input_ids"]]
    if not any(tokenizer.unk_token_id not in text and text - special for text in ids[:-1]):
        return "to its tokenizer every word is unknown, so that all texts would be alike"
    # Models are in use whose vocabulary has words beyond that no text has.
    if rows is not None and (last := max(set().union(*ids))) >= rows:
        return f"its tokenizer gives texts the token {last:,}, and the model has vectors for {rows:,}"
    return None
