"""Several data sets in one run: their names, shares and splits; each part is read by itself."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from embedrun.dataset import DataSet, files_of, graded, roles_of, views_of
from embedrun.rows import Rows, joined
from embedrun.store import Store


@dataclass(frozen=True)
class Part:
    """One data set of a mixture: its share, and which of its splits are scored."""

    dataset: DataSet
    share: float | None = None
    evaluation: str = "all"

    def scores(self, split: str) -> bool:
        """Whether its rows of this split are scored."""
        return self.evaluation in ("all", split) and graded(self.dataset, split)


class Mix:
    r"""Several data sets, one after the other or together, each with a loss and a share.

    With `batches=one_part` every batch has rows of one part, which are compared with each other alone by the
    loss of that part. By `mixing`, an epoch of the mixture has, of the batches of an epoch of each part,

    - `proportional`: all of these, in random order.
    - `round_robin`: the parts in turn, each as often as the longest has batches, or with `ends=shortest` the
      shortest.
    - `share`: :math:`n_k \propto s_k` batches of the part with share *s*, in random order, so many that the
      part that lasts longest is seen once, or with `shortest` the one that ends first.
    - `temperature`: the same with :math:`s_k = r_k^{1/T}` of its *r* rows (Arivazhagan et al. 2019,
      arXiv:1907.05019, Sec. 4.2).

    A part that ends early starts its next epoch. Which part a batch is of is a function of seed and step.

    With `batches=mixed` every batch has rows of all parts in these proportions, the same number in every
    batch, and one loss compares them all.

    Args:
        parts: by name: `dataset`, a preset of it or its options, further options of the data set, `loss`, a
            preset or `{terms: ...}`, `share`, and `evaluation`, `all`, `dev`, `test` or `none`: which of its
            splits are scored. A part of null is left out.
        batches: `one_part` or `mixed`.
        mixing: how often each part comes; null: by `share` where a part has one, else `proportional`.
        temperature: T above, unitless, >= 1.
        ends: when an epoch is over.
    """

    name = "mix"

    def __init__(
        self,
        *,
        parts: dict[str, Any],
        batches: Literal["one_part", "mixed"] = "one_part",
        mixing: Literal["proportional", "round_robin", "share", "temperature"] | None = None,
        temperature: float = 2.0,
        ends: Literal["longest", "shortest"] = "longest",
    ) -> None:
        if not parts:
            raise ValueError("Mix: no parts; give dataset.parts.NAME={dataset: stsb, loss: angle} for each")
        if not temperature >= 1:
            raise ValueError(f"Mix: temperature must be >= 1, got {temperature}")
        self.batches, self.temperature, self.ends = batches, temperature, ends
        has_shares = any(part.get("share") is not None for part in parts.values())
        self.mixing = mixing or ("share" if has_shares else "proportional")
        self.parts: dict[str, Part] = {}

    def filled(self, parts: Mapping[str, Part]) -> "Mix":
        """The same with its parts; a ValueError where shares are no shares."""
        for name, part in parts.items():
            if part.share is not None and not 0 < part.share < math.inf:
                raise ValueError(
                    f"parts.{name}.share: must be a number above 0, got {part.share}; "
                    f"dataset.parts.{name}=null leaves the part out"
                )
            if part.share is None and self.mixing == "share":
                raise ValueError(f"parts.{name}.share: no value given, which mixing=share needs")
        self.parts = dict(parts)
        return self

    @property
    def form(self) -> str:
        """That of the first part, which all have where their rows are in one batch."""
        return next(iter(self.parts.values())).dataset.form

    @property
    def views(self) -> tuple[str, ...]:
        """Those that all parts have."""
        return _common(views_of(part.dataset) for part in self.parts.values())

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns that all parts have."""
        return _common(part.dataset.targets for part in self.parts.values())

    @property
    def splits(self) -> tuple[str, ...]:
        """`train`, and those that a part is scored on."""
        return ("train", *self.graded)

    @property
    def graded(self) -> tuple[str, ...]:
        """The splits that a part is scored on."""
        return tuple(
            split for split in ("dev", "test") if any(part.scores(split) for part in self.parts.values())
        )

    def each(self, split: str) -> dict[str, DataSet]:
        """The data sets of a split, by part: all of `train`, else those that are scored."""
        return {
            name: part.dataset for name, part in self.parts.items() if split == "train" or part.scores(split)
        }

    def files(self, split: str, store: Store) -> list[str]:
        """Those of all parts."""
        return [file for dataset in self.each(split).values() for file in files_of(dataset, split, store)]

    def problems(self, split: str, store: Store) -> list[str]:
        """Those of all parts."""
        return [text for dataset in self.each(split).values() for text in dataset.problems(split, store)]

    def read(self, split: str, store: Store) -> Rows:
        """The rows of all parts that have the split, each as a subset under the name of its part."""
        read = {name: with_roles(dataset, split, store) for name, dataset in self.each(split).items()}
        return joined({name: named(rows, name) for name, rows in read.items()})


def _common(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    first, *others = lists
    return tuple(name for name in first if all(name in other for other in others))


def with_roles(dataset: DataSet, split: str, store: Store) -> Rows:
    """The rows of a split, with what the data set says of queries and documents."""
    rows, roles = dataset.read(split, store), roles_of(dataset)
    return replace(rows, roles=roles) if roles else rows


def named(rows: Rows, part: str) -> Rows:
    """The rows under the name of their part, if it has one."""
    return replace(rows, name=part) if part else rows


def each(dataset: DataSet, split: str) -> dict[str, DataSet]:
    """The data sets behind a split, by part; of no mixture itself, under ''."""
    return dataset.each(split) if isinstance(dataset, Mix) else {"": dataset}
