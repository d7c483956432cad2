"""A user's own pairs, texts and triplets, from files or a data set of the hub, by a map of columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np

from embedrun.config.check import nearest
from embedrun.config.scale import range_problem
from embedrun.dataset.column_names import NamedColumns, recognised
from embedrun.dataset.masking import masking_of, with_masking
from embedrun.dataset.prepared import prepared
from embedrun.dataset.split import SPLITS, By, divide, is_ranked, ranked, share_problems
from embedrun.errors import ConfigError, DataError
from embedrun.files import expanded
from embedrun.rows import Rows, Skipped, views_of_form
from embedrun.store import KINDS, TEXT, Store, hub, kind
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

    @property
    def held_out_files(self) -> dict[str, str]:
        """The file of each split that has one of its own."""
        return {name: file for name, file in {"dev": self.dev, "test": self.test}.items() if file is not None}

    @property
    def delimiter(self) -> str | None:
        """The separator; a tab may be typed as on a command line, where nothing makes a tab of it."""
        return "\t" if self.separator == r"\t" else self.separator

    def problems(self, accepted: Sequence[str]) -> list[str]:
        """Why the options cannot be meant together; `accepted` are the splits that `splits` may name."""
        problems = [*self._hub_problems(), *self._split_problems(accepted)]
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            problems.append(f"separator must be one character, such as ';' or \\t, got {self.delimiter!r}")
        return problems

    def _hub_problems(self) -> list[str]:
        if hub.on_hub(self.path):
            reasons = hub.problems(self.path, self.config, self.revision)
            return [reason.removeprefix("dataset.") for reason in reasons]
        of_hub = {"config": self.config, "revision": self.revision, "splits": self.splits}
        return [
            f"{name}={value!r} is of a data set of the hub, and path is {self.path!r}; leave it out, or give "
            f"path={hub.PREFIX}OWNER/NAME"
            for name, value in of_hub.items()
            if value is not None
        ]

    def _split_problems(self, accepted: Sequence[str]) -> list[str]:
        problems = [] if self.split is None else share_problems("split", self.split)
        if self.splits is not None and not {"train"} <= set(self.splits) <= set(accepted):
            problems.append(
                f"splits names train, and none but {', '.join(accepted)}; got {dict(self.splits)}"
            )
        if self.splits is not None and self.split is not None:
            problems.append(f"split divides what path names; leave out splits={dict(self.splits)}")
        return problems + [
            f"{name} has a file of its own, {self.held_out_files[name]!r}, and is taken from path"
            for name in self.held_out_files
            if name in self.from_path
        ]

    def place(self, split: str) -> Path | None:
        """The file or folder of a split; None: it is of the hub."""
        if split in self.from_path:
            return None if hub.on_hub(self.path) else expanded(self.path)
        return expanded(self.held_out_files[split])

    def files(self, split: str, kinds: Sequence[str]) -> list[Path]:
        """The files of a split, in order; downloaded where they are not in the hub's cache."""
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
    files = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith((".", "_"))]
    return sorted((path for path in files if kind(path) in kinds), key=lambda path: path.name)


@dataclass(frozen=True)
class Layout:
    """What the records of a file are: `columns` is our name to the file's, the map of the option `option`."""

    form: str
    columns: Mapping[str, str]
    option: str
    score_range: tuple[float, float] | None = None  # the lowest and the highest score; None: any

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
        low, high = self.score_range or (-np.inf, np.inf)
        rules = {**_RULES, "score": partial(score, low=low, high=high)}
        return {column: rules.get(name, sentence) for name, column in self.columns.items()}


def layout(owner: str, option: str, form: str, columns: Mapping[str, str] | None) -> Layout:
    """The layout of a map of columns; None for our own names, of pairs with `score`."""
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


def columns_of(
    source: Source, columns: Mapping[str, str] | None, required: Sequence[str], optional: Sequence[str] = ()
) -> NamedColumns:
    """The map of columns of what `path` names: the user's, else by their usual names, else ours."""
    if columns is not None:
        return NamedColumns(columns)
    place = source.place("train")
    first = next(iter(_shards(place, KINDS)), None) if place is not None and place.is_dir() else place
    usual = NamedColumns({name: name for name in [*required, *optional]})
    return recognised(first, required, optional) or usual


class OfUser:
    """What the kinds of rows of a user share.

    `train` is the layout of what `path` names, `held_out` that of dev and test files of their own; `accepted`
    are the splits that `splits` may name.
    """

    name: str
    kinds: Sequence[str] = KINDS

    def __init__(
        self,
        train: Layout,
        held_out: Layout,
        source: Source,
        accepted: Sequence[str] = SPLITS,
        *,
        said: str = "",
    ) -> None:
        self._source, self.said = source, said
        self.splits = tuple(name for name in SPLITS if name in (*source.from_path, *source.held_out_files))
        self.graded = tuple(name for name in self.splits if name != "train")
        self.views = tuple(train.views)
        self._layouts = {name: train if name in source.from_path else held_out for name in self.splits}
        self._kinds = {name: self.kinds if self._layouts[name] is train else KINDS for name in self.splits}
        problems = source.problems(accepted)
        problems += [
            f"{used.option} names no score or label, which {name} would be scored by; name it there, "
            f"or in pair_columns for a file of its own, or leave {name} out"
            for name, used in self._layouts.items()
            if name in self.graded and not is_ranked(used.form, used.targets)
        ]
        if problems:
            raise ValueError("; ".join(f"{type(self).__name__}: {problem}" for problem in problems))

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read; of the hub nothing is known before."""
        if split not in self.splits:
            return [f"dataset.{split}: no file given; pass dataset.{split}=FILE"]
        place, kinds = self._source.place(split), self._kinds[split]
        if place is None or (place.is_dir() and _shards(place, kinds)):
            return []
        option = "dataset.path" if split in self._source.from_path else f"dataset.{split}"
        if place.is_dir() or kind(place) not in kinds:
            accepted = f"{', '.join(kinds)}, those of text also with .gz"
            return [f"{option}: {str(place)!r} must end in {accepted}, or be a folder of such files"]
        where = place.absolute().parent
        missing = f"{option}: no file {str(place)!r}{neighbour(place)} (looked in {where})"
        return [] if place.is_file() else [missing]

    def read(self, split: str, store: Store) -> Rows:
        """The rows of the split, in file order; those that are held out are `ranked`."""
        if split not in self.splits:
            raise ValueError(f"{self.name}: no split {split!r}; give dataset.{split}=FILE")
        if problems := self.problems(split, store):
            raise DataError(problems)
        source, layout = self._source, self._layouts[split]
        read_as = "train" if source.split and split in source.from_path else split
        rows = replace(self.of_columns(layout, {}), split=read_as)
        files = source.files(split, self._kinds[split])
        key = {
            "rows": [rows.name, rows.split, rows.form],
            "columns": dict(layout.columns),
            "score_range": layout.score_range,
            "on_bad_row": source.on_bad_row,
            "separator": source.delimiter,
        }
        what = str(source.place(split) or source.path)
        rows = prepared(files, key, lambda: self._parts(files, rows, layout, what), what=what)
        if source.split is not None and split in source.from_path:
            parts = divide(rows.index(), source.split, source.split_seed, by=source.split_by)
            rows = replace(rows.part(parts[split]), split=split)
        return ranked(rows) if split in self.graded else rows

    def checked(self, raw: Mapping[str, Sequence[object]], layout: Layout) -> Mapping[str, Sequence[object]]:
        """The raw columns, with a `Fault` in place of what does not fit what stands beside it."""
        return raw

    def of_columns(self, layout: Layout, columns: Mapping[str, list[Any]]) -> Rows:
        """Rows of typed columns, by our names; without columns no rows."""
        return Rows(
            name=self.name,
            split="train",
            form=layout.form,
            texts={view: columns.get(name, []) for view, name in layout.views.items()},
            targets={name: np.array(columns.get(name, []), _DTYPES[name]) for name in layout.targets},
        )

    def _parts(self, files: Sequence[Path], empty: Rows, layout: Layout, what: str) -> Iterator[Rows]:
        """Typed rows block by block; faulty ones are raised when all is read, or come with the last part."""
        refuses, rules, columns = self._source.on_bad_row == "refuse", layout.rules, layout.columns
        hint = f"; dataset.{layout.option}={{{next(iter(columns))}: NAME, ...}} says how they are called"
        messages: list[str] = []
        skipped: list[Skipped] = []
        count = 0
        for file in files:
            faults = LineFaults(file)
            read = blocks(file, list(rules), faults, separator=self._source.delimiter, hint=hint)
            try:
                for raw, numbers in read:
                    typed = convert(self.checked(raw, layout), rules, numbers, faults)
                    part = self.of_columns(layout, {name: typed[file] for name, file in columns.items()})
                    count += len(part)
                    yield replace(part, split=empty.split)
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


def _skipped(faults: LineFaults) -> list[Skipped]:
    rows = []
    for row, group in groupby(faults.ordered(), key=lambda fault: fault.row):
        first, *others = group
        reason = "; ".join([first.reason, *map(str, others)])
        rows.append(Skipped(str(faults.path), row, first.column, reason))
    return rows


class Pairs(OfUser):
    """Sentence pairs with a score, an NLI label, both, or neither: then each is a text and its positive.

    Every row is held against these rules:

    - `text1`, `text2`: not empty.
    - `score`: a finite number on any scale, or on that of `score_range`; higher is more similar.
    - `label`: 0 entailment, 1 neutral, 2 contradiction. Where there is no score, dev and test are ranked by
      it: 1, 0.5 and 0.

    Args:
        path: training file: `.tsv` (header, no quoting), `.csv` (header, RFC 4180 quoting), `.jsonl` (an
            object a line), each UTF-8 and also with `.gz`, or `.parquet`; a folder of such shards, sorted by
            name; or a data set of the hub, `hf://datasets/OWNER/NAME`.
        dev: file or folder of the dev split; null for none.
        test: file or folder of the test split; null for none.
        columns: our name to the file's name; null for `text1`, `text2` and `score` under these names. It
            gives the targets: a target that it leaves out is not read.
        pair_columns: the same for files of their own in dev and test; null for that of `columns`.
        score_range: `[low, high]`, the scale of the scores, such as `[1,5]`: a score outside is a faulty row,
            and a loss that takes pairs for positives by their score takes the upper quarter. null: not known.
        separator: of fields of `.csv` and `.tsv`, `\\t` for a tab; null for a comma and a tab.
        on_bad_row: `refuse`, or `skip`, which leaves faulty rows out and lists them in `Rows.skipped`.
        config: of the data set of the hub; null for its default one.
        revision: commit, branch or tag there; null for the newest. The commit is noted in the run.
        splits: maps our names of splits to the hub's; null for `{train: train}`.
        split: `{train: 0.9, dev: 0.05, test: 0.05}` divides what `path` names into splits, at random by
            `split_seed`. null: all of it is train.
        split_by: `group` keeps rows together that share a text, directly or through others; `row` does not.
        split_seed: not the seed of the run, so that runs of several seeds have the same rows.
    """

    name = "pairs"
    form = "pair"

    def __init__(
        self,
        *,
        path: str,
        dev: str | None = None,
        test: str | None = None,
        columns: dict[str, str] | None = None,
        pair_columns: dict[str, str] | None = None,
        score_range: list[float] | None = None,
        separator: str | None = None,
        on_bad_row: OnBadRow = "refuse",
        config: str | None = None,
        revision: str | None = None,
        splits: dict[str, str] | None = None,
        split: dict[str, float] | None = None,
        split_by: By = "group",
        split_seed: int = 42,
    ) -> None:
        scale = None
        source = Source(
            path, dev, test, separator, on_bad_row, config, revision, splits, split, split_by, split_seed
        )
        known = columns_of(source, columns, ("text1", "text2"), ("score",))
        train = layout("Pairs", "columns", "pair", known.columns)
        held_out = train if pair_columns is None else layout("Pairs", "pair_columns", "pair", pair_columns)
        if score_range is not None:
            if fault := range_problem(score_range):
                raise ValueError(f"Pairs: score_range: {fault}")
            if "score" not in (*train.targets, *held_out.targets):
                raise ValueError(f"Pairs: score_range={score_range} is of scores, and columns names none")
            scale = (float(score_range[0]), float(score_range[1]))
            train, held_out = (replace(item, score_range=scale) for item in (train, held_out))
        self.targets = train.targets
        self.score_range = scale
        super().__init__(train, held_out, source, said=known.said)


class Texts(OfUser):
    """One text a row, none of them empty: what unsupervised objectives train on.

    In a `.txt` file each line is a text, and a blank line is a faulty row. Dev and test splits are scored
    pairs, as `Pairs` reads them: only these can be held against an encoder.

    Args:
        path: training file or folder of shards, `.txt`, also with `.gz`, or as of `Pairs`, or a data set of
            the hub, `hf://datasets/OWNER/NAME`.
        dev: pairs with a score that select the checkpoint; null for none.
        test: pairs with a score; null for none.
        columns: our name to the file's name; null for `text` under this name. A `.txt` file has no names.
        pair_columns: the same for dev and test; null for `text1`, `text2` and `score`.
        separator: of fields of `.csv` and `.tsv`, `\\t` for a tab; null for a comma and a tab.
        on_bad_row: `refuse`, or `skip`, which leaves faulty rows out and lists them in `Rows.skipped`.
        config: of the data set of the hub; null for its default one.
        revision: commit, branch or tag there; null for the newest. The commit is noted in the run.
        splits: `{train: NAME}`, the hub's split that is trained on; null for `train`.
        masking: options of :class:`~embedrun.dataset.masking.Masking`, `{}` for its defaults: the rows have
            the views masked_once and masked_twice, and the target `maskable`. null: they have not.
    """

    name = "texts"
    form = "text"
    kinds = (TEXT, *KINDS)

    def __init__(
        self,
        *,
        path: str,
        dev: str | None = None,
        test: str | None = None,
        columns: dict[str, str] | None = None,
        pair_columns: dict[str, str] | None = None,
        separator: str | None = None,
        on_bad_row: OnBadRow = "refuse",
        config: str | None = None,
        revision: str | None = None,
        splits: dict[str, str] | None = None,
        masking: dict[str, Any] | None = None,
    ) -> None:
        self.masking = masking_of(masking)
        self.targets = () if self.masking is None else ("maskable",)
        source = Source(path, dev, test, separator, on_bad_row, config, revision, splits)
        known = columns_of(source, columns, ("text",))
        train = layout("Texts", "columns", "text", known.columns)
        held_out = layout("Texts", "pair_columns", "pair", pair_columns)
        super().__init__(train, held_out, source, accepted=("train",), said=known.said)

    def read(self, split: str, store: Store) -> Rows:
        """The rows of the split, in file order."""
        rows = super().read(split, store)
        return with_masking(rows, self.masking) if split == "train" else rows


class Triplets(OfUser):
    """A text, one that means the same or follows from it, and one that does not.

    The form that supervised SimCSE trains on (Gao et al. 2021, doi:10.18653/v1/2021.emnlp-main.552). A row
    has several hard negatives where `columns` names `negative_1` to `negative_n` in place of `negative`. No
    text may be empty. Dev and test splits are scored pairs, as `Pairs` reads them: only these can be held
    against an encoder.

    Args:
        path: training file or folder of shards, as of `Pairs`, or `hf://datasets/OWNER/NAME`.
        dev: pairs with a score that select the checkpoint; null for none.
        test: pairs with a score; null for none.
        columns: our name to the file's name; null for `anchor`, `positive` and `negative` under these names.
            The negatives of a row are `negative`, or `negative_1`, `negative_2` and so on without a gap.
        pair_columns: the same for dev and test; null for `text1`, `text2` and `score`.
        separator: of fields of `.csv` and `.tsv`, `\\t` for a tab; null for a comma and a tab.
        on_bad_row: `refuse`, or `skip`, which leaves faulty rows out and lists them in `Rows.skipped`.
        config: of the data set of the hub; null for its default one.
        revision: commit, branch or tag there; null for the newest. The commit is noted in the run.
        splits: maps our names of splits to the hub's; null for `{train: train}`. Dev and test triplets are
            scored as pairs: the anchor with its positive has score 1, with each negative 0.
        split: `{train: 0.9, dev: 0.05, test: 0.05}` divides what `path` names into splits, at random by
            `split_seed`, those that are held out scored as with `splits`. null: all of it is train.
        split_by: `group` keeps rows together that share a text, directly or through others; `row` does not.
        split_seed: not the seed of the run, so that runs of several seeds have the same rows.
    """

    name = "triplets"
    form = "triplet"
    targets = ()

    def __init__(
        self,
        *,
        path: str,
        dev: str | None = None,
        test: str | None = None,
        columns: dict[str, str] | None = None,
        pair_columns: dict[str, str] | None = None,
        separator: str | None = None,
        on_bad_row: OnBadRow = "refuse",
        config: str | None = None,
        revision: str | None = None,
        splits: dict[str, str] | None = None,
        split: dict[str, float] | None = None,
        split_by: By = "group",
        split_seed: int = 42,
    ) -> None:
        source = Source(
            path, dev, test, separator, on_bad_row, config, revision, splits, split, split_by, split_seed
        )
        known = columns_of(source, columns, ("anchor", "positive", "negative"))
        train = layout("Triplets", "columns", "triplet", known.columns)
        held_out = layout("Triplets", "pair_columns", "pair", pair_columns)
        super().__init__(train, held_out, source, said=known.said)
