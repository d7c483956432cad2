"""The sentences that language models are asked about."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from embedrun.config.check import nearest
from embedrun.dataset.columns import sentence
from embedrun.errors import DataError
from embedrun.rows import FORMS, Rows
from embedrun.store import LineFaults, read_text

_TABLES = (".tsv", ".csv", ".json", ".jsonl", ".parquet")


def file_problems(path: Path) -> list[str]:
    """Why a text file cannot be read; nothing is read."""
    if path.name.lower().removesuffix(".gz").endswith(_TABLES):
        return [
            f"input: {str(path)!r} is a table; give a text file with one sentence a line, or dataset=pairs "
            "dataset.path=FILE column=text1"
        ]
    if not path.is_file():
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        return [
            f"input: no file {str(path)!r}{nearest(path.name, siblings)} (looked in {path.absolute().parent})"
        ]
    return []


def read_file(path: Path) -> list[str]:
    """The sentences of a text file, one a line, UTF-8, unpacked if its name ends in `.gz`.

    Raises:
        DataError: if the file is empty or not readable, or has a blank line that is not its end.
    """
    text = read_text(path).removeprefix("\ufeff").rstrip("\r\n")
    if not text.strip():
        raise DataError(f"{path}: the file is empty")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    faults = LineFaults(path)
    for number, line in enumerate(lines, 1):
        try:
            sentence(line)
        except ValueError as fault:
            faults.add(number, str(fault))
    faults.check()
    return lines


def of_rows(rows: Rows, column: str | None) -> list[str]:
    """One text column of a data set.

    Args:
        rows: of the split.
        column: its name in the form of the rows; None for the first.

    Raises:
        DataError: if the rows have no such column.
    """
    views = {name: view for view, name in FORMS[rows.form].items()}
    wanted = column or next(iter(views))
    if wanted not in views:
        raise DataError(
            f"column: {rows.name} {rows.split} has no {wanted!r}{nearest(wanted, views)} "
            f"(columns: {', '.join(views)})"
        )
    return rows.texts[views[wanted]]


def distinct(sentences: Sequence[str], limit: int | None) -> list[str]:
    """Each sentence once, in the order of its first place, at most `limit` of them."""
    return list(dict.fromkeys(sentences))[:limit]


def fingerprint(sentences: Sequence[str]) -> str:
    """SHA-256, in hex, of the sentences in their order."""
    digest = hashlib.sha256()
    for text in sentences:
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()
