"""`conf/hub.yaml` as data, and the counts that it publishes."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from embedrun.config import Checker, nearest, presets
from embedrun.errors import ConfigError
from embedrun.files import read_yaml
from embedrun.store.columns import LineFaults, convert, score
from embedrun.store.read import TEXT, kind

_COMMIT = re.compile(r"[0-9a-f]{40}")
_TARGETS = (".tsv.gz", ".jsonl.gz", ".txt.gz")


@dataclass(frozen=True)
class HubSource:
    """Where a file of the store is found on the hub; the fields are explained in `conf/hub.yaml`."""

    repo: str
    files: list[str]
    revision: str | None = None
    columns: dict[str, str] | None = None
    constants: dict[str, Any] | None = None
    blocks: dict[str, list[str]] | None = None
    values: dict[str, dict] | None = None
    keep: dict[str, list] | None = None
    rows: int | None = None


@dataclass(frozen=True)
class StoreFile:
    """What is known of one file: published numbers, and its source. None: nothing is known."""

    rows: int | None = None
    labels: dict[str, int] | None = None
    subsets: dict[str, int] | None = None
    entailment: dict[str, int] | None = None
    label_values: list[int] | None = None
    score_scale: list[float] | None = None
    hub: HubSource | None = None


@dataclass(frozen=True)
class DataSet:
    """One data set: what it is, its licence, and its files by their names in the store."""

    about: str
    licence: str
    files: dict[str, StoreFile]


@dataclass(frozen=True)
class Catalogue:
    """Every data set that a store can hold, by name; `groups` are names of data sets by a common name."""

    data_sets: dict[str, DataSet]
    groups: dict[str, list[str]]

    @staticmethod
    def read(path: Path | None = None) -> "Catalogue":
        """The catalogue in a YAML file, by default ours; a ConfigError names every fault of the file."""
        path = path or presets.folder() / "hub.yaml"
        try:
            data = read_yaml(path)
        except (OSError, ValueError) as fault:
            raise ConfigError(f"{path}: cannot be read: {' '.join(str(fault).split())}") from fault
        checker = Checker()
        catalogue = checker.build(Catalogue, data if isinstance(data, Mapping) else {})
        if catalogue is not None:
            checker.problems += _problems(catalogue)
        if checker.problems or catalogue is None:
            raise ConfigError([f"{path}: {problem}" for problem in checker.problems])
        return catalogue

    def file(self, path: str) -> StoreFile | None:
        """What is known of a file, by its name in the store."""
        return self.files().get(path)

    def files(self) -> dict[str, StoreFile]:
        """Every file by its name in the store, in the order of the data sets."""
        return {path: file for one in self.data_sets.values() for path, file in one.files.items()}

    def data_set_of(self, path: str) -> str | None:
        """The name of the data set that a file is of."""
        return next((name for name, one in self.data_sets.items() if path in one.files), None)

    def names_of(self, path: str) -> set[str]:
        """The data set and the groups that a file is of."""
        name = self.data_set_of(path)
        return (
            {name, *(group for group, members in self.groups.items() if name in members)} if name else set()
        )


def _problems(catalogue: Catalogue) -> list[str]:
    problems = [
        f"groups.{group}: no data set {name!r}{nearest(name, catalogue.data_sets)}"
        for group, members in catalogue.groups.items()
        for name in members
        if name not in catalogue.data_sets
    ]
    for name, one in catalogue.data_sets.items():
        for path, file in one.files.items():
            where = f"data_sets.{name}.files.{path}"
            if not path.endswith(_TARGETS) or path.startswith("/") or ".." in path.split("/"):
                problems.append(f"{where}: a path inside the store that ends in {', '.join(_TARGETS)}")
            if file.hub is not None:
                problems += [f"{where}.hub.{text}" for text in _hub_problems(path, file.hub)]
                if file.hub.blocks is not None and set(file.hub.blocks) != set(file.subsets or {}):
                    problems.append(f"{where}.hub.blocks: needs first and last pair of each of `subsets`")
    return problems


def _hub_problems(path: str, hub: HubSource) -> list[str]:
    problems = []
    if hub.revision is not None and not _COMMIT.fullmatch(hub.revision):
        problems.append(f"revision: expected a commit of 40 hexadecimal digits or null, got {hub.revision!r}")
    if not hub.files:
        problems.append("files: name at least one file of the repository")
    for name in hub.files:
        if kind(Path(name)) is None:
            problems.append(f"files: {name!r} is not Parquet, JSON Lines, CSV, TSV or plain text")
        if (kind(Path(name)) == TEXT) != path.endswith(".txt.gz"):
            problems.append(f"files: {name!r} cannot become {path}; plain text goes with plain text")
    if (hub.columns is None) != path.endswith(".txt.gz"):
        problems.append("columns: a table needs them, plain text has none")
    for option in ("values", "keep"):
        unknown = [name for name in getattr(hub, option) or {} if name not in (hub.columns or {})]
        problems += [f"{option}: no column {name!r}{nearest(name, hub.columns or {})}" for name in unknown]
    twice = [name for name in hub.constants or {} if name in (hub.columns or {})]
    problems += [f"constants: {name!r} is a column too" for name in twice]
    return problems


# Key of the manifest and of the catalogue: the column whose values it counts.
COUNTED = {"labels": "label", "subsets": "subset", "sources": "source", "entailment": "entailment"}
_PUBLISHED = "the published data set has"


def published_problems(
    path: Path,
    known: StoreFile,
    rows: int,
    values: Mapping[str, Sequence[object]],
    first: int,
    constant: Collection[str] = (),
) -> list[str]:
    """Where a file differs from what is published of it.

    Args:
        values: by column, each ``(rows,)``.
        first: number of the first row.
        constant: columns that the source does not have, and that are not checked.
    """
    problems = []
    if known.rows is not None and rows != known.rows:
        problems.append(f"{path}: {rows} rows, {_PUBLISHED} {known.rows}")
    for key, column in COUNTED.items():
        expected = getattr(known, key, None)
        if expected is not None and column not in constant:
            counts = Counter(map(str, values.get(column, [])))
            named = {str(value): count for value, count in expected.items()}
            problems += _faulty(path, column, values.get(column, []), first, named)
            problems += [
                f"{path}: {counts[value]} rows of {column} {value}, {_PUBLISHED} {count}"
                for value, count in named.items()
                if counts[value] != count
            ]
    if known.label_values is not None:
        accepted = [str(value) for value in known.label_values]
        problems += _faulty(path, "label", values.get("label", []), first, accepted)
    if known.score_scale is not None:
        low, high = known.score_scale
        faults, scores = LineFaults(path), values.get("score", [])
        numbers = range(first, first + len(scores))
        convert({"score": scores}, {"score": partial(score, low=low, high=high)}, numbers, faults)
        problems += faults.problems()
    return problems


def _faulty(
    path: Path,
    column: str,
    values: Sequence[object],
    first: int,
    accepted: Collection[str],
) -> list[str]:
    faults = LineFaults(path)
    for row, value in enumerate(values, first):
        if str(value) not in accepted:
            faults.add(row, f"{column} {value!r} is none of {', '.join(accepted)}")
    return faults.problems()
