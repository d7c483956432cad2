"""Hold one file of the store against its entry in the manifest."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from embedrun.errors import DataError
from embedrun.store.folder import Store
from embedrun.store.text import LineFaults

# Key of the manifest: the column whose values it counts.
_COUNTED = {"labels": "label", "subsets": "subset", "sources": "source", "entailment": "entailment"}


def verify(store: Store, entry: Mapping[str, Any]) -> list[str]:
    """Every fault of one file, one line each; empty for a whole file.

    Checked are presence, packed bytes, SHA-256, rows, columns, and where the entry has them the counts by
    label, subset, source or entailment, the number of captions and the range of the scores. Where the
    checksum is wrong the content is read all the same, since a faulty line says more than a checksum.

    Args:
        store: the data folder.
        entry: of the manifest.
    """
    name = entry["path"]
    problems = store.missing([name])
    if problems:
        return problems
    path = store.path(name)
    try:
        size, digest = path.stat().st_size, store.fingerprint(name)
        if size != entry["bytes"]:
            problems.append(f"{path}: {size} packed bytes, the manifest says {entry['bytes']}")
        if digest != entry["sha256"]:
            problems.append(f"{path}: sha256 {digest[:12]}..., the manifest says {entry['sha256'][:12]}...")
        problems += _content(store, entry)
    except DataError as fault:
        problems += fault.problems
    return problems


def _content(store: Store, entry: Mapping[str, Any]) -> list[str]:
    name, path = entry["path"], store.path(entry["path"])
    columns = entry.get("columns", [])
    lines = store.lines(name)
    rows, found, first = len(lines), [], 1
    values: dict[str, list[Any]] = {}
    if name.endswith(".tsv.gz"):
        rows, found, first = len(lines) - 1, lines[0].split("\t"), 2
        values = store.read_tsv(name, columns)
    elif name.endswith(".jsonl.gz"):
        values = store.read_jsonl(name, columns)
        found = list(json.loads(lines[0]))
    problems = []
    if rows != entry["rows"]:
        problems.append(f"{path}: {rows} rows, the manifest says {entry['rows']}")
    if found != columns:
        problems.append(f"{path}: columns {', '.join(found)}; the manifest says {', '.join(columns)}")
    for key, column in _COUNTED.items():
        if key in entry:
            problems += _counts(store, name, column, values.get(column, []), entry[key], first)
    if "score_min_max" in entry:
        problems += _range(store, name, values.get("score", []), entry["score_min_max"], first)
    if "captions" in entry:
        captions = sum(len(group) for group in values.get("captions", []) if isinstance(group, list))
        if captions != entry["captions"]:
            problems.append(f"{path}: {captions} captions, the manifest says {entry['captions']}")
    return problems


def _counts(
    store: Store, name: str, column: str, values: Sequence[Any], expected: Mapping[str, int], first: int
) -> list[str]:
    faults = LineFaults(store.path(name))
    for line, value in enumerate(values, first):
        if str(value) not in expected:
            faults.add(line, f"{column} {value!r} is none of {', '.join(expected)}")
    counts = Counter(map(str, values))
    return _problems(faults) + [
        f"{store.path(name)}: {counts[value]} rows of {column} {value}, the manifest says {count}"
        for value, count in expected.items()
        if counts[value] != count
    ]


def _range(
    store: Store, name: str, values: Sequence[Any], expected: Sequence[float], first: int
) -> list[str]:
    faults = LineFaults(store.path(name))
    low, high = expected
    scores = []
    for line, value in enumerate(values, first):
        try:
            scores.append(float(value))
        except (TypeError, ValueError):
            faults.add(line, f"score {value!r} is not a number")
            continue
        if not low <= scores[-1] <= high:
            faults.add(line, f"score {value} is outside {low:g} to {high:g}")
    problems = _problems(faults)
    if not problems and scores and [min(scores), max(scores)] != [low, high]:
        problems = [
            f"{store.path(name)}: scores from {min(scores):g} to {max(scores):g}, "
            f"the manifest says {low:g} to {high:g}"
        ]
    return problems


def _problems(faults: LineFaults) -> list[str]:
    try:
        faults.check()
    except DataError as fault:
        return fault.problems
    return []
