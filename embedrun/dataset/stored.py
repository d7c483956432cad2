"""What data sets of the store share: a split is one file, whose columns become those of rows."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from embedrun.dataset.prepared import mapped_if_large
from embedrun.errors import DataError
from embedrun.rows import FORMS, Rows
from embedrun.store import Store
from embedrun.store.catalogue import Catalogue, StoreFile, published_problems
from embedrun.store.columns import Rule, category, score, sentence

_DTYPES = {"score": np.float64}  # of a target; the others are int64
Values = Mapping[str, tuple[str, Rule]]
BINARY: Values = {"score": ("label", partial(category, classes=2))}


class OfStore:
    """One file of the store a split, unless `files` and `read` say otherwise."""

    name: str
    form: str = "pair"
    targets: Sequence[str] = ("score",)
    splits: tuple[str, ...]
    pattern: str  # the file's name in the store, with `{name}` and `{split}` in it
    fields: Sequence[str] = ("sentence1", "sentence2")  # text columns, in the order of the views of `form`
    text: Rule = staticmethod(sentence)
    values: Values = MappingProxyType({})  # by target, its column and that one's rule
    parts: ClassVar[str] = ""  # the column that says which part of the data set a row is of, or empty
    is_whole: ClassVar[bool] = False  # only the whole published file is read, as `conf/hub.yaml` counts it
    is_kept: ClassVar[bool] = False  # the rows of a large file are kept and mapped, as by `prepared`
    place: Store | None = None  # what the option `path` names in place of the data store
    maker: ClassVar[str] = ""  # the command that writes what `path` names

    def file(self, split: str, store: Store) -> str:
        """The file of the split."""
        self.require(split)
        return self.pattern.replace("{name}", self.name).replace("{split}", split)

    def files(self, split: str, store: Store) -> list[str]:
        """The files of the split, by their names in the store; none where a path is given."""
        file = self.file(split, store)
        return [file] if self.place is None else []

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read."""
        if self.place is None:
            return store.missing(self.files(split, store))
        file = self.file(split, store)
        missing = f"dataset.path: no file {str(self.place.path(file))!r}; `{self.maker}` writes it"
        return [] if self.place.has(file) else [missing]

    def require(self, split: str) -> None:
        """Raise a ValueError for a split that is not there."""
        if split not in self.splits:
            raise ValueError(f"{self.name}: no split {split!r} (it has: {', '.join(self.splits)})")

    def read(self, split: str, store: Store) -> Rows:
        """The rows of the split, in file order."""
        file, place = self.file(split, store), self.place or store
        read = partial(self.read_file, place, file, split)
        return mapped_if_large([place.path(file)], {"data_set": self.name}, read) if self.is_kept else read()

    def read_file(self, store: Store, file: str, split: str) -> Rows:
        """The rows of one file; DataError if it is faulty, or not the whole published one where it must be."""
        rules: dict[str, Rule] = {**dict.fromkeys(self.fields, self.text), **dict(self.values.values())}
        rules |= {self.parts: sentence} if self.parts else {}
        columns = store.typed(file, rules)
        if self.is_whole:
            require_published(store, file, len(columns[self.fields[0]]), columns.get("label", ()))
        return Rows(
            name=self.name,
            split=split,
            form=self.form,
            texts={view: columns[field] for view, field in zip(FORMS[self.form], self.fields, strict=True)},
            targets={
                target: np.array(columns[column], _DTYPES.get(target, np.int64))
                for target, (column, _) in self.values.items()
            },
            subset=columns[self.parts] if self.parts else [],
        )


def scored(low: float, high: float) -> dict[str, tuple[str, Rule]]:
    """The `values` of pairs whose column `score` is a number from `low` to `high`."""
    return {"score": ("score", partial(score, low=low, high=high))}


def require_published(store: Store, file: str, rows: int, labels: Sequence[object] = ()) -> None:
    """Hold the rows and the labels, if any, of a JSON Lines file against the numbers of `conf/hub.yaml`.

    `embedrun data check` does so too, but nobody has to call it, and a part of a test set gives other scores
    under the same name: with 20 of SUBJ's 5,000 subjective sentences, as in a copy that was long in use, a
    classifier that always predicts the other class has an accuracy of 99.6.
    """
    catalogue, path = _catalogue(), store.path(file)
    known = catalogue.files.get(file, StoreFile())
    problems = published_problems(path, known, rows, {"label": labels} if labels else {}, first=1)
    if known.rows not in (None, rows):
        problems.append(
            f"{path}: a part of a data set gives other scores under the same name; fetch the whole with "
            f"`embedrun data get {catalogue.data_set_of(file)} --from DIR`"
        )
    if problems:
        raise DataError(problems)


@cache
def _catalogue() -> Catalogue:
    return Catalogue.read()
