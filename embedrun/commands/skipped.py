"""What a run left out of the user's own files: a list in the run directory and one line on the screen."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from embedrun.files import write_atomically
from embedrun.rows import Rows, Skipped

FILE = "skipped_rows.jsonl"


def skipped_in(every: Iterable[Rows]) -> list[Skipped]:
    """The skipped rows of all splits, each once, though two tasks may score the same split."""
    return list(dict.fromkeys(row for rows in every for row in rows.skipped))


def write_skipped(skipped: Sequence[Skipped], folder: Path) -> None:
    """Write `skipped_rows.jsonl`, if there are any: file, line, column (null: the whole row) and reason."""
    if not skipped:
        return
    lines = [json.dumps({**asdict(row), "column": row.column or None}) for row in skipped]
    write_atomically(folder / FILE, "".join(f"{line}\n" for line in lines))


def skip_warning(skipped: Sequence[Skipped]) -> str | None:
    """One line that says how much was skipped and shows the first, or None."""
    if not skipped:
        return None
    first = skipped[0]
    unit = "row" if first.file.lower().endswith(".parquet") else "line"
    where = f"{first.file}, {unit} {first.line}" + (f", {first.column}" if first.column else "")
    rows = f"{len(skipped):,} faulty row{'s' if len(skipped) > 1 else ''}"
    return f"{rows} of your files skipped, the first: {where}: {first.reason}; see {FILE}"
