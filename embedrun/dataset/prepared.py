"""Rows that were read from files once, kept as Arrow and mapped from the disk."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from embedrun.files import Plain
from embedrun.rows import MappedTexts, Rows, Skipped, fingerprint
from embedrun.store import cache, sha256

_VERSION = 3  # of how files are read and of what is kept; another one is another key
_TEXTS, _NOTES = "texts.arrow", "notes.json"
_AT_ONCE = 8192  # texts
_FROM = 1000  # texts: for fewer, numbers are computed faster than a folder is looked for and written


@dataclass(frozen=True)
class Part:
    """Whole rows that were read together, each column ``(rows,)``: texts by view, and targets by name."""

    texts: Mapping[str, Sequence[str]]
    targets: Mapping[str, np.ndarray]


def prepared(
    rows: Rows,
    key: Plain,
    read: Callable[[], Iterator[Part]],
    skipped: Callable[[], Sequence[Skipped]],
    files: Sequence[str],
    what: str,
) -> Rows:
    """The rows of files, read where they are not kept.

    What is kept is a table of the distinct texts, and for each row the places of its texts in it and its
    targets.

    Args:
        rows: name, split and form of the rows, the columns empty.
        key: what decides them: the digests of the files, the map of columns, the rules.
        read: the rows, part after part.
        skipped: those that were left out, asked for when all is read.
        files: their names, which may differ from those that they had when the rows were kept.
        what: they are, for the messages.

    Raises:
        DataError: what `read` raises; nothing is kept then.
    """
    key = {"version": _VERSION, "name": rows.name, "split": rows.split, "form": rows.form, **key}

    def write(folder: Path) -> None:
        _write(
            folder,
            rows,
            read(),
            lambda: [{**asdict(row), "file": files.index(row.file)} for row in skipped()],
        )

    return _opened(cache.kept("rows", key, write, what=what), files)


_LARGE = 8 << 20  # bytes, packed: some hundred thousand rows


def mapped_if_large(paths: Sequence[Path], key: Plain, read: Callable[[], Rows]) -> Rows:
    """The rows that `read` makes of files of the store; of large files they are kept, as by `prepared`.

    `key` decides, beside the files, what `read` gives: rows without subsets.
    """
    if sum(path.stat().st_size for path in paths if path.is_file()) < _LARGE:
        return read()

    def write(folder: Path) -> None:
        rows = read()
        empty = replace(
            rows,
            targets={name: values[:0] for name, values in rows.targets.items()},
            texts={view: [] for view in rows.texts},
        )
        _write(folder, empty, [Part(rows.texts, rows.targets)], list)

    key = {"version": _VERSION, **key, "files": [sha256(path) for path in paths]}
    return _opened(cache.kept("rows", key, write, what=", ".join(path.name for path in paths)), ())


def _write(folder: Path, rows: Rows, parts: Iterable[Part], skipped: Callable[[], Sequence[Plain]]) -> None:
    """Write texts, numbers and notes of `parts`; `rows` has no row itself."""
    import pyarrow as pa

    views, texts = list(rows.texts), []
    numbers: dict[str, list[np.ndarray]] = {name: [values] for name, values in rows.targets.items()}
    for part in parts:
        # Offsets of 64 bits: one part may hold any number of long texts.
        texts += [pa.array(part.texts[view], pa.large_string()) for view in views]
        for name, values in numbers.items():
            values.append(part.targets[name])
    # Arrow numbers the distinct texts in the order of their first appearance.
    encoded = pa.chunked_array(texts, pa.large_string()).dictionary_encode()
    distinct = encoded.chunk(0).dictionary if texts else pa.array([], pa.large_string())
    table = pa.table({"text": distinct})
    with pa.ipc.new_stream(str(folder / _TEXTS), table.schema) as stream:
        stream.write_table(table, max_chunksize=_AT_ONCE)
    for number, view in enumerate(views):
        places = [chunk.indices.to_numpy() for chunk in encoded.chunks[number :: len(views)]]
        np.save(folder / f"view-{view}.npy", np.concatenate([np.zeros(0, np.int32), *places]))  # (rows,)
    for name, values in numbers.items():
        np.save(folder / f"target-{name}.npy", np.concatenate(values))  # (rows,)
    notes = {
        "rows": {"name": rows.name, "split": rows.split, "form": rows.form},
        "views": views,
        "targets": list(rows.targets),
        "skipped": skipped(),
    }
    whole = fingerprint(_rows(folder, notes))
    (folder / _NOTES).write_text(json.dumps({**notes, "fingerprint": whole}), encoding="utf-8")


def _rows(folder: Path, notes: Plain) -> Rows:
    from datasets import Dataset

    table = Dataset.from_file(str(folder / _TEXTS))
    return Rows(
        **notes["rows"],
        texts={view: MappedTexts(table, _array(folder / f"view-{view}.npy")) for view in notes["views"]},
        targets={name: _array(folder / f"target-{name}.npy") for name in notes["targets"]},
    )


def _array(path: Path) -> np.ndarray:
    return np.asarray(np.load(path, mmap_mode="r"))


def _opened(folder: Path, files: Sequence[str]) -> Rows:
    """Rows that are kept; `files` are the names of those that they were read from."""
    notes = json.loads((folder / _NOTES).read_text(encoding="utf-8"))
    skipped = tuple(Skipped(**{**row, "file": files[row["file"]]}) for row in notes["skipped"])
    return replace(_rows(folder, notes), skipped=skipped, kept=notes["fingerprint"])


def of_each(
    kind: str,
    texts: MappedTexts,
    compute: Callable[[list[str]], Sequence[int]],
    dtype: type[np.number],
    version: int,
    *,
    what: str,
) -> np.ndarray:
    """A number for each text, ``(texts,)``, on the disk; computed where it is not kept.

    `compute` gives those of some texts; another way of doing so has another `version`. `what` they are is for
    the messages.
    """
    if len(texts) < _FROM:
        return np.array(compute(texts[:]), dtype)

    def write(folder: Path) -> None:
        parts = (compute(texts[begin : begin + _AT_ONCE]) for begin in range(0, len(texts), _AT_ONCE))
        np.save(folder / "numbers.npy", np.concatenate([np.array(part, dtype) for part in parts]))

    key = {"texts": texts.mark, "version": version}
    folder = cache.kept(kind, key, write, what=f"{what} of {len(texts):,} texts")
    return _array(folder / "numbers.npy")
