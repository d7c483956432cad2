"""A user's own pairs, and what pairs, texts and triplets of a user share."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from embedrun.config.scale import range_problem
from embedrun.dataset.source import Sources
from embedrun.dataset.split import By, divide
from embedrun.dataset.user_files import Files, OnBadRow, check_columns, check_on_bad_row, checked_separator
from embedrun.rows import MappedTexts, Rows, views_of_form
from embedrun.store import KINDS, Store
from embedrun.store.columns import Rule, as_labels, as_scores, label, score, sentence

_RULES: dict[str, Rule] = {"score": score, "label": label}  # every other column is a text
_EMPTY = {"score": as_scores([]), "label": as_labels([])}


class OfUser:
    """What pairs, texts and triplets of a user share."""

    _own: "OwnRows"

    def files(self, split: str, store: Store) -> list[str]:
        """Files of the store that the split reads: none."""
        return []

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read."""
        return self._own.problems(split)

    def read(self, split: str, store: Store) -> Rows:
        """The rows of the split, in file order."""
        return self._own.read(split)


class Pairs(OfUser):
    """Sentence pairs with a score, an NLI label, both, or neither: then each is a text and its positive.

    Every row is held against the rules below. By default a file with a faulty row is refused, and the message
    names file, line, column and reason of the first 20.

    - `text1`, `text2`: not empty.
    - `score`: a finite number on any scale, or on that of `score_range`; higher is more similar.
    - `label`: 0 entailment, 1 neutral, 2 contradiction. Where there is no score, dev and test are ranked by
      it: 1, 0.5 and 0.

    Args:
        path: training file, relative to the caller's folder: `.tsv` (header, no quoting), `.csv` (header, RFC
            4180 quoting), `.jsonl` (an object a line), each UTF-8 and also with `.gz`, or `.parquet`. A
            folder is read as one file, its shards sorted by name. Or a data set of the hub,
            `hf://datasets/OWNER/NAME`.
        dev: file or folder of the dev split; null for none.
        test: file or folder of the test split; null for none.
        columns: our name to the file's name; null for `text1`, `text2` and `score` under these names. It
            gives the targets: a target that it leaves out is not read.
        pair_columns: the same for files of their own in dev and test; null for that of `columns`.
        score_range: `[low, high]`, the scale of the scores, such as `[1,5]`: a score outside is a faulty row,
            and a loss that takes pairs for positives by their score takes the upper quarter. null: not known.
        separator: between the fields of `.csv` and `.tsv`, one character, `\\t` for a tab; null for a comma
            and a tab.
        on_bad_row: `refuse`, or `skip`, which leaves faulty rows out and lists them in `Rows.skipped`.
        config: of the data set of the hub; null for its default one.
        revision: commit, branch or tag there; null for the newest. The commit is noted in the run.
        splits: our splits to the hub's; null for `{train: train}`.
        split: `{train: 0.9, dev: 0.05, test: 0.05}` divides what `path` names into splits, at random by
            `split_seed`. null: all of it is train.
        split_by: `group` keeps rows together that share a text, directly or through others; `row` does not.
        split_seed: not the seed of the run, so that runs of several seeds have the same rows.

    Raises:
        ValueError: if the map has an unknown name, lacks a text, or uses a column twice, or options cannot be
            meant together.
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
        scale = _checked(score_range, columns, pair_columns or columns)
        pairs = held_out = replace(pair_layout("Pairs", "columns", columns), score_range=scale)
        if pair_columns is not None:
            held_out = replace(pair_layout("Pairs", "pair_columns", pair_columns), score_range=scale)
        paths = {"train": path, "dev": dev, "test": test}
        source = Sources("Pairs", paths, config, revision, splits, split, split_by)
        self._own = OwnRows(self.name, source, pairs, held_out, on_bad_row, separator, split_seed)
        self.splits = self._own.splits
        self.targets = pairs.targets
        self.score_range = pairs.score_range
        self.graded = self._own.graded  # also where labels stand for scores


@dataclass(frozen=True)
class Layout:
    """What the records of a file are.

    Args:
        form: of the rows.
        columns: our name to the file's name.
        option: that holds the map, for the messages.
        kinds: suffixes that the files may have.
        score_range: the lowest and the highest score; None: any.
    """

    form: str
    columns: Mapping[str, str]
    option: str
    kinds: Sequence[str] = KINDS
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
        """The rule of each column, by our name."""
        known = _RULES
        if self.score_range is not None:
            low, high = self.score_range
            known = {**_RULES, "score": partial(score, low=low, high=high, option="dataset.score_range")}
        return {name: known.get(name, sentence) for name in self.columns}


def pair_layout(owner: str, option: str, columns: Mapping[str, str] | None) -> Layout:
    """Pairs by a map of columns; None for `text1`, `text2` and `score` under these names.

    Raises:
        ValueError: for a map that cannot be meant; `owner`, the class, and `option` are named.
    """
    names = {name: name for name in ("text1", "text2", "score")} if columns is None else dict(columns)
    check_columns(owner, option, names, ("text1", "text2"), tuple(_RULES))
    return Layout("pair", names, f"dataset.{option}")


def _checked(
    score_range: Sequence[float] | None, *columns: Mapping[str, str] | None
) -> tuple[float, float] | None:
    """The scale of the scores; refuses what is none, and one of rows without scores (ValueError)."""
    if score_range is None:
        return None
    if fault := range_problem(score_range):
        raise ValueError(f"Pairs: score_range: {fault}")
    if all(names is not None and "score" not in names for names in columns):
        raise ValueError(
            f"Pairs: score_range={score_range} is of scores, and columns names none; name the score there, "
            "or leave score_range out"
        )
    low, high = map(float, score_range)
    return low, high


def layouts(
    owner: str,
    form: str,
    columns: Mapping[str, str] | None,
    pair_columns: Mapping[str, str] | None,
    kinds: Sequence[str] = KINDS,
) -> tuple[Layout, Layout]:
    """Those of training rows without targets, and of the scored pairs that are held against an encoder.

    Raises:
        ValueError: for a map that cannot be meant, or pairs without a score.
    """
    try:
        views = views_of_form(form, columns or ())
    except ValueError as fault:
        raise ValueError(f"{owner}: columns {fault}") from None
    names = {column: column for column in views.values()} if columns is None else dict(columns)
    check_columns(owner, "columns", names, list(views.values()))
    if pair_columns is not None and "score" not in pair_columns:
        raise ValueError(f"{owner}: pair_columns lacks 'score', which dev and test are scored by")
    return Layout(form, names, "dataset.columns", kinds), pair_layout(owner, "pair_columns", pair_columns)


class OwnRows:
    """The splits of a user's data set.

    Args:
        name: of the data set, as its option `name` gives it.
        own: what `path` names has this layout.
        held_out: dev and test files of their own have this one.
        separator: of the fields of TSV or CSV.
        seed: of the splits of one file.

    Attributes:
        splits: those that there are.
        graded: those of dev and test, whose rows have, or are given, a score.
        views: of the training rows.

    Raises:
        ValueError: for options that cannot be meant.
    """

    def __init__(
        self,
        name: str,
        source: Sources,
        own: Layout,
        held_out: Layout,
        on_bad_row: OnBadRow,
        separator: str | None,
        seed: int,
    ) -> None:
        check_on_bad_row(source.owner, on_bad_row)
        self._name, self._source, self._own, self._held_out = name, source, own, held_out
        self._on_bad_row: OnBadRow = on_bad_row
        self._separator, self._seed = checked_separator(source.owner, separator), seed
        layouts = {one: self._layout(one) for one in source.names if one != "train"}
        unscored = [one for one, layout in layouts.items() if not is_ranked(layout.form, layout.targets)]
        if unscored:
            option, which = layouts[unscored[0]].option.partition(".")[2], " and ".join(unscored)
            also = "" if option != "columns" or source.is_own(unscored[0]) else " or in pair_columns"
            raise ValueError(
                f"{source.owner}: {option} names no score or label, which {which} would be scored by; "
                f"name it there{also}, or leave {which} out"
            )
        self._divided: dict[str | None, dict[str, np.ndarray]] = {}  # rows by split, of what was read last
        self.splits = source.names
        self.graded = tuple(one for one in self.splits if one != "train")
        self.views = tuple(own.views)

    def problems(self, split: str) -> list[str]:
        """Why the split cannot be read."""
        if split not in self.splits:
            return [f"dataset.{split}: no file given; pass dataset.{split}=FILE"]
        return self._files(split).problems()

    def read(self, split: str) -> Rows:
        """The rows of the split, in file order; those that are held out are `ranked`, where they can be.

        Raises:
            ValueError: if there is no such split.
            DataError: as `Files.read`, or if one file cannot be divided as asked.
            ConfigError: if the data set of the hub has no such config or split.
        """
        if split not in self.splits:
            raise ValueError(f"{self._name}: no split {split!r}; give dataset.{split}=FILE")
        divided = self._source.split is not None and self._source.is_own(split)
        layout = self._layout(split)
        rows = Rows(
            name=self._name,
            split="train" if divided else split,
            form=layout.form,
            texts={view: [] for view in layout.views},
            targets={target: _EMPTY[target] for target in layout.targets},
        )
        found = self._files(split).read(rows, layout.views)
        if divided:
            found = self._part(found, split)
        return ranked(found) if split in self.graded else found

    def _layout(self, split: str) -> Layout:
        return self._own if self._source.is_own(split) else self._held_out

    def _files(self, split: str) -> Files:
        layout, own = self._layout(split), self._source.is_own(split)
        return Files(
            option="dataset.path" if own else f"dataset.{split}",
            place=self._source.place(split),
            columns=layout.columns,
            rules=layout.rules,
            score_range=layout.score_range,
            kinds=layout.kinds,
            on_bad_row=self._on_bad_row,
            map_option=layout.option,
            separator=self._separator,
        )

    def _part(self, whole: Rows, split: str) -> Rows:
        """One split of a file that is divided."""
        shares = self._source.split or {}
        if whole.kept not in self._divided:
            _, places = whole.distinct(list(whole.texts))
            index = np.stack(list(places.values()), axis=1)  # (rows, views)
            self._divided = {whole.kept: divide(index, shares, self._seed, by=self._source.by)}
        part = whole.part(self._divided[whole.kept][split])
        return replace(part, split=split)


def is_ranked(form: str, targets: Collection[str]) -> bool:
    """Whether rows of this form with these targets can be pairs with a score."""
    return form == "triplet" or (form == "pair" and not {"score", "label"}.isdisjoint(targets))


def ranked(rows: Rows) -> Rows:
    """Rows as pairs with a score, which an encoder is held against.

    A label stands for a score of 1 (entailment), 0.5 (neutral) or 0; of a triplet the anchor with its
    positive has score 1, with each negative 0.
    """
    if rows.form == "triplet":
        return _as_pairs(rows)
    if "score" in rows.targets:
        return rows
    score = 1 - rows.targets["label"] / 2  # (rows,)
    return replace(rows, targets={"score": score, **rows.targets}, kept=None)


def _as_pairs(rows: Rows) -> Rows:
    anchor, *others = rows.texts.values()
    scores = np.zeros((len(others), len(rows)))  # (views, rows)
    scores[0] = 1
    return replace(
        rows,
        form="pair",
        texts={"left": _joined([anchor] * len(others)), "right": _joined(others)},
        targets={"score": scores.ravel()},
        kept=None,
    )


def _joined(columns: Sequence[Sequence[str]]) -> MappedTexts:
    mapped = [column for column in columns if isinstance(column, MappedTexts)]
    return MappedTexts(mapped[0].table, np.concatenate([column.table_index for column in mapped]))
