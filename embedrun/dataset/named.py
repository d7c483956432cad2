"""A data set by one word, and why its splits cannot be read."""

import inspect
import re
from collections.abc import Sequence

from embedrun import family
from embedrun.config import nearest
from embedrun.dataset import DataSet, files_of
from embedrun.files import Plain
from embedrun.store import Store

# Words of our own for data sets that one class reads: its name and the options.
_MEMBERS: dict[str, tuple[str, Plain]] = {
    **{f"sts{year}": ("sts", {"year": year}) for year in range(12, 17)},
    **{task: ("senteval", {"task": task}) for task in ("mr", "cr", "subj", "mpqa", "sst2", "trec")},
    **{name: ("captions", {"set": name}) for name in ("flickr30k", "flickr8k", "mscoco")},
    "nli_three_way": ("nli", {"labels": ["entailment", "neutral", "contradiction"]}),
    "flickr30k_entities": ("captions", {"set": "flickr30k", "split_of": "entities"}),
}
# Sets of SentEval without a split: all rows are `train`, and are scored by cross-validation.
_UNDIVIDED = ("mr", "cr", "subj", "mpqa")
_SPLIT = re.compile(r"(.+)_(train|dev|test)")


def words() -> list[str]:
    """Every data set that needs no options, and the members of others, such as `sts12` and `mr`."""
    names = set(family.names("dataset")) - {"captions"}  # its members have names
    return sorted([*filter(_is_complete, names), *_MEMBERS])


def data_set(word: str) -> DataSet:
    """The data set with its default options; a ValueError if there is none of that name, or it needs some."""
    name, options = _MEMBERS.get(word, (word, {}))
    if name not in family.names("dataset"):
        known = words()
        raise ValueError(f"no data set {word!r}{nearest(word, known)} (there are: {', '.join(known)})")
    if name == word and (needed := _required(word)):
        raise ValueError(
            f"the data set {word!r} needs options ({', '.join(needed)}), so its name is not enough; "
            f"'embedrun check dataset={word} dataset.{needed[0]}=...' says what it shares with the tests"
        )
    return family.find("dataset", name)(**options)


def data_split(word: str, split: str) -> tuple[DataSet, str]:
    """A data set and the split that its word names, such as `stsb_dev`, else `split`, or its only one."""
    match = _SPLIT.fullmatch(word)
    name, split = (match[1], match[2]) if match else (word, "train" if word in _UNDIVIDED else split)
    dataset = data_set(name)
    if split not in dataset.splits:
        raise ValueError(f"{name} has no {split} split (it has: {', '.join(dataset.splits)})")
    return dataset, split


def _is_complete(name: str) -> bool:
    try:
        return not _required(name)
    except family.Unloadable:
        return False


def _required(name: str) -> list[str]:
    parameters = inspect.signature(family.find("dataset", name)).parameters.values()
    return [item.name for item in parameters if item.default is inspect.Parameter.empty]


def unreadable(splits: Sequence[tuple[DataSet, str]], store: Store) -> list[str]:
    """Why these splits cannot be read, without reading them; missing store files in one line."""
    files, problems = [], []
    for dataset, split in splits:
        names = files_of(dataset, split, store)
        files += names
        problems += [] if names else dataset.problems(split, store)
    return list(dict.fromkeys([*problems, *store.missing(files)]))
