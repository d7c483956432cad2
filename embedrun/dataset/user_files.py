"""A user's own files, or a data set of the hub, by a map of columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Literal

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


@dataclass(frozen=True)
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
    def from_path(self) -> tuple[str, ...]:
        """The splits that come from what `path` names."""
        named = self.split or self.splits or ("train",)
        return tuple(name for name in SPLITS if name in named)

    def problems(self, accepted: Sequence[str]) -> list[str]:
        """Why the options cannot be meant together; `accepted` are the splits that `splits` may name."""
        problems = []
        of_hub = {"config": self.config, "revision": self.revision, "splits": self.splits}
        if hub.on_hub(self.path):
            reasons = hub.problems(self.path, self.config, self.revision)
            problems += [reason.removeprefix("dataset.") for reason in reasons]
        else:
            problems += [
                f"{name}={value!r} is of a data set of the hub, and path is {self.path!r}; leave it out, or "
                f"give path={hub.PREFIX}OWNER/NAME"
                for name, value in of_hub.items()
                if value is not None
            ]
        if self.splits is not None and not {"train"} <= set(self.splits) <= set(accepted):
            problems.append(
                f"splits says the hub's split of train, and of none but {', '.join(accepted)}; got "
                f"{dict(self.splits)}"
            )
        if self.split is not None:
            problems += share_problems("split", self.split)
            if self.splits is not None:
                problems.append(f"split divides what path names; leave out splits={dict(self.splits)}")
        problems += [
            f"{name} has a file of its own, {path!r}, and is taken from path"
            for name, path in (("dev", self.dev), ("test", self.test))
            if path is not None and name in self.from_path
        ]
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            problems.append(
                f"separator must be one character, no quote or line end, such as ';' or \\t, "
                f"got {self.delimiter!r}"
            )
        return problems

    @property
    def delimiter(self) -> str | None:
        """The separator; a tab may be typed as on a command line, where nothing makes a tab of it."""
        return "\t" if self.separator == r"\t" else self.separator

    def place(self, split: str) -> Path | None:
        """The file or folder of a split; None: it is of the hub."""
        if split in self.from_path:
            return None if hub.on_hub(self.path) else expanded(self.path)
        return expanded(getattr(self, split))

    def files(self, split: str, kinds: Sequence[str]) -> list[Path]:
        """The files of a split, in order; downloaded where they are not in the hub's cache.

        Raises:
            ConfigError: if there is no such config or split of the hub.
            DataError: as `hub.files_of`.
        """
        place = self.place(split)
        if place is not None:
            return _shards(place, kinds) if place.is_dir() else [place]
        name = "train" if self.splits is None else self.splits[split]
        files = hub.files_of(self.path, config=self.config, revision=self.revision, kinds=kinds).splits
        if name not in files:
            raise ConfigError(
                f"dataset.splits: {self.path} has no split {name!r}{nearest(name, files)} "
                f"(it has: {', '.join(files)})"
            )
        return list(files[name])


def _shards(folder: Path, kinds: Sequence[str]) -> list[Path]:
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
        rules = {column: _RULES.get(name, sentence) for name, column in self.columns.items()}
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
    known = [*required, *(_RULES if form == "pair" else ())]
    default = [*required, *(["score"] if form == "pair" else [])]
    names = {name: name for name in default} if columns is None else dict(columns)
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
        train: the layout of what `path` names.
        held_out: that of dev and test files of their own.
        accepted: the splits that `splits` may name.

    Attributes:
        splits: those that there are.
        graded: those of dev and test, whose rows have, or are given, a score.
        views: of the training rows.

    Raises:
        ValueError: for options that cannot be meant together, with all faults.
    """

    name: str
    kinds: Sequence[str] = KINDS

    def __init__(
        self, train: Layout, held_out: Layout, source: Source, accepted: Sequence[str] = SPLITS
    ) -> None:
        self._train, self._held_out, self._source = train, held_out, source
        problems = source.problems(accepted)
        has_file = {"dev": source.dev is not None, "test": source.test is not None}
        self.splits = tuple(name for name in SPLITS if name in source.from_path or has_file.get(name))
        self.graded = tuple(name for name in self.splits if name != "train")
        self.views = tuple(train.views)
        for name in self.graded:
            used = self._layout(name)
            if not is_ranked(used.form, used.targets):
                problems.append(
                    f"{used.option} names no score or label, which {name} would be scored by; name it there, "
                    f"or in pair_columns for a file of its own, or leave {name} out"
                )
        if problems:
            raise ValueError("; ".join(f"{type(self).__name__}: {problem}" for problem in problems))
        self._divided: dict[str | None, dict[str, np.ndarray]] = {}  # rows by split, of what was read last

    def _layout(self, split: str) -> Layout:
        return self._train if split in self._source.from_path else self._held_out

    def _kinds(self, split: str) -> Sequence[str]:
        return self.kinds if self._layout(split) is self._train else KINDS

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read; of the hub nothing is known before."""
        if split not in self.splits:
            return [f"dataset.{split}: no file given; pass dataset.{split}=FILE"]
        place, kinds = self._source.place(split), self._kinds(split)
        if place is None:
            return []
        option = "dataset.path" if split in self._source.from_path else f"dataset.{split}"
        accepted = f"{', '.join(kinds)}, those of text also with .gz"
        if place.is_dir():
            there = sorted({str(kind(shard)) for shard in _shards(place, kinds)})
            if len(there) == 1:
                return []
            held = f"mixes {' and '.join(there)}" if there else f"holds no file that ends in {accepted}"
            return [f"{option}: the folder {str(place)!r} {held}; give files of one kind"]
        if kind(place) not in kinds:
            return [f"{option}: {str(place)!r} must end in {accepted}, or be a folder of such files"]
        if not place.is_file():
            where = place.absolute().parent
            return [f"{option}: no file {str(place)!r}{neighbour(place)} (looked in {where})"]
        return []

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
        is_divided = source.split is not None and split in source.from_path
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
            "separator": source.delimiter,
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
                for raw, numbers in blocks(
                    file, list(rules), faults, separator=self._source.delimiter, hint=hint
                ):
                    typed = convert(raw, rules, numbers, faults)
                    texts = {view: typed[layout.columns[name]] for view, name in layout.views.items()}
                    targets = {
                        name: np.array(typed[layout.columns[name]], _DTYPES[name]) for name in layout.targets
                    }
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
