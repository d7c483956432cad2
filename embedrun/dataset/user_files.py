"""A user's own files or shards, by a map of columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from embedrun.config.check import nearest
from embedrun.dataset.prepared import Part, prepared
from embedrun.dataset.source import OnHub
from embedrun.errors import DataError
from embedrun.rows import Rows, Skipped
from embedrun.store import kind
from embedrun.store.columns import LineFaults, Rule, convert, shortened
from embedrun.store.read import MOST_FAULTS, blocks, sha256

OnBadRow = Literal["refuse", "skip"]


def check_columns(
    owner: str, option: str, columns: Mapping[str, str], required: Sequence[str], targets: Sequence[str] = ()
) -> None:
    """Refuse a column map that cannot be meant: an unknown or absent name, or a column that is used twice.

    `columns` maps our name to the file's name; `targets` may be there; `owner`, the class, and `option`, that
    of the map, are for the message.

    Raises:
        ValueError: with the fault.
    """
    known = (*required, *targets)
    for name in columns:
        if name not in known:
            hint = nearest(str(name), known)
            raise ValueError(f"{owner}: {option} has no key {name!r}{hint} (keys: {', '.join(known)})")
    for name in required:
        if name not in columns:
            raise ValueError(f"{owner}: {option} lacks {name!r}; it needs {', '.join(required)}")
    if len(set(columns.values())) < len(columns):
        raise ValueError(f"{owner}: {option} uses one column of the file twice: {dict(columns)}")


def check_on_bad_row(owner: str, value: str) -> None:
    """Refuse anything but `refuse` and `skip` (ValueError)."""
    if value not in get_args(OnBadRow):
        raise ValueError(f"{owner}: on_bad_row must be refuse or skip, got {value!r}")


_TAB = r"\t"  # as it is typed on a command line, where nothing makes a tab of it


def checked_separator(owner: str, value: str | None) -> str | None:
    """The mark between fields; refuses anything but one character, a quote or a line end (ValueError)."""
    if value == _TAB:
        return "\t"
    if value is not None and (not isinstance(value, str) or len(value) != 1 or value in '"\r\n'):
        raise ValueError(
            f"{owner}: separator must be one character, no quote or line end, such as ';' or '|', \\t for a "
            f"tab, or null for a tab in .tsv and a comma in .csv, got {value!r}"
        )
    return value


@dataclass(frozen=True)
class Files:
    """One split of a user's own data.

    A folder is read as one file: all its files of the one kind in it, sorted by name. Files that begin with
    `.` or `_`, and files of no kind that is read, are ignored.

    Args:
        option: that gave the path, for the messages.
        place: a file or a folder, relative to the caller's folder, or a split of a data set of the hub.
        columns: our name to the file's name.
        rules: by our name; each converts a raw value or raises ValueError.
        kinds: suffixes that the files may have.
        on_bad_row: `refuse` reports the faulty rows and reads nothing; `skip` leaves them out and lists them.
        map_option: the option that holds the column map, for the messages.
        separator: of the fields of TSV or CSV; None for a tab or a comma.
        score_range: what `rules` take for a score; None: any finite number.
    """

    option: str
    place: Path | OnHub
    columns: Mapping[str, str]
    rules: Mapping[str, Rule]
    kinds: Sequence[str]
    on_bad_row: OnBadRow
    map_option: str = "dataset.columns"
    separator: str | None = None
    score_range: tuple[float, float] | None = None

    def problems(self) -> list[str]:
        """Why there is nothing to read, found out without reading; of the hub nothing is known before."""
        if isinstance(self.place, OnHub):
            return []
        name = repr(str(self.place))
        if self.place.is_dir():
            return self._folder_problems(self.place)
        if kind(self.place) not in self.kinds:
            hint = "" if self.place.exists() else _neighbour(self.place)
            return [
                f"{self.option}: {name} must end in {self._accepted()}, or be a folder of such files{hint}"
            ]
        if not self.place.is_file():
            where = self.place.absolute().parent
            return [f"{self.option}: no file {name}{_neighbour(self.place)} (looked in {where})"]
        return []

    def shards(self) -> list[Path]:
        """The files to read, in order; raises as `OnHub.shards`."""
        if isinstance(self.place, OnHub):
            return self.place.shards(self.kinds)
        return self._shards_in(self.place) if self.place.is_dir() else [self.place]

    def _shards_in(self, folder: Path) -> list[Path]:
        files = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith((".", "_"))]
        return sorted((path for path in files if kind(path) in self.kinds), key=lambda path: path.name)

    def read(self, rows: Rows, views: Mapping[str, str]) -> Rows:
        """The rows, shard after shard in file order, and what was left out; kept, and mapped from the disk.

        Args:
            rows: name, split and form; the targets empty, of their types.
            views: our name of the text of each view.

        Raises:
            DataError: if a file cannot be read, no row is left, or a row is faulty and must not be: the first
                20 faults of all shards, and how many more there are.
        """
        if problems := self.problems():
            raise DataError(problems)
        shards = self.shards()

        key = {
            "columns": dict(self.columns),
            "views": dict(views),
            "on_bad_row": self.on_bad_row,
            "separator": self.separator,
            "files": [[kind(shard), shard.suffix.lower() == ".gz", sha256(shard)] for shard in shards],
        }
        if self.score_range is not None:  # what was kept before there was such an option stays in use
            key["score_range"] = list(self.score_range)
        faults: list[LineFaults] = []
        return prepared(
            replace(rows, texts={view: [] for view in views}),
            key,
            lambda: self._parts(shards, views, rows.targets, faults),
            lambda: [row for faulty in faults for row in _skipped(faulty)],
            [str(shard) for shard in shards],
            str(self.place),
        )

    def _parts(
        self,
        shards: Sequence[Path],
        views: Mapping[str, str],
        targets: Mapping[str, np.ndarray],
        faults: list[LineFaults],
    ) -> Iterator[Part]:
        """Whole rows, typed; `faults` gets those of each shard, which are raised when all is read."""
        unreadable: list[str] = []
        rows = 0
        for shard in shards:
            faults.append(LineFaults(shard))
            try:
                for values in self._typed(shard, faults[-1]):
                    texts = {view: values[column] for view, column in views.items()}
                    numbers = {name: np.array(values[name], empty.dtype) for name, empty in targets.items()}
                    rows += len(next(iter(texts.values())))
                    yield Part(texts, numbers)
            except DataError as fault:
                faults.pop()
                unreadable += fault.problems
        faulty = [text for one in faults for text in one.messages()]
        if messages := [*unreadable, *(faulty if self.on_bad_row == "refuse" else ())]:
            raise DataError(shortened(self.place, messages))
        if not rows:
            count = sum(len(_skipped(one)) for one in faults)
            raise DataError(f"{self.place}: all {count} rows are faulty; {faulty[0]}")

    def _typed(self, shard: Path, faults: LineFaults) -> Iterator[dict[str, list]]:
        """The values of the rows without a fault, by our names; none of a block that is refused."""
        rules = {theirs: self.rules[ours] for ours, theirs in self.columns.items()}
        hint = (
            f"; {self.map_option}={{{next(iter(self.columns))}: NAME, ...}} says what the columns are called"
        )
        for block in blocks(shard, list(rules), faults, separator=self.separator, ask=True, hint=hint):
            before = len(faults)
            typed = convert(block.columns, rules, block.rows, faults)
            if len(faults) > before and self.on_bad_row == "skip":
                # A refused value leaves a gap in its own column alone: convert the whole rows once more.
                bad = faults.rows(before)
                kept = [place for place, row in enumerate(block.rows) if row not in bad]
                whole = {name: [column[place] for place in kept] for name, column in block.columns.items()}
                typed = convert(whole, rules, [block.rows[place] for place in kept], faults)
            if len(faults) == before or self.on_bad_row == "skip":
                yield {ours: typed[theirs] for ours, theirs in self.columns.items()}
            elif len(faults) >= MOST_FAULTS:
                return

    def _folder_problems(self, folder: Path) -> list[str]:
        shards = self._shards_in(folder)
        name = repr(str(folder))
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
    for row, group in groupby(faults.ordered(), key=lambda fault: fault.row):
        first, *others = group
        reason = "; ".join([first.reason, *map(str, others)])
        rows.append(Skipped(str(faults.path), row, first.column, reason))
    return rows


def _neighbour(path: Path) -> str:
    folder = path.parent
    return nearest(path.name, [entry.name for entry in folder.iterdir()]) if folder.is_dir() else ""
