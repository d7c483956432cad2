"""Data sets: one file each; rows in one schema, from the local store, the user's own files or a generator.

`stsb` in a configuration is the class `Stsb` in `embedrun/dataset/stsb.py`, or in a package that the user
installed with an entry point of the group `embedrun.dataset`. A module without such a class is a part of
another data set.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from embedrun.rows import FORMS, MASKED, Masked, Rows
from embedrun.store import Store


class DataSet(Protocol):
    """What a class offers to be a data set; it need not inherit from this.

    Optional are `files`, `made`, `graded`, `views`, `masking`, `score_range` and `remark`: see
    :func:`files_of`, :func:`made_by`, :func:`graded`, :func:`views_of`, :func:`has_own_scale` and
    :func:`remark_on`.
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
        """The rows of the split.

        Raises:
            DataError: if it is missing or faulty.
        """
        ...


@runtime_checkable
class _OfFiles(Protocol):
    def files(self, split: str, store: Store) -> list[str]: ...


@runtime_checkable
class _Making(Protocol):
    @property
    def made(self) -> Mapping[str, int]: ...


@runtime_checkable
class _Graded(Protocol):
    @property
    def graded(self) -> Collection[str]: ...


@runtime_checkable
class _WithViews(Protocol):
    @property
    def views(self) -> Sequence[str]: ...


@runtime_checkable
class _WithMasking(Protocol):
    @property
    def masking(self) -> Masked | None: ...


@runtime_checkable
class _OnScale(Protocol):
    @property
    def score_range(self) -> tuple[float, float] | None: ...


@runtime_checkable
class _Remarked(Protocol):
    def remark(self, store: Store) -> str: ...


def has_own_scale(dataset: DataSet) -> bool:
    """Whether its scores are on a scale of the user's, so that no threshold of a preset fits them."""
    return isinstance(dataset, _OnScale)


def score_range_of(dataset: DataSet) -> tuple[float, float] | None:
    """The scale of the scores where it is the user's; None: another's, or not said."""
    return dataset.score_range if isinstance(dataset, _OnScale) else None


def files_of(dataset: DataSet, split: str, store: Store) -> list[str]:
    """The files of the store that a split reads; none for a data set without `files`."""
    return dataset.files(split, store) if isinstance(dataset, _OfFiles) else []


def made_by(dataset: DataSet) -> Mapping[str, int]:
    """How many rows of each split a data set makes whenever it is read; empty for one that makes none."""
    return dataset.made if isinstance(dataset, _Making) else {}


def remark_on(dataset: DataSet, store: Store) -> str:
    """What a person has to know of its rows as this store has them; empty for nothing."""
    return dataset.remark(store) if isinstance(dataset, _Remarked) else ""


def graded(dataset: DataSet, split: str) -> bool:
    """Whether it has the split, and its rows are pairs with a `score`.

    The attribute `graded` names such splits where the training rows are not such pairs.
    """
    beside = dataset.graded if isinstance(dataset, _Graded) else ()
    return ("score" in dataset.targets or split in beside) and split in dataset.splits


def views_of(dataset: DataSet) -> tuple[str, ...]:
    """The views of the training rows: those of their form, and masked copies where `masking` is not None.

    The attribute `views` names them where triplets have several hard negatives.
    """
    own = dataset.views if isinstance(dataset, _WithViews) else FORMS[dataset.form]
    masking = dataset.masking if isinstance(dataset, _WithMasking) else None
    return (*own, *(MASKED if masking is not None else ()))
