"""A user's own files, or a data set of the hub, by a map of columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from embedrun.config.check import nearest
from embedrun.dataset.prepared import prepared
from embedrun.dataset.split import SPLITS, By, divide, is_ranked, ranked, share_problems
from embedrun.errors import ConfigError, DataError
from embedrun.files import expanded
from embedrun.rows import Rows, Skipped, views_of_form
from embedrun.store import KINDS, Store, hub, kind
from embedrun.store.columns import LineFaults, Rule, convert, label, score, sentence, shortened
from embedrun.store.read import MOST_FAULTS, blocks, neighbour

OnBadRow = Literal["refuse", "skip"]
_RULES: dict[str, Rule] = {"score": score, "label": label}  # every other column is a text
_DTYPES = {"score": np.float64, "label": np.int64}


@dataclass(frozen=True, kw_only=True)
class Source:
    """The options that say where rows come from and how they are divided, as :class:`Pairs` explains them."""

    path: str
    dev: str | None
    test: str | None
    separator: str | None
    on_bad_row: OnBadRow
    config: str | None
    revision: str | None
    splits: Mapping[str, str] | None
    split: Mapping[str, float] | None = None
    split_by: By = "group"
    split_seed: int = 42

    @property
    def of_path(self) -> tuple[str, ...]:
        """The splits that come from what `path` names."""
        named = self.split or self.splits or ("train",)
        return tuple(name for name in SPLITS if name in named)

    def faults(self, takes: Sequence[str]) -> list[str]:
        """Why the options cannot be meant together; `takes` are the splits that `splits` may name."""
        faults = self._of_hub(takes) if hub.on_hub(self.path) else self._of_files()
        if self.split is not None:
            faults += share_problems("split", self.split)
            if self.splits is not None:
                faults.append(f"split divides what path names; leave out splits={dict(self.splits)}")
        faults += [
            f"{name} has a file of its own, {path!r}, and is taken from path"
            for name, path in (("dev", self.dev), ("test", self.test))
            if path is not None and name in self.of_path
        ]
        for name, choices in (("split_by", By), ("on_bad_row", OnBadRow)):
            if getattr(self, name) not in get_args(choices):
                accepted = " or ".join(get_args(choices))
                faults.append(f"{name} must be {accepted}, got {getattr(self, name)!r}")
        mark = self.mark
        if mark is not None and (not isinstance(mark, str) or len(mark) != 1 or mark in '"\r\n'):
            faults.append(
                f"separator must be one character, no quote or line end, such as ';' or \\t, got {mark!r}"
            )
        return faults

    def _of_hub(self, takes: Sequence[str]) -> list[str]:
        faults = [
            text.removeprefix("dataset.") for text in hub.problems(self.path, self.config, self.revision)
        ]
        if self.splits is not None and not {"train"} <= set(self.splits) <= set(takes):
            faults.append(
                f"splits says the hub's split of train, and of none but {', '.join(takes)}; got "
                f"{dict(self.splits)}"
            )
        return faults

    def _of_files(self) -> list[str]:
        given = {"config": self.config, "revision": self.revision, "splits": self.splits}
        faults = [
            f"{name}={value!r} is of a data set of the hub, and path is {self.path!r}; leave it out, or "
            f"give path={hub.PREFIX}OWNER/NAME"
            for name, value in given.items()
            if value is not None
        ]
        if "://" in self.path:
            faults.append(
                f"path: only files of this machine and {hub.PREFIX}OWNER/NAME are read, got {self.path!r}"
            )
        return faults

    @property
    def mark(self) -> str | None:
        """Between fields; a tab may be typed as on a command line, where nothing makes a tab of it."""
        return "\t" if self.separator == r"\t" else self.separator

    def place(self, split: str) -> Path | None:
        """The file or folder of a split; None: it is of the hub."""
        if split in self.of_path:
            return None if hub.on_hub(self.path) else expanded(self.path)
        return expanded(getattr(self, split))

    def files(self, split: str, kinds: Sequence[str]) -> list[Path]:
        """The files of a split, in order; downloaded where they are not in the hub's cache.

        Raises:
            ConfigError: if there is no such config or split of the hub, or its files are of another kind.
            DataError: as `hub.files_of`.
        """
        place = self.place(split)
        if place is not None:
            return _in_folder(place, kinds) if place.is_dir() else [place]
        theirs = "train" if self.splits is None else self.splits[split]
        splits = _of_hub(self.path, self.config, self.revision).splits
        if theirs not in splits:
            raise ConfigError(
                f"dataset.splits: {self.path} has no split {theirs!r}{nearest(theirs, splits)} "
                f"(it has: {', '.join(splits)})"
            )
        unread = [file.name for file in splits[theirs] if kind(file) not in kinds]
        if unread:
            raise ConfigError(f"dataset.path: {self.path} holds {unread[0]}; expected {', '.join(kinds)}")
        return list(splits[theirs])


@cache
def _of_hub(path: str, config: str | None, revision: str | None) -> hub.HubFiles:
    return hub.files_of(path, config=config, revision=revision)


def _in_folder(folder: Path, kinds: Sequence[str]) -> list[Path]:
    """The shards of a folder by name: files of those kinds that do not begin with `.` or `_`."""
    files = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith((".", "_"))]
    return sorted((path for path in files if kind(path) in kinds), key=lambda path: path.name)


@dataclass(frozen=True)
class Layout:
    """What the records of a file are.

    Args:
        form: of the rows.
        columns: our name to the file's name.
        option: that holds the map, for the messages.
        score_range: the lowest and the highest score; None: any.
    """

    form: str
    columns: Mapping[str, str]
    option: str
    score_range: tuple[float, float] | None = None

    @property
    def views(self) -> Mapping[str, str]:
        """Our name of the text of each view."""
        return views_of_form(self.form, self.columns)

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns beside the texts."""
        return tuple(name for name in _RULES if name in self.columns)

    @property
    def rules(self) -> dict[str, Rule]:
        """The rule of each column, by the file's name."""
        rules = {theirs: _RULES.get(ours, sentence) for ours, theirs in self.columns.items()}
        if self.score_range is not None and "score" in self.columns:
            low, high = self.score_range
            rules[self.columns["score"]] = partial(score, low=low, high=high)
        return rules


def layout(owner: str, option: str, form: str, columns: Mapping[str, str] | None) -> Layout:
    """The layout of a map of columns; None for our own names, of pairs with `score`.

    Raises:
        ValueError: for a map that cannot be meant: an unknown or absent name, or a column that is used twice.
    """
    try:
        required = list(views_of_form(form, columns or ()).values())
    except ValueError as fault:
        raise ValueError(f"{owner}: {option} {fault}") from None
    optional = list(_RULES) if form == "pair" else []
    names = {name: name for name in [*required, *optional[:1]]} if columns is None else dict(columns)
    known = [*required, *optional]
    if not set(required) <= set(names) <= set(known) or len(set(names.values())) < len(names):
        hint = "".join(nearest(str(name), known) for name in names if name not in known)
        raise ValueError(
            f"{owner}: {option} must name one column for each of {', '.join(required)}, none twice, and for "
            f"nothing but {', '.join(known)}; got {names}{hint}"
        )
    return Layout(form, names, option)


class OfUser:
    """What pairs, texts and triplets of a user share.

    Args:
        own: the layout of what `path` names.
        held_out: that of dev and test files of their own.
        takes: the splits that `splits` may name.

    Attributes:
        splits: those that there are.
        graded: those of dev and test, whose rows have, or are given, a score.
        views: of the training rows.

    Raises:
        ValueError: for options that cannot be meant together, with all faults.
    """

    name: str
    kinds: Sequence[str] = KINDS

    def __init__(self, own: Layout, held_out: Layout, source: Source, takes: Sequence[str] = SPLITS) -> None:
        self._own, self._held_out, self._source = own, held_out, source
        files = {"dev": source.dev, "test": source.test}
        faults = source.faults(takes)
        self.splits = tuple(name for name in SPLITS if name in source.of_path or files.get(name) is not None)
        self.graded = tuple(name for name in self.splits if name != "train")
        self.views = tuple(own.views)
        for name in self.graded:
            used = self._layout(name)
            if not is_ranked(used.form, used.targets):
                faults.append(
                    f"{used.option} names no score or label, which {name} would be scored by; name it there, "
                    f"or in pair_columns for a file of its own, or leave {name} out"
                )
        if faults:
            raise ValueError("; ".join(f"{type(self).__name__}: {fault}" for fault in faults))
        self._divided: dict[str | None, dict[str, np.ndarray]] = {}  # rows by split, of what was read last

    def _layout(self, split: str) -> Layout:
        return self._own if split in self._source.of_path else self._held_out

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read; of the hub nothing is known before."""
        if split not in self.splits:
            return [f"dataset.{split}: no file given; pass dataset.{split}=FILE"]
        place = self._source.place(split)
        if place is None:
            return []
        option = "dataset.path" if split in self._source.of_path else f"dataset.{split}"
        kinds = self._kinds(split)
        accepted = f"{', '.join(kinds)}, those of text also with .gz"
        if place.is_dir():
            found = sorted({str(kind(shard)) for shard in _in_folder(place, kinds)})
            if len(found) == 1:
                return []
            held = f"mixes {' and '.join(found)}" if found else f"holds no file that ends in {accepted}"
            return [f"{option}: the folder {str(place)!r} {held}; give files of one kind"]
        if kind(place) not in kinds:
            return [f"{option}: {str(place)!r} must end in {accepted}, or be a folder of such files"]
        if not place.is_file():
            where = place.absolute().parent
            return [f"{option}: no file {str(place)!r}{neighbour(place)} (looked in {where})"]
        return []

    def _kinds(self, split: str) -> Sequence[str]:
        return self.kinds if self._layout(split) is self._own else KINDS

    def read(self, split: str, store: Store) -> Rows:
        """The rows of the split, in file order; those that are held out are `ranked`.

        Raises:
            DataError: if a file cannot be read, no row is left, one file cannot be divided as asked, or a row
                is faulty and must not be: the first 20 faults, and how many more there are.
            ConfigError: if the data set of the hub has no such config or split.
        """
        if split not in self.splits:
            raise ValueError(f"{self.name}: no split {split!r}; give dataset.{split}=FILE")
        if problems := self.problems(split, store):
            raise DataError(problems)
        source, layout = self._source, self._layout(split)
        is_divided = source.split is not None and split in source.of_path
        rows = Rows(
            name=self.name,
            split="train" if is_divided else split,
            form=layout.form,
            texts={view: [] for view in layout.views},
            targets={target: np.array([], _DTYPES[target]) for target in layout.targets},
        )
        files = source.files(split, self._kinds(split))
        key = {
            "rows": [rows.name, rows.split, rows.form],
            "columns": dict(layout.columns),
            "score_range": layout.score_range,
            "on_bad_row": source.on_bad_row,
            "separator": source.mark,
        }
        what = str(source.place(split) or source.path)
        rows = prepared(files, key, lambda: self._parts(files, rows, layout, what), what=what)
        if is_divided:
            rows = self._part(rows, split)
        return ranked(rows) if split in self.graded else rows

    def _parts(self, files: Sequence[Path], empty: Rows, layout: Layout, what: str) -> Iterator[Rows]:
        """Typed rows block by block; faulty ones are raised when all is read, or come with the last part."""
        refuses, rules = self._source.on_bad_row == "refuse", layout.rules
        hint = (
            f"; dataset.{layout.option}={{{next(iter(layout.columns))}: NAME, ...}} says how they are called"
        )
        messages: list[str] = []
        skipped: list[Skipped] = []
        count = 0
        for file in files:
            faults = LineFaults(file)
            try:
                for raw, numbers in blocks(file, list(rules), faults, separator=self._source.mark, hint=hint):
                    typed = convert(raw, rules, numbers, faults)
                    columns = {ours: typed[theirs] for ours, theirs in layout.columns.items()}
                    texts = {view: columns[column] for view, column in layout.views.items()}
                    targets = {name: np.array(columns[name], _DTYPES[name]) for name in layout.targets}
                    count += len(next(iter(texts.values())))
                    yield replace(empty, texts=texts, targets=targets)
                    if refuses and len(faults) >= MOST_FAULTS:
                        break
            except DataError as fault:
                messages += fault.problems
            else:
                messages += faults.messages() if refuses else []
                skipped += _skipped(faults)
        if messages:
            raise DataError(shortened(what, messages))
        if not count:
            first = skipped[0]
            raise DataError(f"{what}: all {len(skipped)} rows are faulty; row {first.row}: {first.reason}")
        yield replace(empty, skipped=tuple(skipped))

    def _part(self, whole: Rows, split: str) -> Rows:
        """One split of a file that is divided."""
        source = self._source
        if whole.kept not in self._divided:
            _, places = whole.distinct(list(whole.texts))
            index = np.stack(list(places.values()), axis=1)  # (rows, views)
            self._divided = {
                whole.kept: divide(index, source.split or {}, source.split_seed, by=source.split_by)
            }
        return replace(whole.part(self._divided[whole.kept][split]), split=split)


def _skipped(faults: LineFaults) -> list[Skipped]:
    """One entry a row; further faults of the row are appended to its reason."""
    rows = []
    for row, group in groupby(faults.ordered(), key=lambda fault: fault.row):
        first, *others = group
        reason = "; ".join([first.reason, *map(str, others)])
        rows.append(Skipped(str(faults.path), row, first.column, reason))
    return rows
