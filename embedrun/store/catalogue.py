"""`conf/hub.yaml` as data, and the counts that it publishes."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from embedrun.config import Checker, presets
from embedrun.errors import ConfigError
from embedrun.files import read_yaml
from embedrun.store.columns import LineFaults, Rule, convert, score


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
        checker = Checker()
        catalogue = checker.build(Catalogue, read_yaml(path))
        if catalogue is None:
            raise ConfigError([f"{path}: {problem}" for problem in checker.problems])
        return catalogue

    @cached_property
    def files(self) -> dict[str, StoreFile]:
        """Every file by its name in the store, in the order of the data sets."""
        return {path: file for item in self.data_sets.values() for path, file in item.files.items()}

    def data_set_of(self, path: str) -> str | None:
        """The name of the data set that a file is of."""
        return next((name for name, item in self.data_sets.items() if path in item.files), None)

    def names_of(self, path: str) -> set[str]:
        """The data set and the groups that a file is of."""
        name = self.data_set_of(path)
        groups = {group for group, members in self.groups.items() if name in members}
        return {name, *groups} if name else set()


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
    problems = [f"{path}: {rows} rows, {_PUBLISHED} {known.rows}"] if known.rows not in (None, rows) else []
    rules: dict[str, Rule] = {}
    for key, column in COUNTED.items():
        expected = getattr(known, key, None)
        if expected is not None and column not in constant:
            counts = Counter(map(str, values.get(column, ())))
            rules[column] = partial(_among, accepted=list(map(str, expected)))
            problems += [
                f"{path}: {counts[str(value)]} rows of {column} {value}, {_PUBLISHED} {count}"
                for value, count in expected.items()
                if counts[str(value)] != count
            ]
    if known.label_values is not None:
        rules["label"] = partial(_among, accepted=list(map(str, known.label_values)))
    if known.score_scale is not None:
        low, high = known.score_scale
        rules["score"] = partial(score, low=low, high=high)
    faults = LineFaults(path)
    checked = {column: rule for column, rule in rules.items() if column in values}
    convert(values, checked, range(first, first + rows), faults)
    return problems + faults.problems()


def _among(value: object, *, accepted: Sequence[str]) -> object:
    if str(value) not in accepted:
        raise ValueError(f"{value!r} is none of {', '.join(accepted)}")
    return value
