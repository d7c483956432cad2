"""Hold the columns of one file against expected counts, values and scales."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun.store.catalogue import StoreFile
from embedrun.store.text import LineFaults

# Key of the manifest and of the catalogue: the column whose values it counts.
COUNTED = {"labels": "label", "subsets": "subset", "sources": "source", "entailment": "entailment"}
_PUBLISHED = "the published data set has"


def published_problems(
    path: Path,
    known: StoreFile,
    rows: int,
    values: Mapping[str, Sequence[Any]],
    first: int,
    constant: Collection[str] = (),
) -> list[str]:
    """Where a file differs from what is published of it.

    Args:
        path: for the messages.
        known: what is published.
        rows: number of rows.
        values: by column, each ``(rows,)``.
        first: line of the first row.
        constant: columns that the source does not tell, and that are not held against anything.
    """
    problems = []
    if known.rows is not None and rows != known.rows:
        problems.append(f"{path}: {rows} rows, {_PUBLISHED} {known.rows}")
    for key, column in COUNTED.items():
        expected = getattr(known, key, None)
        if expected is not None and column not in constant:
            named = {str(value): count for value, count in expected.items()}
            problems += count_problems(path, column, values.get(column, []), named, first, _PUBLISHED)
    if known.label_values is not None:
        accepted = [str(value) for value in known.label_values]
        problems += _unknown(path, "label", values.get("label", []), accepted, first).problems()
    if known.score_scale is not None:
        low, high = known.score_scale
        problems += outside(path, values.get("score", []), low, high, first)[0].problems()
    return problems


def count_problems(
    path: Path, column: str, values: Sequence[Any], expected: Mapping[str, int], first: int, says: str
) -> list[str]:
    """Where the numbers of rows by value differ, and every line with an unexpected value.

    Args:
        path: for the messages.
        column: of the values.
        values: of the column, ``(rows,)``.
        expected: rows by value, as text.
        first: line of the first row.
        says: who expects it.
    """
    counts = Counter(map(str, values))
    return _unknown(path, column, values, list(expected), first).problems() + [
        f"{path}: {counts[value]} rows of {column} {value}, {says} {count}"
        for value, count in expected.items()
        if counts[value] != count
    ]


def _unknown(path: Path, column: str, values: Sequence[Any], accepted: list[str], first: int) -> LineFaults:
    faults = LineFaults(path)
    for line, value in enumerate(values, first):
        if str(value) not in accepted:
            faults.add(line, f"{column} {value!r} is none of {', '.join(accepted)}")
    return faults


def outside(
    path: Path, values: Sequence[Any], low: float, high: float, first: int
) -> tuple[LineFaults, list[float]]:
    """The scores that are no number from `low` to `high`, and all that are numbers."""
    faults = LineFaults(path)
    scores = []
    for line, value in enumerate(values, first):
        try:
            scores.append(float(value))
        except (TypeError, ValueError):
            faults.add(line, f"score {value!r} is not a number")
            continue
        if not low <= scores[-1] <= high:
            faults.add(line, f"score {value} is outside {low:g} to {high:g}")
    return faults, scores
