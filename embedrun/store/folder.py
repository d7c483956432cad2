"""The data folder: its manifest, names of data sets, verification."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from embedrun.config.check import Checker, nearest
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, expanded, user_cache
from embedrun.store.catalogue import COUNTED, Catalogue, count_problems, outside, published_problems
from embedrun.store.columns import LineFaults
from embedrun.store.read import blocks, read_text, sha256

_MANIFEST = {"path": str, "bytes": int, "sha256": str, "rows": int}


@dataclass(frozen=True)
class _Known:
    """What an entry of the manifest may say beside that, as far as it is read."""

    columns: list[str] | None = None
    labels: dict[str, int] | None = None
    subsets: dict[str, int] | None = None
    sources: dict[str, int] | None = None
    entailment: dict[str, int] | None = None
    captions: int | None = None
    score_min_max: list[float] | None = None
    hub: dict[str, Any] | None = None


_NEXT = (
    "set EMBEDRUN_DATA=DIR or data_dir=DIR to a folder in the store layout, "
    "or use +experiment=quickstart, which needs no data"
)


class Store:
    """One folder of data, read only; if it does not exist, every file is missing."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @staticmethod
    def find(data_dir: str | None = None) -> "Store":
        """The store that `data_dir` names, else EMBEDRUN_DATA, else `embedrun/data` in the user's cache."""
        named = data_dir or os.environ.get("EMBEDRUN_DATA")
        return Store(expanded(named) if named else user_cache() / "data")

    def path(self, relative: str) -> Path:
        """Where a file of the store is or would be; DataError if the name leads out of the store."""
        pure = PurePosixPath(relative)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            raise DataError(f"{relative!r}: leads out of the data folder {self.root}; give a path inside it")
        return self.root / pure

    def has(self, relative: str) -> bool:
        """Whether the file is there."""
        try:
            return self.path(relative).is_file()
        except OSError:  # a name that is too long
            return False

    def missing(self, relatives: Sequence[str]) -> list[str]:
        """One problem that names every missing file, the folder and the ways on; none if all are there."""
        absent = [name for name in dict.fromkeys(relatives) if not self.has(name)]
        if not absent:
            return []
        where = "the data folder" if self.root.is_dir() else "the data folder (which does not exist)"
        return [f"{', '.join(absent)}: not in {where} {self.root}; {_NEXT}"]

    def fingerprint(self, relative: str) -> str:
        """SHA-256 of the packed file, hexadecimal."""
        self._require(relative)
        return sha256(self.path(relative))

    @cached_property
    def manifest(self) -> list[Plain]:
        """MANIFEST.json: one entry a file, with `path`, `bytes`, `sha256` and `rows` at the least.

        Raises:
            DataError: if it is missing, is not JSON or lacks a field.
        """
        self._require("MANIFEST.json")
        path = self.path("MANIFEST.json")
        try:
            entries = json.loads(read_text(path))
        except (ValueError, RecursionError) as fault:
            raise DataError(f"{path}: not JSON ({fault})") from fault
        if not isinstance(entries, list):
            raise DataError(f"{path}: expected a list of files, got {type(entries).__name__}")
        needs = ", ".join(f"{key} ({kind.__name__})" for key, kind in _MANIFEST.items())
        problems = [
            f"{path}, entry {number}: needs {needs}"
            for number, entry in enumerate(entries, 1)
            if not isinstance(entry, dict)
            or not all(type(entry.get(key)) is kind for key, kind in _MANIFEST.items())
        ]
        if not problems:
            problems = [
                f"{path}, entry {number}: {problem}"
                for number, entry in enumerate(entries, 1)
                for problem in _entry_problems(entry)
            ]
        if problems:
            raise DataError(problems)
        return entries

    def lines(self, relative: str) -> list[str]:
        """The lines of a packed text file, without their ends; DataError as `read`."""
        self._require(relative)
        lines = read_text(self.path(relative)).removesuffix("\n").split("\n")
        if lines == [""]:
            raise DataError(f"{self.path(relative)}: the file is empty")
        return [line.removesuffix("\r") for line in lines]

    def read(self, relative: str, columns: Sequence[str]) -> dict[str, list[Any]]:
        """The named columns of a `*.tsv.gz` or `*.jsonl.gz` file, which may have others, each ``(rows,)``.

        Raises:
            DataError: if the file is missing, damaged, not UTF-8 or has no row; if a column is missing; or if
                a line has not as many fields as the header, or is no JSON object with every field.
        """
        self._require(relative)
        faults = LineFaults(self.path(relative))
        values: dict[str, list[Any]] = {name: [] for name in columns}
        for block in blocks(self.path(relative), columns, faults):
            for name, column in values.items():
                column += block.columns[name]
        faults.check()
        return values

    def _require(self, relative: str) -> None:
        problems = self.missing([relative])
        if problems:
            raise DataError(problems)


def choose(command: str, names: Sequence[str], paths: Iterable[str], catalogue: Catalogue) -> list[str]:
    """The files that the user's names mean, in the given order; all of `paths` where no name is given.

    A name is that of a data set (`subj`) or of a group (`senteval`); else a folder (`senteval/mrpc`), a file
    (`sts/sts12.tsv.gz`) or its stem (`snli_dev`). `command` is for the message.

    Raises:
        ConfigError: for every unknown name, with the nearest known one.
    """
    ours = {*catalogue.data_sets, *catalogue.groups}
    # The folder `nli` holds more than the group `nli`, which is what is meant.
    known = {path: (_names(path) - ours) | catalogue.names_of(path) for path in paths}
    words = sorted(set().union(*known.values()))
    wanted = {name.rstrip("/") for name in names}
    problems = [
        f"{command}: nothing is named {name!r}{nearest(name, words)}; embedrun data list shows every data set"
        for name in sorted(wanted)
        if name not in words
    ]
    if problems:
        raise ConfigError(problems)
    return [path for path, own in known.items() if not wanted or wanted & own]


def _names(path: str) -> set[str]:
    pure = PurePosixPath(path)
    folders = {parent.as_posix() for parent in pure.parents} - {"."}
    return {path, pure.name.split(".")[0], *folders}


def _entry_problems(entry: Plain) -> list[str]:
    """What is wrong with what an entry says beside `_MANIFEST`."""
    checker = Checker()
    checker.build(_Known, {one.name: entry[one.name] for one in fields(_Known) if one.name in entry})
    if not checker.problems:
        ends, columns = entry.get("score_min_max"), entry.get("columns") or []
        if ends is not None and len(ends) != 2:
            checker.problems.append(f"score_min_max: expected two numbers, got {len(ends)}")
        if len({*columns}) < len(columns):
            checker.problems.append("columns: has a name twice")
        if not isinstance((entry.get("hub") or {}).get("constants"), dict | None):
            checker.problems.append("hub.constants: expected a mapping")
    return checker.problems


_SAYS = "the manifest says"


def verify(store: Store, entry: Plain, catalogue: Catalogue | None = None) -> list[str]:
    """Every fault of one file, one line each; empty for a whole file.

    Checked are presence, packed bytes, SHA-256, rows, columns, and where the entry has them the counts by
    label, subset, source or entailment, the number of captions and the range of the scores. Where the
    checksum is wrong the content is still read, since a faulty line says more than a checksum.

    A manifest can be made of a faulty file, such as the SUBJ of 5,020 rows that was long in use. So the file
    is also compared with the published counts, if there is a catalogue.
    """
    name = entry["path"]
    problems = store.missing([name])
    if problems:
        return problems
    path = store.path(name)
    try:
        size, digest = path.stat().st_size, store.fingerprint(name)
        if size != entry["bytes"]:
            problems.append(f"{path}: {size} packed bytes, {_SAYS} {entry['bytes']}")
        if digest != entry["sha256"]:
            problems.append(f"{path}: sha256 {digest[:12]}..., {_SAYS} {entry['sha256'][:12]}...")
        problems += _content(store, entry, catalogue)
    except DataError as fault:
        problems += fault.problems
    return list(dict.fromkeys(problems))


def _content(store: Store, entry: Plain, catalogue: Catalogue | None) -> list[str]:
    name, path = entry["path"], store.path(entry["path"])
    columns = entry.get("columns") or []
    rows, found, values = _read(store, name, columns)
    first = 2 if name.endswith(".tsv.gz") else 1  # line of the first row
    problems = []
    if rows != entry["rows"]:
        problems.append(f"{path}: {rows} rows, {_SAYS} {entry['rows']}")
    if found != columns:
        problems.append(f"{path}: columns {', '.join(found)}; {_SAYS} {', '.join(columns)}")
    for key, column in COUNTED.items():
        if entry.get(key) is not None:
            problems += count_problems(path, column, values.get(column, []), entry[key], first, _SAYS)
    if entry.get("score_min_max") is not None:
        problems += _range(path, values.get("score", []), entry["score_min_max"], first)
    if entry.get("captions") is not None:
        captions = sum(len(group) for group in values.get("captions", []) if isinstance(group, list))
        if captions != entry["captions"]:
            problems.append(f"{path}: {captions} captions, {_SAYS} {entry['captions']}")
    constant = (entry.get("hub") or {}).get("constants") or {}
    if catalogue is not None and (known := catalogue.file(name)) is not None:
        problems += published_problems(path, known, rows, values, first, constant)
    return problems


def _read(
    store: Store, name: str, columns: Sequence[str]
) -> tuple[int, list[str], Mapping[str, Sequence[object]]]:
    """Number of rows, the columns that the file has, and the values of those wanted, each ``(rows,)``."""
    lines = store.lines(name)
    if name.endswith(".tsv.gz"):
        return len(lines) - 1, lines[0].split("\t"), store.read(name, columns)
    if name.endswith(".jsonl.gz"):
        values = store.read(name, columns)  # or the first line may be no object
        return len(lines), list(json.loads(lines[0])), values
    return len(lines), [], {}


def _range(path: Path, values: Sequence[object], expected: Sequence[float], first: int) -> list[str]:
    low, high = expected
    faults, scores = outside(path, values, low, high, first)
    problems = faults.problems()
    if not problems and scores and [min(scores), max(scores)] != [low, high]:
        between = f"{min(scores):g} to {max(scores):g}"
        problems = [f"{path}: scores from {between}, {_SAYS} {low:g} to {high:g}"]
    return problems
