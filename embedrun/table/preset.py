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
  p: {test: STS-B, against: AnglE}      # two-sided p-value of the difference from that row
  Memory: {speed: peak_memory_gb}       # of speed.jsonl; or minutes_per_1000_steps
  Train: {statistic: true}              # of the file of `statistics`
  Params: {printed: true}               # a fact in words, which nothing measures
shared:                                 # overrides before those of each row of that kind
  train: [+experiment=angle_stsb]
seeds: [42]                             # of the runs of every row
tolerance: 0.5                          # points off that count as reproduced
labels: {Ours: AnglE, GloVe: null}      # with --check: rows and columns by their label in the paper's LaTeX
baseline: AnglE                         # with --marks: each row is tested against it
note: what is doubtful about the whole table
unspecified: [what the paper leaves open; here what was chosen]
figure: {x: margin, y: stsb_dev/spearman, best: 10}
panels: geometry_stsb                   # predictions that are plotted, a panel a row, beside gold
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
    best_of: {training.batch_size: [8, 16, 32]}  # a run for each; the best by dev score counts
    published: [86.00]                  # in the order of the columns, null for nothing; or by heading
    keys: {Train: [path, path]}         # statistics: where in the file; several are added up
    before: embedrun generate ...       # command that makes what the row reads, where that is no run
    x: 10                               # of a figure, and `line` where it has several
    not_runnable: why this cannot be measured
```

A table of your own is a file in this form, anywhere: `title`, `paper`, `source`, `kind` and printed numbers
may be left out. A row of kind `train` trains a model. One of kind `evaluate` scores a model that is there: a
published one, or `model=run:NAME`, the finished run of the experiment NAME. `quoted` rows are printed as the
paper quotes them.

```yaml
title: MiniLM, a tenth of the rows, 100 steps   # what is reduced, in words
train: [training.max_steps=100]                 # overrides of train rows, after their own
evaluate: []                                    # of evaluate rows
seeds: [1]                                      # in place of those of the table
```
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeVar

from embedrun.config import Checker, presets
from embedrun.config.check import nearest
from embedrun.config.decides import decides
from embedrun.config.options import option
from embedrun.errors import ConfigError
from embedrun.files import expanded, read_yaml

RUN = "run:"  # before the name of an experiment: the model of its finished run
KEY = "scale"  # of a configuration: the name of the reduced setting; null in a run as the paper has it

Kind = Literal["train", "evaluate", "quoted", "statistics"]
_Schema = TypeVar("_Schema")


@dataclass
class Column:
    """One column; `key` is in `results.json`, or another field says where the numbers are from."""

    heading: str = ""
    key: str | None = None
    mean: list[str] | None = None  # headings of other columns
    difference: list[str] | None = None  # two headings
    test: str | None = None  # heading of the scores that are tested
    against: str | None = None  # id of the row that they are tested against
    speed: Literal["peak_memory_gb", "minutes_per_1000_steps"] | None = None
    statistic: bool = False
    printed: bool = False

    @property
    def of_a_run(self) -> bool:
        """Whether one run gives the number."""
        return self.key is not None or self.speed is not None

    @property
    def parts(self) -> tuple[str, ...]:
        """The headings of the columns that the number is made of; else its own."""
        return tuple(self.mean or self.difference or [self.test or self.heading])


@dataclass(frozen=True)
class Cell:
    """One run of a row, for each seed.

    `overrides` has those that rows share first; `headings` are the columns that the run fills; `not_runnable`
    says why it cannot be run, or is None; `seeds` are its own, empty for those of the table; `choice` is the
    setting of a row that has the best of several.
    """

    command: Literal["train", "evaluate"]
    overrides: tuple[str, ...]
    headings: tuple[str, ...]
    not_runnable: str | None = None
    seeds: tuple[int, ...] = ()
    choice: str = ""


@dataclass(frozen=True)
class Figure:
    """The axes of a curve, and where the paper's optimum lies, where that is printed."""

    x: str  # what the x of a row is
    y: str  # key in results.json
    best: float | None = None  # x of the printed optimum
    line: str | None = None  # what the line of a row is; None: a single curve
    best_line: float | None = None  # line of the optimum


@dataclass(frozen=True)
class Statistics:
    """The command that writes the numbers of `statistics` rows, and the JSON file below its output folder."""

    command: str
    file: str


@dataclass
class _Part:
    overrides: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    not_runnable: str | None = None


@dataclass
class Row:
    """One printed row, checked: `published` is by heading, and only of what is printed.

    `cells` are its runs; none where the row is quoted or of statistics.
    """

    label: str
    group: str = ""
    kind: Kind = "train"
    overrides: list[str] = field(default_factory=list)
    parts: dict[str, list[str] | _Part] = field(default_factory=dict)
    best_of: dict[str, list[Any]] = field(default_factory=dict)
    published: Any = None
    source: str = ""
    note: str = ""
    unspecified: list[str] = field(default_factory=list)
    x: float | None = None
    line: float | None = None
    keys: dict[str, str | list[str]] = field(default_factory=dict)
    before: str = ""
    not_runnable: str | None = None
    cells: tuple[Cell, ...] = ()

    @property
    def id(self) -> str:
        """Group and label, which together are unique in the table."""
        return f"{self.group}/{self.label}" if self.group else self.label

    def paths(self, heading: str) -> list[str]:
        """Where the number of a column stands in the file of statistics; several are added up."""
        paths = self.keys.get(heading, [])
        return [paths] if isinstance(paths, str) else paths


@dataclass(kw_only=True)
class _Head:
    name: str
    title: str = ""
    paper: str = "own"
    source: str = ""
    kind: Literal["table", "figure", "statistics"] = "table"
    rows: list[Row]
    seeds: list[int] = field(default_factory=lambda: [42])
    tolerance: float = option(0.5, unit="points", above=0)
    baseline: str | None = None
    labels: dict[str, str | None] = field(default_factory=dict)
    note: str = ""
    unspecified: list[str] = field(default_factory=list)
    figure: Figure | None = None
    panels: str | None = None
    statistics: Statistics | None = None


@dataclass(kw_only=True)
class _Table(_Head):
    columns: dict[str, str | Column]
    shared: dict[str, list[str]] = field(default_factory=dict)


@dataclass(kw_only=True)
class Table(_Head):
    """One printed table or figure, or one set of statistics; `name` is as `angle/table4`."""

    columns: tuple[Column, ...]

    def find(self, words: str) -> list[Row]:
        """The rows with this id or, in whatever group, this label; ConfigError if there is none."""
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


FILE = (".yaml", ".yml")  # what the name of a user's own table ends in


def load(name: str, conf: Path | None = None) -> Table:
    """The table of a name of `names`, or of a file; ConfigError if there is none, or with its faults."""
    path = table_file(name, conf)
    if name.endswith(FILE):
        if not path.is_file():
            raise ConfigError(f"{name}: no such file; a word that ends in .yaml is a table of your own")
    else:
        _refuse_unknown("table: no table", name, names(conf))
    return read(path, name)


def table_file(name: str, conf: Path | None = None) -> Path:
    """Where a table of this name is, if there is one."""
    if name.endswith(FILE):
        return expanded(name)
    return (conf or presets.folder()) / "table" / f"{name}.yaml"


def _refuse_unknown(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        there = ", ".join(known) or "none"
        raise ConfigError(f"{what} {name!r}{nearest(name, known)} (there are: {there})")


def read(path: Path, name: str) -> Table:
    """The table of a file; ConfigError with every fault."""
    where = name if name.endswith(FILE) else f"table/{name}.yaml"
    file = checked(_Table, path, where, name)
    columns = {
        heading: Column(heading, what) if isinstance(what, str) else replace(what, heading=heading)
        for heading, what in file.columns.items()
    }
    if faults := _faults(file, columns):
        raise ConfigError([f"{where}: {fault}" for fault in faults])
    fields = {field: value for field, value in vars(file).items() if field != "shared"}
    rows = [_row(row, file, columns) for row in file.rows]
    title = file.title or path.stem
    return Table(**{**fields, "title": title, "columns": tuple(columns.values()), "rows": rows})


def _faults(file: _Table, columns: Mapping[str, Column]) -> list[str]:
    """What is wrong with the headings and the names of rows."""
    named = [(f"columns.{heading}", part) for heading, column in columns.items() for part in column.parts]
    for place, row in enumerate(file.rows):
        printed = row.published if isinstance(row.published, Mapping) else {}
        named += [(f"rows[{place}]", heading) for heading in (*row.parts, *row.keys, *printed)]
    faults = [
        f"{where}: no column {heading!r}{nearest(heading, columns)} (there are: {', '.join(columns)})"
        for where, heading in named
        if heading not in columns
    ]
    faults += [
        f"rows[{place}].published: {len(row.published)} numbers for {len(columns)} columns; null is none"
        for place, row in enumerate(file.rows)
        if isinstance(row.published, list) and len(row.published) != len(columns)
    ]
    faults += [
        f"rows[{place}].best_of: the choice is by dev score, which rows of kind {row.kind} do not have"
        for place, row in enumerate(file.rows)
        if row.best_of and row.kind != "train"
    ]
    ids = Counter(row.id for row in file.rows)
    tests = {heading: column.against or "" for heading, column in columns.items() if column.test}
    against = {f"columns.{heading}.against": row for heading, row in tests.items()}
    against |= {} if file.baseline is None else {"baseline": file.baseline}
    faults += [
        f"{where}: no row {row!r}{nearest(row, ids)} (there are: {', '.join(ids)})"
        for where, row in against.items()
        if row not in ids
    ]
    faults += [
        f"labels.{label}: no row or column {own!r}{nearest(own, [*ids, *columns])}"
        for label, own in file.labels.items()
        if own is not None and own not in (*ids, *columns)
    ]
    return faults + [f"rows: {count} rows are {name!r}" for name, count in ids.items() if count > 1]


def checked(schema: type[_Schema], path: Path, where: str, name: str) -> _Schema:
    """A file as a dataclass that has a `name`; ConfigError with every fault, each begun by `where`."""
    try:
        data = read_yaml(path)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise ConfigError(f"{where}: cannot be read: {reason}") from None
    checker = Checker()
    file = checker.build(schema, {**(data if isinstance(data, Mapping) else {}), "name": name})
    if file is None:
        # The checker speaks to a command line; to a file nothing can be passed.
        raise ConfigError([f"{where}: {problem.partition('; pass ')[0]}" for problem in checker.problems])
    return file


def _row(row: Row, file: _Table, columns: Mapping[str, Column]) -> Row:
    """The row by heading and with its runs."""
    printed = row.published or {}
    if isinstance(printed, list):
        printed = dict(zip(columns, printed, strict=True))
    published = {heading: value for heading, value in printed.items() if value is not None}
    cells = tuple(_cells(row, file, columns))
    return replace(row, cells=cells, published=published, source=row.source or file.source)


def _cells(row: Row, file: _Table, columns: Mapping[str, Column]) -> Iterator[Cell]:
    if row.kind not in ("train", "evaluate"):
        return
    given = (*file.shared.get(row.kind, ()), *row.overrides)
    for setting in product(*([f"{key}={value}" for value in values] for key, values in row.best_of.items())):
        first, choice = (*given, *setting), " ".join(setting)
        if not row.parts:
            headings = (heading for heading, column in columns.items() if column.of_a_run)
            yield Cell(row.kind, first, tuple(headings), row.not_runnable, choice=choice)
        for heading, part in row.parts.items():
            part = _Part(part) if isinstance(part, list) else part
            overrides = () if part.not_runnable else (*first, *part.overrides)
            reason = part.not_runnable or row.not_runnable
            yield Cell(row.kind, overrides, (heading,), reason, tuple(part.seeds), choice)


@dataclass(frozen=True)
class Scale:
    """One reduced setting; a table made in it is no reproduction.

    The overrides of `train` and `evaluate` rows follow the rows' own; without `seeds`, those of the table
    hold.
    """

    name: str
    title: str
    train: list[str] = field(default_factory=list)
    evaluate: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)


def scales(conf: Path | None = None) -> list[str]:
    """The names of the reduced settings, sorted."""
    return sorted(path.stem for path in ((conf or presets.folder()) / "scale").glob("*.yaml"))


def load_scale(name: str, conf: Path | None = None) -> Scale:
    """The reduced setting of a name of `scales`; ConfigError as `load`."""
    _refuse_unknown("--scale: no reduced setting", name, scales(conf))
    where = f"scale/{name}.yaml"
    return checked(Scale, (conf or presets.folder()) / where, where, name)


def changes(override: str) -> bool:
    """Whether an override makes a run differ from the paper's; a folder is a copy of the model of the row."""
    key, _, value = override.lstrip("+~").partition("=")
    if key in ("backbone.name", "model"):
        return not expanded(value.strip("'\"")).is_dir()
    return key != "dataset.path" and decides(key) == "what"  # data sets declare their options themselves
