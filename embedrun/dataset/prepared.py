"""Rows that were read from files once, kept as Arrow and mapped from the disk."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embedrun.files import Plain
from embedrun.rows import MappedTexts, Rows, Skipped, fingerprint
from embedrun.store import cache

if TYPE_CHECKING:
    from datasets import Dataset

_VERSION = 2  # of how files are read and of what is kept; another one is another key
_ROWS, _TEXTS, _NOTES = "rows.arrow", "texts.arrow", "notes.json"
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
    targets. Texts are told apart by a hash of 64 bits, and where it is equal by themselves.

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
        mark, left_out = _write(folder, rows, read()), skipped()
        places = [{**asdict(row), "file": files.index(row.file)} for row in left_out]
        _note(folder, rows, mark, places)

    return _opened(cache.kept("rows", key, write, what=what), files)


_LARGE = 8 << 20  # bytes, packed: some hundred thousand rows


def mapped_if_large(paths: Sequence[Path], key: Plain, read: Callable[[], Rows]) -> Rows:
    """The rows that `read` makes of files of the store; of large files they are kept, as by `prepared`.

    `key` decides, beside the files, what `read` gives: rows without subsets.
    """
    if sum(path.stat().st_size for path in paths if path.is_file()) < _LARGE:
        return read()

    digests = {path: cache.digest(path) for path in paths}

    def write(folder: Path) -> None:
        rows = read()
        if rows.subset or rows.skipped or rows.masked:
            raise AssertionError("what is no column would be lost")
        cache.require_unchanged(digests)
        empty = replace(
            rows,
            texts={view: [] for view in rows.texts},
            targets={name: values[:0] for name, values in rows.targets.items()},
        )
        _note(folder, empty, _write(folder, empty, _slices(rows)), [])

    key = {"version": _VERSION, **key, "files": list(digests.values())}
    return _opened(cache.kept("rows", key, write, what=", ".join(path.name for path in paths)), ())


def _slices(rows: Rows) -> Iterator[Part]:
    for begin in range(0, len(rows), _AT_ONCE):
        own = slice(begin, begin + _AT_ONCE)
        texts = {view: column[own] for view, column in rows.texts.items()}
        yield Part(texts, {name: values[own] for name, values in rows.targets.items()})


def _note(folder: Path, rows: Rows, mark: str, skipped: Sequence[Plain]) -> None:
    notes = {
        "rows": {"name": rows.name, "split": rows.split, "form": rows.form},
        "views": list(rows.texts),
        "targets": list(rows.targets),
        "fingerprint": mark,
        "skipped": skipped,
    }
    (folder / _NOTES).write_text(json.dumps(notes), encoding="utf-8")


def _opened(folder: Path, files: Sequence[str]) -> Rows:
    """Rows that are kept; `files` are the names of those that they were read from."""
    notes = json.loads((folder / _NOTES).read_text(encoding="utf-8"))
    texts, table = mapped(folder / _TEXTS), mapped(folder / _ROWS)
    return Rows(
        **notes["rows"],
        texts={view: MappedTexts(texts, _array(table, view)) for view in notes["views"]},
        targets={name: _array(table, name) for name in notes["targets"]},
        skipped=tuple(Skipped(**{**row, "file": files[row["file"]]}) for row in notes["skipped"]),
        kept=notes["fingerprint"],
    )


def _write(folder: Path, rows: Rows, parts: Iterator[Part]) -> str:
    """Texts and numbers of `parts`, as files; gives their fingerprint. `rows` has no row of its own."""
    raw, targets = _raw(folder, rows, parts)
    places = _distinct(raw, folder / _TEXTS)
    _numbers(folder / _ROWS, {**dict(zip(raw, places, strict=True)), **targets})
    mark = fingerprint(replace(rows, texts=raw, targets=targets))
    for view in raw:
        _raw_file(folder, view).unlink()
    return mark


def mapped(path: Path) -> "Dataset":
    """A table mapped from the disk; its fingerprint is the name of its folder and file."""
    from datasets import Dataset
    from datasets.table import MemoryMappedTable

    return Dataset(MemoryMappedTable.from_file(str(path)), fingerprint=f"{path.parent.name}-{path.stem}")


def _array(table: "Dataset", name: str) -> np.ndarray:
    """A column of numbers, ``(rows,)``, on the disk: it was written in one piece."""
    (piece,) = table.data.column(name).chunks
    return piece.to_numpy()


class _Writer:
    """A column of texts, written in parts."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        # Offsets of 64 bits: one part may hold any number of long texts.
        self._pa, self._type = pa, pa.large_string()
        self._schema = pa.schema([("text", self._type)])
        self.path = path
        self._stream = pa.ipc.new_stream(str(path), self._schema)

    def add(self, texts: Sequence[str]) -> None:
        if texts:
            column = self._pa.array(texts, self._type)
            self._stream.write_batch(self._pa.record_batch([column], schema=self._schema))

    def close(self) -> MappedTexts:
        self._stream.close()
        return MappedTexts(mapped(self.path))


def _raw(
    folder: Path, rows: Rows, parts: Iterator[Part]
) -> tuple[dict[str, MappedTexts], dict[str, np.ndarray]]:
    """The texts of each view as they stand in the rows, in files of their own, and the targets."""
    views = {view: _Writer(_raw_file(folder, view)) for view in rows.texts}
    numbers: dict[str, list[np.ndarray]] = {name: [values[:0]] for name, values in rows.targets.items()}
    for part in parts:
        for view, writer in views.items():
            writer.add(part.texts[view])
        for name, values in numbers.items():
            values.append(part.targets[name])
    texts = {view: writer.close() for view, writer in views.items()}
    return texts, {name: np.concatenate(values) for name, values in numbers.items()}


def _raw_file(folder: Path, view: str) -> Path:
    return folder / f"raw-{view}.arrow"


def _distinct(views: Mapping[str, MappedTexts], path: Path) -> list[np.ndarray]:
    """Write the distinct texts in the order in which they come; give the place of each, int32, ``(rows,)``.

    They come part after part, and of each part view after view.
    """
    for attempt in range(100):
        marks = [_hashed(texts, attempt) for texts in _parts(views)]  # (part,) each
        places = _first_places(np.concatenate(marks))
        if _write_distinct(views, places, path):
            break
    else:
        raise AssertionError("a hash of 64 bits that often gives one number for two texts")
    count = len(next(iter(views.values())))
    found = [np.empty(count, np.int32) for _ in views]
    done = 0
    for begin in range(0, count, _AT_ONCE):
        end = min(begin + _AT_ONCE, count)
        for own in found:
            own[begin:end] = places[done : done + end - begin]
            done += end - begin
    return found


def _parts(views: Mapping[str, MappedTexts]) -> Iterator[list[str]]:
    """All texts: part after part, and of each part view after view."""
    for begin in range(0, len(next(iter(views.values()))), _AT_ONCE):
        for column in views.values():
            yield column[begin : begin + _AT_ONCE]


def _hashed(texts: Sequence[str], attempt: int) -> np.ndarray:
    """A number of 64 bits for each text, int64, ``(texts,)``; others for another attempt."""
    # Python's own hash differs between processes, and only tells texts of one process apart.
    each = map(hash, texts) if attempt == 0 else (hash((attempt, text)) for text in texts)
    return np.fromiter(each, np.int64, len(texts))


def _first_places(marks: np.ndarray) -> np.ndarray:
    """For each number the place of its equals among the different ones, in order of first appearance."""
    # By sorting: a table of hashes takes eight times the memory, 4.5 GiB for ten million pairs.
    order = np.argsort(marks, kind="stable")  # (texts,); equal numbers in the order of their places
    ordered = marks[order]  # (texts,)
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])  # (texts,)
    first = order[new]  # (different numbers,)
    place = np.empty(len(first), np.int32)  # (different numbers,)
    place[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    found = np.empty(len(marks), np.int32)  # (texts,)
    found[order] = place[np.cumsum(new, dtype=np.int32) - 1]
    return found


def _write_distinct(views: Mapping[str, MappedTexts], places: np.ndarray, path: Path) -> bool:
    """Write each text at its first place; False where two texts share a place."""
    writer = _Writer(path)
    done, least = 0, 0
    repeats = []  # the repeated texts of each part, and their places
    for texts in _parts(views):
        own = places[done : done + len(texts)]  # (part,)
        before = np.maximum.accumulate(np.concatenate([[least - 1], own]))[:-1]  # (part,), the last new place
        new = own > before
        writer.add([texts[row] for row in np.flatnonzero(new)])
        done, least = done + len(texts), max(least, int(own.max()) + 1)
        repeats.append(~new)
    table = writer.close()
    done = 0
    for texts, repeated in zip(_parts(views), repeats, strict=True):
        rows = np.flatnonzero(repeated)
        if table.at(places[done : done + len(texts)][rows]) != [texts[row] for row in rows]:
            return False
        done += len(texts)
    return True


def _numbers(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    import pyarrow as pa

    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    with pa.ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table, max_chunksize=max(1, len(table)))


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
        with (folder / "numbers").open("wb") as file:
            for begin in range(0, len(texts), _AT_ONCE):
                file.write(np.array(compute(texts[begin : begin + _AT_ONCE]), dtype).tobytes())

    key = {"texts": texts.mark, "version": version}
    folder = cache.kept(kind, key, write, what=f"{what} of {len(texts):,} texts")
    return np.memmap(folder / "numbers", dtype, mode="r")


def kept_fingerprint(rows: Rows) -> Rows:
    """Rows whose texts are mapped with their fingerprint, computed where it is not kept."""

    def write(folder: Path) -> None:
        (folder / _NOTES).write_text(json.dumps({"fingerprint": fingerprint(rows)}), encoding="utf-8")

    key = {
        "version": _VERSION,
        "rows": [rows.name, rows.split, rows.form],
        "texts": {
            view: column.mark for view, column in rows.texts.items() if isinstance(column, MappedTexts)
        },
        "targets": {
            name: hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
            for name, values in rows.targets.items()
        },
    }
    folder = cache.kept("fingerprint", key, write, what=f"the fingerprint of {len(rows):,} rows")
    return replace(rows, kept=json.loads((folder / _NOTES).read_text(encoding="utf-8"))["fingerprint"])
