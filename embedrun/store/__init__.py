"""The local data store: find, read, verify, list and fill.

A store is one folder of gzip'd UTF-8 text with `\\n` line ends: `*.tsv.gz` (first line the header, no
quoting at all), `*.jsonl.gz` (one object a line) and `*.txt.gz` (one sentence a line), and a `MANIFEST.json`
that lists for each file its path, packed bytes, SHA-256, rows and columns, and counts by label or subset.
Training and evaluation only read it; `fill` alone writes.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from embedrun.config.check import nearest
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, as_written, expanded, read_json, user_cache
from embedrun.store.catalogue import Catalogue, published_problems
from embedrun.store.columns import LineFaults, Rule, convert
from embedrun.store.read import KINDS, TEXT, blocks, kind, sha256

__all__ = ["KINDS", "TEXT", "Store", "choose", "kind", "sha256", "verify"]

# What an entry of the manifest has at the least.
_ENTRY = {"path": str, "bytes": int, "sha256": str, "rows": int}
_NEXT = "set EMBEDRUN_DATA=DIR or data_dir=DIR, or use +experiment=quickstart, which needs no data"


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
        return os.path.isfile(self.path(relative))

    def missing(self, relatives: Sequence[str]) -> list[str]:
        """One problem that names every missing file, the folder and the next step; none if all are there."""
        absent = [name for name in dict.fromkeys(relatives) if not self.has(name)]
        there = "" if self.root.is_dir() else " (which does not exist)"
        return [f"{', '.join(absent)}: not in the data folder{there} {self.root}; {_NEXT}"] if absent else []

    def _require(self, relative: str) -> None:
        if problems := self.missing([relative]):
            raise DataError(problems)

    @cached_property
    def manifest(self) -> list[Plain]:
        """MANIFEST.json: one entry a file, with `path`, `bytes`, `sha256` and `rows` at the least."""
        self._require("MANIFEST.json")
        path = self.path("MANIFEST.json")
        with as_written(path, f"a list of files with {', '.join(_ENTRY)}", "see embedrun/store/"):
            entries = read_json(path)
            types = [{name: type(value) for name, value in entry.items()} for entry in entries]
            if not isinstance(entries, list) or not all(_ENTRY.items() <= of.items() for of in types):
                raise ValueError("other types or fields")
        return entries

    def read(self, relative: str, columns: Sequence[str]) -> dict[str, list[Any]]:
        """The named columns of a packed file, which may have others, each ``(rows,)``; raises as `typed`."""
        return self.typed(relative, dict.fromkeys(columns, lambda value: value))

    def typed(self, relative: str, rules: Mapping[str, Rule]) -> dict[str, list[Any]]:
        """The columns, each value by the rule of its column; of plain text the one column is its lines."""
        self._require(relative)
        path = self.path(relative)
        faults = LineFaults(path)
        values: dict[str, list[Any]] = {name: [] for name in rules}
        for columns, rows in blocks(path, list(rules), faults):
            for name, column in convert(columns, rules, rows, faults).items():
                values[name] += column
        faults.check()
        return values


def choose(command: str, names: Sequence[str], paths: Iterable[str], catalogue: Catalogue) -> list[str]:
    """The files of `paths` that the user's names mean, in their order; all where no name is given.

    A name is that of a data set (`subj`) or of a group (`senteval`); else a folder (`senteval/mrpc`), a file
    (`sts/sts12.tsv.gz`) or its stem (`snli_dev`).
    """
    known = {path: _names(path, catalogue) for path in paths}
    words = sorted(set().union(*known.values()))
    wanted = {name.rstrip("/") for name in names}
    problems = [
        f"{command}: nothing is named {name!r}{nearest(name, words)}; embedrun data list shows every data set"
        for name in sorted(wanted - set(words))
    ]
    if problems:
        raise ConfigError(problems)
    return [path for path, names_of_path in known.items() if not wanted or wanted & names_of_path]


def _names(path: str, catalogue: Catalogue) -> set[str]:
    pure = PurePosixPath(path)
    names = {path, pure.name.split(".")[0], *(parent.as_posix() for parent in pure.parents)}
    # The folder `nli` holds more than the group `nli`, which is what is meant.
    return (names - {*catalogue.data_sets, *catalogue.groups, "."}) | catalogue.names_of(path)


def verify(store: Store, entry: Plain, catalogue: Catalogue | None = None) -> list[str]:
    """Every fault of one file, one line each; empty for a whole file.

    Where the checksum is wrong the content is still read, since a faulty row says more. A manifest can be
    made of a faulty file, such as the SUBJ of 5,020 rows that was long in use: hence the published counts.
    """
    name = entry["path"]
    if problems := store.missing([name]):
        return problems
    path = store.path(name)
    try:
        if (digest := sha256(path)) != entry["sha256"]:
            problems.append(f"{path}: sha256 {digest[:12]}..., the manifest says {entry['sha256'][:12]}...")
        values = store.read(name, entry.get("columns", ["text"]))
        rows = len(next(iter(values.values())))
        if rows != entry["rows"]:
            problems.append(f"{path}: {rows} rows, the manifest says {entry['rows']}")
        if catalogue is not None and name in catalogue.files:
            first_row = 2 if name.endswith(".tsv.gz") else 1
            constant = entry.get("hub", {}).get("constants", {})
            problems += published_problems(path, catalogue.files[name], rows, values, first_row, constant)
    except DataError as fault:
        problems += fault.problems
    return list(dict.fromkeys(problems))
