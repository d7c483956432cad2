"""The columns of a user's file by the names that the field gives them, where the user names none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from embedrun.errors import DataError
from embedrun.store.read import header

# What other tools call a column of ours, by our name. No word stands for two of one kind of rows.
NAMES: dict[str, tuple[str, ...]] = {
    "text1": ("sentence1", "premise", "question1", "query", "anchor", "sentence_A"),
    "text2": ("sentence2", "hypothesis", "question2", "positive", "pos", "answer", "sentence_B"),
    "score": ("similarity", "similarity_score", "relatedness_score"),
    "anchor": ("query", "sent0", "question"),
    "positive": ("pos", "positives", "sent1", "answer"),
    "negative": ("neg", "negatives", "hard_neg"),
    "positive_scores": ("pos_scores",),
    "negative_scores": ("neg_scores",),
    "text": ("sentence",),
    "class": ("label", "category"),
}
_EITHER = "label"  # of pairs: a score to one tool, a class of NLI to another


@dataclass(frozen=True)
class NamedColumns:
    """A map of columns, our name to the file's, and what a person is told of it, or nothing."""

    columns: Mapping[str, str]
    said: str = ""


def recognised(path: Path | None, required: Sequence[str], optional: Sequence[str]) -> NamedColumns | None:
    """The columns of a file whose names are ours or usual ones; None where they are not known.

    `path` is a file, or the first of a folder; None: it is of the hub. An optional column may be missing.

    Raises:
        ValueError: if two columns fit one name, or one may mean two things.
    """
    names = _header(path)
    if not names:
        return None
    columns = _matched(path, names, [*required, *optional])
    if any(name not in columns for name in required):
        return None
    if "score" in optional and "score" not in columns and _EITHER in names:
        raise ValueError(_ambiguous(path, {ours: columns[ours] for ours in required}))
    if all(ours == name for ours, name in columns.items()) and len(columns) == len([*required, *optional]):
        return NamedColumns(columns)
    unread = [name for name in names if name not in columns.values()]
    said = f"columns of {path}: {', '.join(f'{ours}={name}' for ours, name in columns.items())}"
    return NamedColumns(columns, said + (f"; not read: {', '.join(unread)}" if unread else ""))


def _header(path: Path | None) -> list[str]:
    try:
        return [] if path is None or not path.is_file() else header(path)
    except DataError:
        return []  # reading says it


def _matched(path: Path | None, names: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    """The file's name of each wanted column that it has."""
    columns: dict[str, str] = {}
    for ours in wanted:
        fits = [ours] if ours in names else [name for name in NAMES[ours] if name in names]
        if len(fits) > 1:
            raise ValueError(
                f"columns: {' and '.join(fits)} of {path} may both be {ours}; say which, as "
                f"columns={{{ours}: {fits[0]}, ...}}"
            )
        columns |= {ours: fits[0]} if fits else {}
    return columns


def _ambiguous(path: Path | None, columns: Mapping[str, str]) -> str:
    texts = ", ".join(f"{ours}: {name}" for ours, name in columns.items())
    either = " or ".join(f"columns={{{texts}, {meaning}: {_EITHER}}}" for meaning in ("score", "label"))
    return (
        f"columns: {_EITHER} of {path} may be a score, higher for more similar, or an NLI label (0 "
        f"entailment, 1 neutral, 2 contradiction); say which: {either}"
    )
