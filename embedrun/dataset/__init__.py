"""Data sets: rows in one schema, from the local store, the user's own files or a generator.

`toy` in a configuration is the class `Toy` in `embedrun/dataset/toy.py`, or in a package that the user
installed with an entry point of the group `embedrun.dataset`; :mod:`embedrun.family` lists those that share a
file. A module without such a class is a part of another data set.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from embedrun.rows import FORMS, MASKED, Rows, views_of_form
from embedrun.store import Store


class DataSet(Protocol):
    """What a class offers to be a data set; it need not inherit from this.

    Optional attributes beside those of the functions below: `made`, how many rows of each split it makes
    whenever it is read; `score_range`, the scale of scores that are on one of the user's, so that no
    threshold of a preset fits them, or None where it is not said; and a method `remark(store)`, what a person
    has to know of its rows as this store has them.
    """

    @property
    def name(self) -> str:
        """The `name` of its rows."""
        ...

    @property
    def form(self) -> str:
        """Of the training rows: a key of :data:`~embedrun.rows.FORMS`."""
        ...

    @property
    def targets(self) -> Sequence[str]:
        """Columns of the training rows beside their texts."""
        ...

    @property
    def splits(self) -> Sequence[str]:
        """Those of `train`, `dev` and `test` that it has."""
        ...

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read, found out without reading it."""
        ...

    def read(self, split: str, store: Store) -> Rows:
        """The rows of the split; a DataError if it is missing or faulty."""
        ...


def files_of(dataset: DataSet, split: str, store: Store) -> list[str]:
    """The files of the store that a split reads; none for a data set without `files(split, store)`."""
    return getattr(dataset, "files", lambda split, store: [])(split, store)


def graded(dataset: DataSet, split: str) -> bool:
    """Whether its rows of the split are pairs with a `score`; the attribute `graded` names others."""
    beside: Collection[str] = getattr(dataset, "graded", ())
    return ("score" in dataset.targets or split in beside) and split in dataset.splits


def columns_of(dataset: DataSet) -> dict[str, str]:
    """Our name of the text of each view, by view: `left` is `text1` of pairs and `anchor` of triplets."""
    views = [view for view in views_of(dataset) if view not in MASKED]
    names = views_of_form(dataset.form, views)
    return {view: names[view] for view in views}


def roles_of(dataset: DataSet) -> Mapping[str, str]:
    """Which views are queries or documents, as the run or the data set itself says; others are neither."""
    return getattr(dataset, "roles", {})


def views_of(dataset: DataSet) -> tuple[str, ...]:
    """The views of the training rows: `views`, else their form's; masked copies unless `masking` is None."""
    views = getattr(dataset, "views", FORMS[dataset.form])
    return (*views, *(MASKED if getattr(dataset, "masking", None) is not None else ()))
