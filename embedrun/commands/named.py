"""A data set by one word: `stsb`, `sts12`, `trec`, `stsb_dev`."""

import inspect
import re
from typing import Any

from embedrun import family
from embedrun.config import nearest

# Words of our own for data sets that one class reads: its name and the options.
_MEMBERS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"sts{year}": ("sts", {"year": year}) for year in range(12, 17)},
    **{task: ("senteval", {"task": task}) for task in ("mr", "cr", "subj", "mpqa", "sst2", "trec")},
    **{name: ("captions", {"set": name}) for name in ("flickr30k", "flickr8k", "mscoco")},
    "flickr30k_entities": ("captions", {"set": "flickr30k", "split_of": "entities"}),
}
# Sets of SentEval without a split: all rows are `train`, and are scored by cross-validation.
_UNDIVIDED = ("mr", "cr", "subj", "mpqa")
_SPLIT = re.compile(r"(.+)_(train|dev|test)")


def words() -> list[str]:
    """Every data set that needs no options, and the members of `sts`, `senteval` and `captions`."""
    families = {name for name, _ in _MEMBERS.values()}
    names = [name for name in family.names("dataset") if name not in families and not _required(name)]
    return sorted([*names, *_MEMBERS])


def data_set(word: str) -> Any:
    """The data set with its default options.

    Raises:
        ValueError: if there is none of that name, or it needs options; with the names that there are.
    """
    if word in _MEMBERS:
        name, options = _MEMBERS[word]
        return family.find("dataset", name)(**options)
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
        split: which, if the word does not say so; of a set that has no division its only one.

    Raises:
        ValueError: as `data_set`, or if the data set has no such split.
    """
    found = _SPLIT.fullmatch(word)
    name, split = (found[1], found[2]) if found else (word, "train" if word in _UNDIVIDED else split)
    dataset = data_set(name)
    if split not in dataset.splits:
        raise ValueError(f"{name} has no {split} split (it has: {', '.join(dataset.splits)})")
    return dataset, split


def _required(name: str) -> list[str]:
    """The options of a data set that have no default."""
    parameters = inspect.signature(family.find("dataset", name)).parameters.values()
    return [one.name for one in parameters if one.default is inspect.Parameter.empty]
