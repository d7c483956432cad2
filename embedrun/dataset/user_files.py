"""A user's own files or shards, by a map of columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args

from embedrun.config.check import nearest
from embedrun.errors import DataError
from embedrun.rows import Skipped
from embedrun.store import Table, kind, read_table
from embedrun.store.columns import LineFaults, Rule, convert, shortened

OnBadRow = Literal["refuse", "skip"]


def check_columns(
    owner: str, option: str, columns: Mapping[str, str], required: Sequence[str], targets: Sequence[str] = ()
) -> None:
    """Refuse a column map that cannot be meant: an unknown or absent name, or a column that is used twice.

    Of `targets` at least one must be there. `columns` maps our name to the file's name; `owner`, the class,
    and `option`, that of the map, are for the message.

    Raises:
        ValueError: with the fault.
    """
    known = (*required, *targets)
    one_of = f" and {' or '.join(targets)}" if targets else ""
    for name in columns:
        if name not in known:
            hint = nearest(str(name), known)
            raise ValueError(f"{owner}: {option} has no key {name!r}{hint} (keys: {', '.join(known)})")
    for name in required:
        if name not in columns:
            raise ValueError(f"{owner}: {option} lacks {name!r}; it needs {', '.join(required)}{one_of}")
    if targets and not any(name in columns for name in targets):
        neither = " nor ".join(targets)
        raise ValueError(f"{owner}: {option} names neither {neither}; a loss needs at least one of them")
    if len(set(columns.values())) < len(columns):
        raise ValueError(f"{owner}: {option} uses one column of the file twice: {dict(columns)}")


def check_on_bad_row(owner: str, value: str) -> None:
    """Refuse anything but `refuse` and `skip` (ValueError)."""
    if value not in get_args(OnBadRow):
        raise ValueError(f"{owner}: on_bad_row must be refuse or skip, got {value!r}")


_MAP_HINT = "; {option}={{{name}: NAME, ...}} says what the columns are called"


@dataclass(frozen=True)
class Files:
    """One split of a user's own data.

    A folder is read as one file: all its files of the one kind in it, sorted by name. Files that begin with
    `.` or `_`, and files of no kind that is read, are ignored.

    Args:
        option: that gave the path, for the messages.
        path: a file or a folder, relative to the caller's folder.
        columns: our name to the file's name.
        rules: by our name; each converts a raw value or raises ValueError.
        kinds: suffixes that the files may have.
        on_bad_row: `refuse` reports the faulty rows and reads nothing; `skip` leaves them out and lists them.
        map_option: the option that holds the column map, for the messages.
    """

    option: str
    path: Path
    columns: Mapping[str, str]
    rules: Mapping[str, Rule]
    kinds: Sequence[str]
    on_bad_row: OnBadRow
    map_option: str = "dataset.columns"

    def problems(self) -> list[str]:
        """Why there is nothing to read, found out without reading."""
        name = repr(str(self.path))
        if self.path.is_dir():
            return self._folder_problems()
        if kind(self.path) not in self.kinds:
            hint = "" if self.path.exists() else _neighbour(self.path)
            return [
                f"{self.option}: {name} must end in {self._accepted()}, or be a folder of such files{hint}"
            ]
        if not self.path.is_file():
            where = self.path.absolute().parent
            return [f"{self.option}: no file {name}{_neighbour(self.path)} (looked in {where})"]
        return []

    def shards(self) -> list[Path]:
        """The files to read, in order."""
        if not self.path.is_dir():
            return [self.path]
        files = [
            path for path in self.path.iterdir() if path.is_file() and not path.name.startswith((".", "_"))
        ]
        return sorted((path for path in files if kind(path) in self.kinds), key=lambda path: path.name)

    def read(self) -> tuple[dict[str, list[Any]], tuple[Skipped, ...]]:
        """Typed values by our name, each ``(rows,)``, shard after shard in file order; and what was left out.

        Raises:
            DataError: if a file cannot be read, no row is left, or a row is faulty and must not be: the first
                20 faults of all shards, and how many more there are.
        """
        if problems := self.problems():
            raise DataError(problems)
        values: dict[str, list[Any]] = {name: [] for name in self.columns}
        unreadable: list[str] = []
        faults: list[LineFaults] = []
        for shard in self.shards():
            try:
                table, typed = self._typed(shard)
            except DataError as fault:
                unreadable += fault.problems
                continue
            faults.append(table.faults)
            for ours, theirs in self.columns.items():
                values[ours] += typed[theirs]
        ends = [found for found in faults if self.on_bad_row == "refuse" or found.cut_short]
        if messages := [*unreadable, *(text for found in ends for text in found.messages())]:
            raise DataError(shortened(self.path, messages))
        skipped = tuple(row for found in faults for row in _skipped(found))
        if not next(iter(values.values())):
            first = next(text for found in faults for text in found.messages())
            raise DataError(f"{self.path}: all {len(skipped)} rows are faulty; {first}")
        return values, skipped

    def _typed(self, shard: Path) -> tuple[Table, dict[str, list[Any]]]:
        hint = _MAP_HINT.format(option=self.map_option, name=next(iter(self.columns)))
        table = read_table(shard, list(self.columns.values()), way_on=hint)
        rules = {theirs: self.rules[ours] for ours, theirs in self.columns.items()}
        typed = convert(table.columns, rules, table.lines, table.faults)
        bad = {fault.line for fault in table.faults.ordered()}
        kept = [row for row, line in enumerate(table.lines) if line not in bad]
        if len(kept) < len(table.lines) and self.on_bad_row == "skip":
            # A refused value leaves a gap in its own column alone; the whole rows are converted once more.
            whole = {name: [column[row] for row in kept] for name, column in table.columns.items()}
            typed = convert(whole, rules, [table.lines[row] for row in kept], table.faults)
        return table, typed

    def _folder_problems(self) -> list[str]:
        shards = self.shards()
        name = repr(str(self.path))
        if not shards:
            return [f"{self.option}: the folder {name} holds no file that ends in {self._accepted()}"]
        kinds = sorted({str(kind(shard)) for shard in shards})
        if len(kinds) > 1:
            return [f"{self.option}: the folder {name} mixes {' and '.join(kinds)}; give files of one kind"]
        plain = [shard.name.lower().removesuffix(".gz") for shard in shards]
        twice = sorted({name for name in plain if plain.count(name) > 1})
        if twice:
            return [f"{self.option}: the folder {name} holds {', '.join(twice)} both packed and unpacked"]
        return []

    def _accepted(self) -> str:
        return f"{', '.join(self.kinds)}, those of text also with .gz"


def _skipped(faults: LineFaults) -> list[Skipped]:
    """One entry a row; further faults of the row are appended to its reason."""
    rows = []
    for line, found in groupby(faults.ordered(), key=lambda fault: fault.line):
        first, *others = found
        reason = "; ".join([first.reason, *map(str, others)])
        rows.append(Skipped(str(faults.path), line, first.column, reason))
    return rows


def _neighbour(path: Path) -> str:
    folder = path.parent
    return nearest(path.name, [entry.name for entry in folder.iterdir()]) if folder.is_dir() else ""
