"""`conf/hub.yaml` as data, and the counts that it publishes."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
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
    columns: dict[str, str] = field(default_factory=lambda: {"text": "text"})  # plain text has no columns
    constants: dict[str, Any] = field(default_factory=dict)
    blocks: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, dict] = field(default_factory=dict)
    keep: dict[str, list] = field(default_factory=dict)
    rows: int | None = None


# Key of the manifest and of the catalogue: the column whose values it counts.
COUNTED = {"labels": "label", "subsets": "subset", "sources": "source", "entailment": "entailment"}


@dataclass(frozen=True)
class StoreFile:
    """What is known of one file: published numbers, and its source. None, or empty: nothing is known."""

    rows: int | None = None
    labels: dict[str, int] = field(default_factory=dict)
    subsets: dict[str, int] = field(default_factory=dict)
    entailment: dict[str, int] = field(default_factory=dict)
    label_values: list[int] = field(default_factory=list)
    score_scale: list[float] = field(default_factory=list)
    hub: HubSource | None = None

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """The number of rows of each value, by column."""
        return {column: getattr(self, key, {}) for key, column in COUNTED.items()}

    @property
    def rules(self) -> dict[str, Rule]:
        """The rule of each column whose values are known."""
        accepted = self.counts | {"label": self.label_values or self.labels}
        rules: dict[str, Rule] = {
            column: partial(_among, accepted=list(map(str, values)))
            for column, values in accepted.items()
            if values
        }
        if self.score_scale:
            rules["score"] = partial(score, low=self.score_scale[0], high=self.score_scale[1])
        return rules


def _among(value: object, *, accepted: Sequence[str]) -> object:
    if str(value) not in accepted:
        raise ValueError(f"{value!r} is none of {', '.join(accepted)}")
    return value


@dataclass(frozen=True)
class DataSet:
    """One data set: what it is, its licence, its files by their names, and mteb's tasks of it."""

    about: str
    licence: str
    files: dict[str, StoreFile]
    mteb: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Catalogue:
    """Every data set that a store can hold, by name; `groups` are names of data sets by a common name."""

    data_sets: dict[str, DataSet]
    groups: dict[str, list[str]]

    @staticmethod
    @cache
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


_PUBLISHED = "the published data set has"


def published_problems(
    path: Path,
    known: StoreFile,
    rows: int,
    values: Mapping[str, Sequence[object]],
    first: int,
    constant: Collection[str] = (),
) -> list[str]:
    """Where a file, whose first row has the number `first`, differs from what is published of it.

    `values` are by column, each ``(rows,)``; those that are `constant` the source does not have.
    """
    problems = [f"{path}: {rows} rows, {_PUBLISHED} {known.rows}"] if known.rows not in (None, rows) else []
    for column, expected in known.counts.items():
        counts = Counter(map(str, values.get(column, ())))
        problems += [
            f"{path}: {counts[str(value)]} rows of {column} {value}, {_PUBLISHED} {count}"
            for value, count in expected.items()
            if counts[str(value)] != count and column not in constant
        ]
    faults = LineFaults(path)
    rules = {column: known.rules[column] for column in known.rules.keys() & values.keys() - set(constant)}
    convert(values, rules, range(first, first + rows), faults)
    return problems + faults.problems()
