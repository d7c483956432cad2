"""Rows that were read from files once, kept as Arrow and mapped from the disk."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from embedrun.files import Plain
from embedrun.rows import MappedTexts, Rows, Skipped
from embedrun.store import cache, kind, sha256

_VERSION = 5  # of how files are read and of what is kept; another one is another key
_TEXTS, _NOTES = "texts.arrow", "notes.json"
_AT_ONCE = 8192  # texts
_LARGE = 8 << 20  # bytes, packed: some hundred thousand rows


def prepared(paths: Sequence[Path], key: Plain, read: Callable[[], Iterable[Rows]], *, what: str) -> Rows:
    """The rows of files, read where they are not kept.

    What is kept is a table of the distinct texts, and for each row the places of its texts in it and its
    targets. `key` is what decides the rows beside the bytes of the files: name, split and form, the map of
    columns, the rules. `read` gives rows part after part, without subsets.
    """
    files = [[kind(path), path.suffix.lower() == ".gz", sha256(path)] for path in paths]
    names = [str(path) for path in paths]
    key = {"version": _VERSION, **key, "files": files}
    folder = cache.kept("rows", key, lambda aside: _write(aside, read(), names), what=what)
    notes = json.loads((folder / _NOTES).read_text(encoding="utf-8"))
    skipped = tuple(Skipped(**{**row, "file": names[row["file"]]}) for row in notes["skipped"])
    return replace(_rows(folder, notes), skipped=skipped, kept=notes["fingerprint"])


def mapped_if_large(paths: Sequence[Path], key: Plain, read: Callable[[], Rows]) -> Rows:
    """The rows that `read` makes of files of the store; of large files they are kept, as by `prepared`."""
    if sum(path.stat().st_size for path in paths if path.is_file()) < _LARGE:
        return read()
    return prepared(paths, key, lambda: [read()], what=", ".join(path.name for path in paths))


def _write(folder: Path, parts: Iterable[Rows], names: Sequence[str]) -> None:
    import pyarrow as pa

    texts, skipped = [], []
    notes: Plain = {}
    numbers: dict[str, list[np.ndarray]] = {}
    for rows in parts:
        notes = {"rows": [rows.name, rows.split, rows.form], "views": list(rows.texts)}
        # Offsets of 64 bits: one part may hold any number of long texts.
        texts += [pa.array(column, pa.large_string()) for column in rows.texts.values()]
        for name, values in rows.targets.items():
            numbers.setdefault(name, []).append(values)
        skipped += [{**asdict(row), "file": names.index(row.file)} for row in rows.skipped]
    views = notes["views"]
    # Arrow numbers the distinct texts in the order of their first appearance.
    encoded = pa.chunked_array(texts, pa.large_string()).dictionary_encode()
    table = pa.table({"text": encoded.chunk(0).dictionary})
    with pa.ipc.new_stream(str(folder / _TEXTS), table.schema) as stream:
        stream.write_table(table, max_chunksize=_AT_ONCE)
    for number, view in enumerate(views):
        places = [chunk.indices.to_numpy() for chunk in encoded.chunks[number :: len(views)]]
        np.save(folder / f"view-{view}.npy", np.concatenate(places))  # (rows,)
    for name, columns in numbers.items():
        np.save(folder / f"target-{name}.npy", np.concatenate(columns))  # (rows,)
    notes |= {"targets": list(numbers), "skipped": skipped}
    notes["fingerprint"] = _rows(folder, notes).fingerprint()
    (folder / _NOTES).write_text(json.dumps(notes), encoding="utf-8")


def _rows(folder: Path, notes: Plain) -> Rows:
    from datasets import Dataset

    table = Dataset.from_file(str(folder / _TEXTS))
    return Rows(
        *notes["rows"],
        texts={view: MappedTexts(table, _array(folder / f"view-{view}.npy")) for view in notes["views"]},
        targets={name: _array(folder / f"target-{name}.npy") for name in notes["targets"]},
    )


def _array(path: Path) -> np.ndarray:
    return np.asarray(np.load(path, mmap_mode="r"))
