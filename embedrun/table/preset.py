"""`conf/table` and `conf/scale` as checked, typed data.

```yaml
title: Ablation of AnglE                # what the caption says, in short
paper: angle                            # whose, in one word
source: arXiv:2309.12871, Table 4       # of every row that names no other
kind: table                             # or figure, whose rows have an `x`; or statistics
columns:                                # printed heading: key in results.json, or one of
  STS-B: sts/stsb/spearman
  Avg.: {mean: [MRPC, STS-B]}           # of other columns, where a row is several runs
  Gain: {difference: [With, Without]}   # of two other columns
  Memory: {speed: peak_memory_gb}       # of speed.jsonl; or minutes_per_1000_steps
  Train: {statistic: true}              # of the file of `statistics`
  Params: {printed: true}               # a fact in words, which nothing measures
shared:                                 # overrides before those of each row of that kind
  train: [+experiment=angle_stsb]
seeds: [42]                             # of the runs of every row
tolerance: 0.5                          # points off that count as reproduced
note: what is doubtful about the whole table
unspecified: [what the paper leaves open; here what was chosen]
figure: {x: margin, y: stsb_dev/spearman, best: 10}
statistics: {command: embedrun collect output=DIR, file: provenance.json}
rows:
  - label: w/o ibn                      # as printed, without marks; group and label stand once in a table
    group: Objective                    # the printed heading above it
    kind: train                         # or evaluate, quoted, statistics; train where none is given
    overrides: [loss=angle_without_ibn] # of train.yaml, or of evaluate.yaml
    parts:                              # a run for each of these columns, after `overrides`
      MRPC: [+experiment=angle_mrpc]
      STS-B: {not_runnable: reason}
      QQP: {overrides: [+experiment=angle_qqp], seeds: [42, 43]}  # seeds of this run, not the table's
    published: [86.00]                  # in the order of the columns, null for nothing; or by heading
    keys: {Train: [path, path]}         # statistics: where in the file; several are added up
    before: embedrun generate ...       # command that makes what the row reads, where that is no run
    x: 10                               # of a figure, and `line` where it has several
    not_runnable: why this cannot be measured
```

A row of kind `train` trains a model. One of kind `evaluate` scores a model that is there: a published one, or
`model=run:NAME`, the finished run of the experiment NAME. `quoted` rows are printed as the paper quotes them.

```yaml
title: MiniLM, a tenth of the rows, 100 steps   # what is reduced, in words
train: [training.max_steps=100]                 # overrides of train rows, after their own
evaluate: []                                    # of evaluate rows
seeds: [1]                                      # in place of those of the table
```
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from embedrun.config import Checker, presets
from embedrun.config.check import nearest
from embedrun.config.decides import decides
from embedrun.config.options import option
from embedrun.errors import ConfigError
from embedrun.files import Plain, expanded, read_yaml

RUN = "run:"  # before the name of an experiment: the model of its finished run
KEY = "scale"  # of a configuration: the name of the reduced setting; null in a run as the paper has it
SPEEDS = ("peak_memory_gb", "minutes_per_1000_steps")

Kind = Literal["train", "evaluate", "quoted", "statistics"]


@dataclass(frozen=True)
class Column:
    """One column; one of the fields behind the heading says where its numbers are from.

    Args:
        key: in `results.json`.
        mean: headings of the columns whose mean it is.
        difference: headings of two columns; the second is subtracted from the first.
        speed: one of `SPEEDS`.
        statistic: whether it is from the file of statistics.
        printed: whether it is a fact in words.
    """

    heading: str
    key: str | None = None
    mean: tuple[str, ...] = ()
    difference: tuple[str, ...] = ()
    speed: str | None = None
    statistic: bool = False
    printed: bool = False

    @property
    def of_a_run(self) -> bool:
        """Whether one run gives the number."""
        return self.key is not None or self.speed is not None

    @property
    def parts(self) -> tuple[str, ...]:
        """The headings of the columns that the number is made of; its own, if it is no mean or difference."""
        return (*self.mean, *self.difference) or (self.heading,)


@dataclass(frozen=True)
class Cell:
    """One run of a row, for each seed.

    `overrides` has those that rows share first; `headings` are the columns that the run fills; `not_runnable`
    says why it cannot be run, or is None; `seeds` are its own, empty for those of the table.
    """

    command: Literal["train", "evaluate"]
    overrides: tuple[str, ...]
    headings: tuple[str, ...]
    not_runnable: str | None = None
    seeds: tuple[int, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """The experiments of which a finished run has to exist: the names behind `run:` in overrides.

        What an experiment itself starts from, as `backbone.name: run:raoe_s1_bert`, is not among them.
        """
        values = (override.partition("=")[2] for override in self.overrides)
        return tuple(value.removeprefix(RUN) for value in values if value.startswith(RUN))


@dataclass(frozen=True)
class Figure:
    """The axes of a curve, and where the paper's optimum lies, where that is printed."""

    x: str = option(unit="what the x of a row is")
    y: str = option(unit="key in results.json")
    best: float | None = option(None, unit="x of the printed optimum")
    line: str | None = option(None, unit="what the line of a row is; null: a single curve")
    best_line: float | None = option(None, unit="line of the optimum")


@dataclass(frozen=True)
class Statistics:
    """The command that writes the numbers of `statistics` rows, and the JSON file below its output folder."""

    command: str = option(unit="that writes the file")
    file: str = option(unit="JSON below its output folder")


@dataclass
class _Shared:
    train: list[str] | None = option(None, unit="overrides")
    evaluate: list[str] | None = option(None, unit="overrides")


@dataclass
class _Row:
    """What a row has as the file has it."""

    label: str = option(unit="as printed, without marks")
    group: str = option("", unit="printed heading above; empty for none")
    kind: Kind = option("train", unit="of row")
    overrides: Any = option(None, unit="Hydra's")
    parts: Any = option(None, unit="overrides by heading")
    published: Any = option(None, unit="numbers, in the order of the columns or by heading")
    source: str | None = option(None, unit="of the numbers; null: that of the table")
    note: str = option("", unit="what is doubtful")
    unspecified: list[str] | None = option(None, unit="what is left open; here what was chosen")
    x: float | None = option(None, unit="of a figure")
    line: float | None = option(None, unit="of a figure with several")
    keys: dict[str, Any] | None = option(None, unit="paths by heading")
    before: str = option("", unit="command that makes what the row reads")
    not_runnable: str | None = option(None, unit="reason")


@dataclass
class Row(_Row):
    """One printed row, checked.

    Args:
        cells: its runs; none where the row is quoted or of statistics.
        published: number, or fact in words, by heading; only of what is printed.
        keys: paths in the file of statistics by heading, as `splits/train/positive`; several are added up.
    """

    cells: tuple[Cell, ...] = ()

    @property
    def id(self) -> str:
        """Group and label, which together are unique in the table."""
        return f"{self.group}/{self.label}" if self.group else self.label


@dataclass
class _Table:
    title: str = option(unit="in words")
    paper: str = option(unit="whose, in one word")
    source: str = option(unit="paper and table")
    kind: Literal["table", "figure", "statistics"] = option(unit="of what is printed")
    columns: dict[str, Any] = option(unit="by heading")
    rows: list[_Row] = option(unit="in printed order")
    shared: _Shared = field(default_factory=_Shared)
    seeds: list[int] | None = option(None, unit="of the runs; null: 42")
    tolerance: float = option(0.5, unit="points", above=0)
    note: str = option("", unit="what is doubtful")
    unspecified: list[str] | None = option(None, unit="what is left open; here what was chosen")
    figure: Figure | None = option(None, unit="axes")
    statistics: Statistics | None = option(None, unit="source")


@dataclass(frozen=True)
class Table:
    """One printed table or figure, or one set of statistics.

    Args:
        name: as `angle/table4`.
        title: what the caption says, in short.
        paper: whose, in one word, as `angle`.
        tolerance: points off that count as reproduced.
        note: what is doubtful; empty for nothing.
        unspecified: what the paper leaves open about all rows, and what was chosen.
    """

    name: str
    title: str
    paper: str
    source: str
    kind: Literal["table", "figure", "statistics"]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    seeds: tuple[int, ...]
    tolerance: float
    note: str
    unspecified: tuple[str, ...]
    figure: Figure | None
    statistics: Statistics | None

    def find(self, words: str) -> list[Row]:
        """The rows with this id or, in whatever group, this label.

        Raises:
            ConfigError: if there is none; it suggests the nearest.
        """
        if rows := [row for row in self.rows if words in (row.id, row.label)]:
            return rows
        ids = [row.id for row in self.rows]
        near = nearest(words, [*ids, *(row.label for row in self.rows)])
        raise ConfigError(f"table {self.name}: no row {words!r}{near} (there are: {', '.join(ids)})")


def names(conf: Path | None = None) -> list[str]:
    """Every table, figure and set of statistics, as `angle/table4`, sorted.

    `conf` is the preset folder, by default the package's own.
    """
    root = (conf or presets.folder()) / "table"
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml"))


def load(name: str, conf: Path | None = None) -> Table:
    """The table of a name, as `names` has it, checked.

    Raises:
        ConfigError: if there is none of that name, or with every fault of its file.
    """
    known = names(conf)
    if name not in known:
        raise ConfigError(f"table: no table {name!r}{nearest(name, known)} (there are: {', '.join(known)})")
    return read((conf or presets.folder()) / "table" / f"{name}.yaml", name)


def read(path: Path, name: str) -> Table:
    """The table of a file.

    Raises:
        ConfigError: with every fault.
    """
    where = f"table/{name}.yaml"
    file, problems = _checked(_Table, path, where, shared={})
    table = None if file is None else _Reader(name, file, problems).table()
    if problems or table is None:
        raise ConfigError([f"{where}: {problem}" for problem in problems])
    return table


_Schema = TypeVar("_Schema")


def _checked(
    schema: type[_Schema], path: Path, where: str, **defaults: object
) -> tuple[_Schema | None, list[str]]:
    """What a file says, as a `schema`, or None; and every fault of it. `where` is what messages call it.

    Raises:
        ConfigError: if it cannot be read, or is not YAML.
    """
    try:
        data = read_yaml(path)
    except (OSError, ValueError) as fault:
        raise ConfigError(f"{where}: cannot be read: {fault}") from None
    checker = Checker()
    file = checker.build(schema, {**defaults, **data} if isinstance(data, Mapping) else {})
    # The checker speaks to a command line; to a file nothing can be passed.
    return file, [problem.partition("; pass ")[0] for problem in checker.problems]


_COLUMN = (
    "a key of results.json, {mean: [A, B]}, {difference: [A, B]}, "
    f"{{speed: {' or '.join(SPEEDS)}}}, {{statistic: true}} or {{printed: true}}"
)
_PART = "a list of overrides, {overrides: list, seeds: list} or {not_runnable: reason}"


class _Reader:
    """Checks what the types alone do not say; faults are added to `problems`."""

    def __init__(self, name: str, file: _Table, problems: list[str]) -> None:
        self._name, self._file, self._problems = name, file, problems
        self._columns = {heading: self._column(heading, what) for heading, what in file.columns.items()}

    def table(self) -> Table:
        file = self._file
        for column in self._columns.values():
            self._known(f"columns.{column.heading}", *column.mean, *column.difference)
        rows = tuple(self._row(row, f"rows[{place}]") for place, row in enumerate(file.rows))
        ids = [row.id for row in rows]
        self._problems += [
            f"rows: {name!r} stands there twice" for name in sorted({*ids}) if ids.count(name) > 1
        ]
        if (file.kind == "figure") != (file.figure is not None):
            self._problems.append("figure: the axes go with kind: figure, and with no other")
        columns, seeds = tuple(self._columns.values()), tuple(file.seeds or (42,))
        fields = {name: value for name, value in vars(file).items() if name != "shared"}
        made = {"columns": columns, "rows": rows, "seeds": seeds}
        return Table(self._name, **{**fields, **made, "unspecified": tuple(file.unspecified or ())})

    def _column(self, heading: str, what: Any) -> Column:
        match what:
            case str():
                return Column(heading, key=what)
            case {"mean": [*parts]} if parts and len(what) == 1:
                return Column(heading, mean=tuple(parts))
            case {"difference": [first, second]} if len(what) == 1:
                return Column(heading, difference=(first, second))
            case {"speed": speed} if speed in SPEEDS and len(what) == 1:
                return Column(heading, speed=speed)
            case {"statistic": True} if len(what) == 1:
                return Column(heading, statistic=True)
            case {"printed": True} if len(what) == 1:
                return Column(heading, printed=True)
        self._problems.append(f"columns.{heading}: expected {_COLUMN}, got {what!r}")
        return Column(heading, printed=True)

    def _row(self, row: _Row, path: str) -> Row:
        self._fits(row, path)
        is_run = row.kind in ("train", "evaluate")
        made = {
            "cells": tuple(self._cells(row, path)) if is_run else (),
            "published": self._published(row.published, f"{path}.published"),
            "keys": self._keys(row.keys or {}, f"{path}.keys"),
            "source": row.source or self._file.source,
            "unspecified": row.unspecified or [],
        }
        return Row(**{**vars(row), **made})

    def _fits(self, row: _Row, path: str) -> None:
        """Whether the row has what its kind and the table ask for, and nothing else."""
        figure, of_statistics = self._file.figure, row.kind == "statistics"
        is_run = row.kind in ("train", "evaluate")
        faults = {
            f"{name}: is of rows that are runs, and this is {row.kind}": not is_run
            and getattr(row, name) is not None
            for name in ("overrides", "parts", "not_runnable")
        }
        faults |= {
            "keys: are of rows of kind statistics, all of which have them": of_statistics
            != (row.keys is not None),
            "kind: statistics need the command and the file of `statistics`": of_statistics
            and self._file.statistics is None,
            "x: is of the rows of a figure, all of which have it": (figure is None) != (row.x is None),
            "line: is of the rows of a figure with several lines": (figure is None or figure.line is None)
            != (row.line is None),
        }
        self._problems += [f"{path}.{fault}" for fault, is_broken in faults.items() if is_broken]

    def _cells(self, row: _Row, path: str) -> Iterator[Cell]:
        command: Any = row.kind
        first = [*(getattr(self._file.shared, command) or ()), *(row.overrides or ())]
        if row.parts is None:
            if not first and row.not_runnable is None:
                self._problems.append(
                    f"{path}.overrides: a row of kind {row.kind} needs them, or not_runnable"
                )
            headings = [column.heading for column in self._columns.values() if column.of_a_run]
            yield Cell(command, tuple(first), tuple(headings), row.not_runnable)
            return
        for heading, part in row.parts.items():
            where = f"{path}.parts.{heading}"
            self._known(where, heading)
            match part:
                case {"not_runnable": str(reason)} if len(part) == 1:
                    yield Cell(command, (), (heading,), reason)
                case [*overrides] if _are(str, overrides):
                    yield Cell(command, (*first, *overrides), (heading,), row.not_runnable)
                case {"overrides": [*overrides], "seeds": [*seeds]} if (
                    len(part) == 2 and _are(str, overrides) and seeds and _are(int, seeds)
                ):
                    yield Cell(command, (*first, *overrides), (heading,), row.not_runnable, tuple(seeds))
                case _:
                    self._problems.append(f"{where}: expected {_PART}, got {part!r}")

    def _published(self, numbers: object, path: str) -> dict[str, float | str]:
        if isinstance(numbers, list) and len(numbers) == len(self._columns):
            numbers = dict(zip(self._columns, numbers, strict=True))
        if not isinstance(numbers, Mapping | None):
            shape = f"numbers for all {len(self._columns)} columns in their order, or by heading"
            self._problems.append(f"{path}: expected {shape}, got {numbers!r}")
            return {}
        found = {}
        for heading, value in (numbers or {}).items():
            if value is None or not self._known(path, heading):
                continue
            kind = str if self._columns[heading].printed else int | float
            if isinstance(value, bool) or not isinstance(value, kind):
                wanted = "text" if kind is str else "a number"
                self._problems.append(f"{path}.{heading}: expected {wanted}, got {value!r}")
                continue
            found[heading] = value
        return found

    def _keys(self, paths: Plain, path: str) -> dict[str, tuple[str, ...]]:
        self._known(path, *paths)
        return {
            heading: tuple(where) if isinstance(where, list) else (str(where),)
            for heading, where in paths.items()
        }

    def _known(self, path: str, *headings: object) -> bool:
        """Whether these are columns; a fault is noted for each that is not."""
        columns = [*self._columns]  # a heading may be anything, also what has no hash
        wrong = [heading for heading in headings if heading not in columns]
        for heading in wrong:
            near = nearest(str(heading), columns)
            self._problems.append(f"{path}: no column {heading!r}{near} (there are: {', '.join(columns)})")
        return not wrong


def _are(kind: type, values: list[object]) -> bool:
    return all(type(value) is kind for value in values)


@dataclass(frozen=True)
class Scale:
    """One reduced setting; a table made in it is no reproduction.

    The overrides of `train` and `evaluate` rows follow the rows' own; without `seeds`, those of the table
    hold.
    """

    name: str
    title: str
    train: tuple[str, ...] = ()
    evaluate: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()


@dataclass
class _Scale:
    title: str = option(unit="what is reduced, in words")
    train: list[str] | None = option(None, unit="overrides")
    evaluate: list[str] | None = option(None, unit="overrides")
    seeds: list[int] | None = option(None, unit="of the runs; null: those of the table")


def scales(conf: Path | None = None) -> list[str]:
    """The names of the reduced settings, sorted."""
    return sorted(path.stem for path in ((conf or presets.folder()) / "scale").glob("*.yaml"))


def load_scale(name: str, conf: Path | None = None) -> Scale:
    """The reduced setting of a name, as `scales` has it, checked.

    Raises:
        ConfigError: if there is none of that name, or with every fault of its file.
    """
    known = scales(conf)
    if name not in known:
        there = ", ".join(known) or "none"
        raise ConfigError(f"--scale: no reduced setting {name!r}{nearest(name, known)} (there are: {there})")
    where = f"scale/{name}.yaml"
    file, problems = _checked(_Scale, (conf or presets.folder()) / where, where)
    if file is None:
        raise ConfigError([f"{where}: {problem}" for problem in problems])
    train, evaluate = (tuple(overrides or ()) for overrides in (file.train, file.evaluate))
    return Scale(name, file.title, train, evaluate, tuple(file.seeds or ()))


_PLACE = "dataset.path"  # where files are; data sets declare their options themselves
_MODELS = ("backbone.name", "model")


@dataclass(frozen=True)
class Setting:
    """What applies to every run beside its row's overrides: a reduced setting or None, and more overrides."""

    scale: Scale | None = None
    extra: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the reduced setting; empty for none."""
        return "" if self.scale is None else self.scale.name

    @property
    def changes(self) -> tuple[str, ...]:
        """The overrides that make a run differ from the paper's."""
        return tuple(override for override in self.extra if _changes(override))


def _changes(override: str) -> bool:
    key, _, value = override.lstrip("+~").partition("=")
    if key in _MODELS:  # a folder is taken for a copy of the model that the row names
        return not expanded(value.strip("'\"")).is_dir()
    return key != _PLACE and decides(key) == "what"
