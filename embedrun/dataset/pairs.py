"""A user's own pairs, and the splits that pairs, texts and triplets share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from embedrun.dataset.user_files import Files, OnBadRow, check_columns, check_on_bad_row, check_separator
from embedrun.rows import FORMS, Rows, views_of_form
from embedrun.store import KINDS, Store
from embedrun.store.columns import as_labels, as_scores, label, score, sentence

_RULES = {"text1": sentence, "text2": sentence, "score": score, "label": label}
_TARGETS = ("score", "label")
_EMPTY = {"score": as_scores([]), "label": as_labels([])}


class Pairs:
    """Sentence pairs with a score, an NLI label, both, or neither: then each is a text and its positive.

    Every row is held against the rules below. By default a file with a faulty row is refused, and the message
    names file, line, column and reason of the first 20.

    - `text1`, `text2`: not empty.
    - `score`: a finite number on any scale, higher is more similar.
    - `label`: 0 entailment, 1 neutral, 2 contradiction.

    Args:
        path: training file, relative to the caller's folder: `.tsv` (header, no quoting), `.csv` (header, RFC
            4180 quoting), `.jsonl` (an object a line), each UTF-8 and also with `.gz`, or `.parquet`. A
            folder is read as one file, its shards sorted by name.
        dev: file or folder of the dev split; null for none.
        test: file or folder of the test split; null for none.
        columns: our name to the file's name, one map for all splits; null for `text1`, `text2` and `score`
            under these names. It gives the targets: a target that it leaves out is not read.
        separator: between the fields of `.csv` and `.tsv`, one character; null for a comma and a tab.
        on_bad_row: `refuse`, or `skip`, which leaves faulty rows out and lists them in `Rows.skipped`.

    Raises:
        ValueError: if the map has an unknown name, lacks a text, or uses a column twice.
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
        separator: str | None = None,
        on_bad_row: Literal["refuse", "skip"] = "refuse",
    ) -> None:
        check_on_bad_row("Pairs", on_bad_row)
        check_separator("Pairs", separator)
        given = {"train": path, "dev": dev, "test": test}
        self._files = pair_files("Pairs", "columns", given, columns, on_bad_row, separator)
        self.splits = tuple(self._files)
        self.targets = tuple(name for name in _TARGETS if name in self._files["train"].columns)

    def files(self, split: str, store: Store) -> list[str]:
        """Files of the store that the split reads: none."""
        return []

    def file(self, split: str) -> Path:
        """The user's own file or folder of a split."""
        if split not in self._files:
            raise ValueError(f"Pairs: no split {split!r}; give dataset.{split}=FILE")
        return self._files[split].path

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read."""
        return unreadable(self._files, split)

    def read(self, split: str, store: Store) -> Rows:
        """The pairs of the split, in file order."""
        self.file(split)
        return read_pairs(self.name, split, self._files[split])


def pair_files(
    owner: str,
    map_option: str,
    paths: Mapping[str, str | None],
    columns: Mapping[str, str] | None,
    on_bad_row: OnBadRow,
    separator: str | None,
) -> dict[str, Files]:
    """The files of pairs by split, for the splits that have any.

    Args:
        owner: the class, for the messages.
        map_option: its option with the column map, for the messages.
        columns: our name to the file's name; None for `text1`, `text2` and `score` under these names.

    Raises:
        ValueError: for a column map that cannot be meant.
    """
    names = {name: name for name in ("text1", "text2", "score")} if columns is None else dict(columns)
    check_columns(owner, map_option, names, ("text1", "text2"), _TARGETS)
    return {
        split: Files(
            option="dataset.path" if split == "train" else f"dataset.{split}",
            path=Path(path).expanduser(),
            columns=names,
            rules=_RULES,
            kinds=KINDS,
            on_bad_row=on_bad_row,
            map_option=f"dataset.{map_option}",
            separator=separator,
        )
        for split, path in paths.items()
        if path is not None
    }


def read_pairs(name: str, split: str, files: Files) -> Rows:
    """The pairs of one split, with the targets that the column map names; raises as `Files.read`."""
    targets = {target: _EMPTY[target] for target in _TARGETS if target in files.columns}
    rows = Rows(name=name, split=split, form="pair", texts={"left": [], "right": []}, targets=targets)
    return files.read(rows, {"left": "text1", "right": "text2"})


def unreadable(files: Mapping[str, Files], split: str) -> list[str]:
    """Why the split cannot be read."""
    if split not in files:
        return [f"dataset.{split}: no file given; pass dataset.{split}=FILE"]
    return files[split].problems()


class Splits:
    """The splits of a data set whose training rows are texts without targets.

    Args:
        name: of the data set, as its option `name` gives it.
        form: of the training rows, a key of `FORMS`; its text columns are those of the map.
        kinds: suffixes that training files may have.
        paths: file or folder by split.
        columns: our name to the file's name, of the training files; None for our own names.
        pair_columns: the same for dev and test.

    Raises:
        ValueError: for a column map that cannot be meant, or dev and test pairs without a score.
    """

    def __init__(
        self,
        *,
        name: str,
        form: str,
        kinds: Sequence[str],
        paths: Mapping[str, str | None],
        columns: Mapping[str, str] | None,
        pair_columns: Mapping[str, str] | None,
        on_bad_row: OnBadRow,
        separator: str | None,
    ) -> None:
        owner = name.capitalize()
        check_on_bad_row(owner, on_bad_row)
        check_separator(owner, separator)
        try:
            self._views = FORMS[form] if columns is None else views_of_form(form, columns)
        except ValueError as fault:
            raise ValueError(f"{owner}: columns {fault}") from None
        names = {column: column for column in self._views.values()} if columns is None else dict(columns)
        check_columns(owner, "columns", names, list(self._views.values()))
        if pair_columns is not None and "score" not in pair_columns:
            raise ValueError(f"{owner}: pair_columns lacks 'score', which dev and test are scored by")
        held_out = {split: path for split, path in paths.items() if split != "train"}
        self._name, self._form = name, form
        self._train = Files(
            option="dataset.path",
            path=Path(str(paths["train"])).expanduser(),
            columns=names,
            rules=dict.fromkeys(names, sentence),
            kinds=kinds,
            on_bad_row=on_bad_row,
            separator=separator,
        )
        pairs = pair_files(owner, "pair_columns", held_out, pair_columns, on_bad_row, separator)
        self._files = {"train": self._train, **pairs}
        self.names = tuple(self._files)

    @property
    def views(self) -> tuple[str, ...]:
        """Of the training rows."""
        return tuple(self._views)

    def problems(self, split: str) -> list[str]:
        """Why the split cannot be read."""
        return unreadable(self._files, split)

    def read(self, split: str) -> Rows:
        """The rows of the split, in file order; ValueError without such a split, else as `Files.read`."""
        if split not in self._files:
            raise ValueError(f"{self._name}: no split {split!r}; give dataset.{split}=FILE")
        if split != "train":
            return read_pairs(self._name, split, self._files[split])
        views = self._views
        rows = Rows(name=self._name, split=split, form=self._form, texts={view: [] for view in views})
        return self._train.read(rows, views)
