"""A data set by one word: `stsb`, `sts12`, `stsb_dev`."""

import inspect
import re
from typing import Any

from embedrun import family
from embedrun.config import nearest

_YEARS = tuple(f"sts{year}" for year in range(12, 17))
_SPLIT = re.compile(r"(.+)_(train|dev|test)")


def words() -> list[str]:
    """Every data set that needs no options, and the five years of `sts`."""
    names = family.names("dataset")
    return sorted([*(name for name in names if not _required(name)), *_YEARS])


def data_set(word: str) -> Any:
    """The data set with its default options.

    Raises:
        ValueError: if there is none of that name, or it needs options; with the names that there are.
    """
    if word in _YEARS:
        return family.find("dataset", "sts")(year=int(word[3:]))
    if word not in family.names("dataset"):
        known = words()
        raise ValueError(f"no data set {word!r}{nearest(word, known)} (there are: {', '.join(known)})")
    if lacking := _required(word):
        raise ValueError(
            f"the data set {word!r} needs options ({', '.join(lacking)}), so its name is not enough; "
            f"'embedrun check dataset={word} dataset.{lacking[0]}=...' says what it shares with the tests"
        )
    return family.find("dataset", word)()


def data_split(word: str, split: str) -> tuple[Any, str]:
    """A data set and one of its splits.

    Args:
        word: of the data set, with `_train`, `_dev` or `_test` behind it for another split than `split`.
        split: which, if the word does not say so.

    Raises:
        ValueError: as `data_set`, or if the data set has no such split.
    """
    found = _SPLIT.fullmatch(word)
    name, split = (found[1], found[2]) if found else (word, split)
    dataset = data_set(name)
    if split not in dataset.splits:
        raise ValueError(f"{name} has no {split} split (it has: {', '.join(dataset.splits)})")
    return dataset, split


def _required(name: str) -> list[str]:
    """The options of a data set that have no default."""
    parameters = inspect.signature(family.find("dataset", name)).parameters.values()
    return [one.name for one in parameters if one.default is inspect.Parameter.empty]
