"""From a file of conf/table to a table, with every fault of the file reported together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from embedrun.config import nearest
from embedrun.config.options import option
from embedrun.errors import ConfigError
from embedrun.table.checked_file import checked
from embedrun.table.preset import SPEEDS, Cell, Column, Figure, Kind, Row, Statistics, Table

_COLUMN = (
    "a key of results.json, {mean: [A, B]}, {difference: [A, B]}, "
    f"{{speed: {' or '.join(SPEEDS)}}}, {{statistic: true}} or {{printed: true}}"
)


@dataclass
class _Figure:
    x: str = option(unit="what the x of a row is")
    y: str = option(unit="key in results.json")
    best: float | None = option(None, unit="x of the printed optimum")
    line: str | None = option(None, unit="what the line of a row is")
    best_line: float | None = option(None, unit="line of the optimum")


@dataclass
class _Statistics:
    command: str = option(unit="that writes the file")
    file: str = option(unit="JSON below its output folder")


@dataclass
class _Shared:
    train: list[str] | None = option(None, unit="overrides")
    evaluate: list[str] | None = option(None, unit="overrides")


@dataclass
class _Row:
    label: str = option(unit="as printed")
    group: str = option("", unit="printed heading above")
    kind: Kind = option("train", unit="of row")
    overrides: list[str] | None = option(None, unit="Hydra's")
    parts: dict[str, Any] | None = option(None, unit="overrides by heading")
    published: Any = option(None, unit="numbers, in the order of the columns or by heading")
    source: str | None = option(None, unit="of the numbers; null: that of the table")
    note: str = option("", unit="what is doubtful")
    unspecified: list[str] | None = option(None, unit="what is left open; here what was chosen")
    x: float | None = option(None, unit="of a figure")
    line: float | None = option(None, unit="of a figure with several")
    keys: dict[str, Any] | None = option(None, unit="paths by heading")
    not_runnable: str | None = option(None, unit="reason")


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
    figure: _Figure | None = option(None, unit="axes")
    statistics: _Statistics | None = option(None, unit="source")


def read(path: Path, name: str) -> Table:
    """The table of a file.

    Args:
        path: of the file.
        name: of the table.

    Raises:
        ConfigError: with every fault.
    """
    where = f"table/{name}.yaml"
    file, problems = checked(_Table, path, where, shared={})
    table = None if file is None else _Reader(name, file, problems).table()
    if problems or table is None:
        raise ConfigError([f"{where}: {problem}" for problem in problems])
    return table


class _Reader:
    """What the types alone do not say; faults are added to `problems`."""

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
            f"rows: {one!r} stands there twice" for one in sorted({*ids}) if ids.count(one) > 1
        ]
        if (file.kind == "figure") != (file.figure is not None):
            self._problems.append("figure: the axes go with kind: figure, and with no other")
        return Table(
            name=self._name,
            title=file.title,
            paper=file.paper,
            source=file.source,
            kind=file.kind,
            columns=tuple(self._columns.values()),
            rows=rows,
            seeds=tuple(file.seeds or (42,)),
            tolerance=file.tolerance,
            note=file.note,
            unspecified=tuple(file.unspecified or ()),
            figure=None if file.figure is None else Figure(**vars(file.figure)),
            statistics=None if file.statistics is None else Statistics(**vars(file.statistics)),
        )

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
        runs = row.kind in ("train", "evaluate")
        if runs:
            cells = tuple(self._cells(row, path))
        else:
            cells = ()
            for name in ("overrides", "parts", "not_runnable"):
                if getattr(row, name) is not None:
                    self._problems.append(f"{path}.{name}: is of rows that are runs, and this is {row.kind}")
        self._fits(row, path)
        return Row(
            label=row.label,
            group=row.group,
            kind=row.kind,
            cells=cells,
            published=self._published(row.published, f"{path}.published"),
            source=row.source or self._file.source,
            note=row.note,
            unspecified=tuple(row.unspecified or ()),
            x=row.x,
            line=row.line,
            keys=self._keys(row.keys or {}, f"{path}.keys"),
            not_runnable=row.not_runnable,
        )

    def _fits(self, row: _Row, path: str) -> None:
        """Whether the row has what its kind and the table ask for, and nothing else."""
        figure = self._file.figure
        if (row.kind == "statistics") != (row.keys is not None):
            self._problems.append(f"{path}.keys: are of rows of kind statistics, all of which have them")
        if row.kind == "statistics" and self._file.statistics is None:
            self._problems.append(f"{path}.kind: statistics need the command and the file of `statistics`")
        if (figure is not None) != (row.x is not None):
            self._problems.append(f"{path}.x: is of the rows of a figure, all of which have it")
        if (figure is not None and figure.line is not None) != (row.line is not None):
            self._problems.append(f"{path}.line: is of the rows of a figure with several lines")

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
                case [*overrides] if all(isinstance(one, str) for one in overrides):
                    yield Cell(command, (*first, *overrides), (heading,), row.not_runnable)
                case _:
                    self._problems.append(
                        f"{where}: expected a list of overrides or {{not_runnable: reason}}, got {part!r}"
                    )

    def _published(self, given: Any, path: str) -> dict[str, float | str]:
        if isinstance(given, list):
            if len(given) != len(self._columns):
                self._problems.append(f"{path}: {len(given)} numbers for {len(self._columns)} columns")
                return {}
            given = dict(zip(self._columns, given, strict=True))
        elif not isinstance(given, Mapping | None):
            self._problems.append(f"{path}: expected numbers in the order of the columns, got {given!r}")
            return {}
        found = {}
        for heading, value in (given or {}).items():
            if value is None or not self._known(path, heading):
                continue
            kind = str if self._columns[heading].printed else int | float
            if isinstance(value, bool) or not isinstance(value, kind):
                wanted = "text" if kind is str else "a number"
                self._problems.append(f"{path}.{heading}: expected {wanted}, got {value!r}")
                continue
            found[heading] = value
        return found

    def _keys(self, given: Mapping[str, Any], path: str) -> dict[str, tuple[str, ...]]:
        self._known(path, *given)
        return {
            heading: tuple(where) if isinstance(where, list) else (str(where),)
            for heading, where in given.items()
        }

    def _known(self, path: str, *headings: Any) -> bool:
        """Whether these are columns; a fault is noted for each that is not."""
        wrong = [heading for heading in headings if heading not in self._columns]
        for heading in wrong:
            near = nearest(str(heading), self._columns)
            self._problems.append(
                f"{path}: no column {heading!r}{near} (there are: {', '.join(self._columns)})"
            )
        return not wrong
