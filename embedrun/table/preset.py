"""What a file of conf/table says: a printed table or figure, row by row, and the runs that measure it again.

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
    published: [86.00]                  # in the order of the columns, null for nothing; or by heading
    keys: {Train: [path, path]}         # statistics: where in the file; several are added up
    x: 10                               # of a figure, and `line` where it has several
    not_runnable: why this cannot be measured
```

A row of kind `train` trains a model. One of kind `evaluate` scores a model that is there: a published one, or
`model=run:NAME`, the finished run of the experiment NAME. `quoted` rows are printed as the paper quotes them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from embedrun.config import presets
from embedrun.config.check import nearest
from embedrun.errors import ConfigError
from embedrun.table.identity import RUN

SPEEDS = ("peak_memory_gb", "minutes_per_1000_steps")

Kind = Literal["train", "evaluate", "quoted", "statistics"]


@dataclass(frozen=True)
class Column:
    """One column; one of the fields behind the heading says where its numbers are from.

    Args:
        heading: as printed.
        key: in `results.json`.
        mean: headings of the columns whose mean it is.
        difference: headings of two columns; the second is subtracted from the first.
        speed: one of `SPEEDS`.
        statistic: whether the file of statistics has it.
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


@dataclass(frozen=True)
class Cell:
    """One run of a row, for each seed.

    Args:
        command: `train` or `evaluate`.
        overrides: all of them, those that rows share first.
        headings: of the columns that it fills.
        not_runnable: why it cannot be run; else None.
    """

    command: Literal["train", "evaluate"]
    overrides: tuple[str, ...]
    headings: tuple[str, ...]
    not_runnable: str | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """Experiments of whose finished runs one has to be there: the names behind `run:` in overrides.

        What an experiment itself starts from, as `backbone.name: run:raoe_s1_bert`, is not among them.
        """
        values = (override.partition("=")[2] for override in self.overrides)
        return tuple(value.removeprefix(RUN) for value in values if value.startswith(RUN))


@dataclass(frozen=True)
class Row:
    """One printed row.

    Args:
        label: as printed, without marks.
        group: the printed heading above it; empty for none.
        kind: of row.
        cells: its runs; none where the row is quoted or of statistics.
        published: number, or fact in words, by heading; only of what is printed.
        source: of the numbers.
        note: what is doubtful; empty for nothing.
        unspecified: what the paper leaves open about this row, and what was chosen.
        x: of a figure.
        line: of a figure with several.
        keys: paths in the file of statistics by heading, as `splits/train/positive`; several are added up.
        not_runnable: why the whole row cannot be measured; else None.
    """

    label: str
    group: str
    kind: Kind
    cells: tuple[Cell, ...]
    published: dict[str, float | str]
    source: str
    note: str
    unspecified: tuple[str, ...]
    x: float | None
    line: float | None
    keys: dict[str, tuple[str, ...]]
    not_runnable: str | None

    @property
    def id(self) -> str:
        """What tells it from the other rows: group and label."""
        return f"{self.group}/{self.label}" if self.group else self.label


@dataclass(frozen=True)
class Figure:
    """The axes of a curve.

    Args:
        x: what the `x` of the rows is, in words.
        y: key in `results.json`.
        best: x of the paper's optimum; None where it is not printed.
        line: what the `line` of the rows is, in words; None for a single curve.
        best_line: line of the optimum.
    """

    x: str
    y: str
    best: float | None = None
    line: str | None = None
    best_line: float | None = None


@dataclass(frozen=True)
class Statistics:
    """Where the numbers of `statistics` rows come from.

    Args:
        command: that writes the file.
        file: JSON, below the output folder of the command.
    """

    command: str
    file: str


@dataclass(frozen=True)
class Table:
    """One printed table or figure, or one set of statistics.

    Args:
        name: as `angle/table4`.
        title: what the caption says, in short.
        paper: whose, in one word, as `angle`.
        source: paper and table.
        kind: `table`, `figure` or `statistics`.
        columns: in printed order.
        rows: in printed order.
        seeds: of the runs.
        tolerance: points off that count as reproduced.
        note: what is doubtful; empty for nothing.
        unspecified: what the paper leaves open about all rows, and what was chosen.
        figure: axes; None for no figure.
        statistics: where they come from; None where no row has any.
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
            ConfigError: if there is none, with the nearest.
        """
        if found := [row for row in self.rows if words in (row.id, row.label)]:
            return found
        ids = [row.id for row in self.rows]
        near = nearest(words, [*ids, *(row.label for row in self.rows)])
        raise ConfigError(f"table {self.name}: no row {words!r}{near} (there are: {', '.join(ids)})")


def names(conf: Path | None = None) -> list[str]:
    """Every table, figure and set of statistics, as `angle/table4`, sorted.

    Args:
        conf: the preset folder; None for ours.
    """
    root = (conf or presets.folder()) / "table"
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml"))


def load(name: str, conf: Path | None = None) -> Table:
    """The table of a name, checked.

    Args:
        name: as `names` has it.
        conf: the preset folder; None for ours.

    Raises:
        ConfigError: if there is none of that name, or with every fault of its file.
    """
    from embedrun.table.file import read

    known = names(conf)
    if name not in known:
        raise ConfigError(f"table: no table {name!r}{nearest(name, known)} (there are: {', '.join(known)})")
    return read((conf or presets.folder()) / "table" / f"{name}.yaml", name)
