"""Hold one file of the store against its entry in the manifest, and against what is published of it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun.errors import DataError
from embedrun.store.catalogue import Catalogue
from embedrun.store.counts import COUNTED, count_problems, outside, published_problems
from embedrun.store.folder import Store

_MANIFEST = "the manifest says"


def verify(store: Store, entry: Mapping[str, Any], catalogue: Catalogue | None = None) -> list[str]:
    """Every fault of one file, one line each; empty for a whole file.

    Checked are presence, packed bytes, SHA-256, rows, columns, and where the entry has them the counts by
    label, subset, source or entailment, the number of captions and the range of the scores. Where the
    checksum is wrong the content is read all the same, since a faulty line says more than a checksum.

    A manifest can be made of a faulty file, such as the SUBJ of 5,020 rows that was long in use; the
    published counts of the catalogue are held against the file whatever the manifest says.

    Args:
        store: the data folder.
        entry: of the manifest.
        catalogue: what is published; None holds the file against the manifest alone.
    """
    name = entry["path"]
    problems = store.missing([name])
    if problems:
        return problems
    path = store.path(name)
    try:
        size, digest = path.stat().st_size, store.fingerprint(name)
        if size != entry["bytes"]:
            problems.append(f"{path}: {size} packed bytes, {_MANIFEST} {entry['bytes']}")
        if digest != entry["sha256"]:
            problems.append(f"{path}: sha256 {digest[:12]}..., {_MANIFEST} {entry['sha256'][:12]}...")
        problems += _content(store, entry, catalogue)
    except DataError as fault:
        problems += fault.problems
    return list(dict.fromkeys(problems))


def _content(store: Store, entry: Mapping[str, Any], catalogue: Catalogue | None) -> list[str]:
    name, path = entry["path"], store.path(entry["path"])
    columns = entry.get("columns", [])
    rows, found, values = _read(store, name, columns)
    first = 2 if name.endswith(".tsv.gz") else 1  # line of the first row
    problems = []
    if rows != entry["rows"]:
        problems.append(f"{path}: {rows} rows, {_MANIFEST} {entry['rows']}")
    if found != columns:
        problems.append(f"{path}: columns {', '.join(found)}; {_MANIFEST} {', '.join(columns)}")
    for key, column in COUNTED.items():
        if key in entry:
            problems += count_problems(path, column, values.get(column, []), entry[key], first, _MANIFEST)
    if "score_min_max" in entry:
        problems += _range(path, values.get("score", []), entry["score_min_max"], first)
    if "captions" in entry:
        captions = sum(len(group) for group in values.get("captions", []) if isinstance(group, list))
        if captions != entry["captions"]:
            problems.append(f"{path}: {captions} captions, {_MANIFEST} {entry['captions']}")
    constant = entry.get("hub", {}).get("constants", {})
    if catalogue is not None and (known := catalogue.file(name)) is not None:
        problems += published_problems(path, known, rows, values, first, constant)
    return problems


def _read(store: Store, name: str, columns: Sequence[str]) -> tuple[int, list[str], dict[str, list[Any]]]:
    """Number of rows, the columns that the file has, and the values of those wanted, each ``(rows,)``."""
    lines = store.lines(name)
    if name.endswith(".tsv.gz"):
        return len(lines) - 1, lines[0].split("\t"), store.read_tsv(name, columns)
    if name.endswith(".jsonl.gz"):
        return len(lines), list(json.loads(lines[0])), store.read_jsonl(name, columns)
    return len(lines), [], {}


def _range(path: Path, values: Sequence[Any], expected: Sequence[float], first: int) -> list[str]:
    low, high = expected
    faults, scores = outside(path, values, low, high, first)
    problems = faults.problems()
    if not problems and scores and [min(scores), max(scores)] != [low, high]:
        between = f"{min(scores):g} to {max(scores):g}"
        problems = [f"{path}: scores from {between}, {_MANIFEST} {low:g} to {high:g}"]
    return problems
