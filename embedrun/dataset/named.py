"""A data set by one word, why its splits cannot be read, and which presets need it."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from embedrun import family
from embedrun.config import REQUIRED, nearest, presets
from embedrun.dataset import DataSet, files_of, graded
from embedrun.files import Plain
from embedrun.store import Store
from embedrun.store.catalogue import Catalogue

# Words of our own for data sets that one class reads: its name and the options.
_MEMBERS: dict[str, tuple[str, Plain]] = {
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
    names = [name for name in family.names("dataset") if name not in families and _is_complete(name)]
    return sorted([*names, *_MEMBERS])


def data_set(word: str) -> DataSet:
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


def data_split(word: str, split: str) -> tuple[DataSet, str]:
    """A data set and the split that its word names, such as `stsb_dev`, else `split`.

    Of a data set that is not divided it is `train`.

    Raises:
        ValueError: as `data_set`, or if the data set has no such split.
    """
    found = _SPLIT.fullmatch(word)
    name, split = (found[1], found[2]) if found else (word, "train" if word in _UNDIVIDED else split)
    dataset = data_set(name)
    if split not in dataset.splits:
        raise ValueError(f"{name} has no {split} split (it has: {', '.join(dataset.splits)})")
    return dataset, split


def _is_complete(name: str) -> bool:
    """Whether a data set's name is enough, and the package that it is of can be loaded."""
    try:
        return not _required(name)
    except family.Unloadable:
        return False


def _required(name: str) -> list[str]:
    """The options of a data set that have no default."""
    parameters = inspect.signature(family.find("dataset", name)).parameters.values()
    return [one.name for one in parameters if one.default is inspect.Parameter.empty]


def unreadable(splits: Sequence[tuple[DataSet, str]], store: Store) -> list[str]:
    """Why these splits cannot be read, without reading them; missing store files in one line."""
    files, others = [], []
    for dataset, split in splits:
        own = files_of(dataset, split, store)
        files += own
        others += [] if own else dataset.problems(split, store)
    return list(dict.fromkeys([*others, *store.missing(files)]))


_GROUPS = ("dataset", "evaluation")
_FALLBACK = "stsb"  # whose dev split selects where the data set has none


def presets_by_data_set(store: Store, catalogue: Catalogue, conf: Path | None = None) -> dict[str, list[str]]:
    """The presets that train on a data set, are selected by it or score it, by data set; both sorted.

    `store` decides for data sets that read one file if it exists, else another. `conf` is the preset folder,
    None for ours.
    """
    root = conf or presets.folder()
    found: dict[str, set[str]] = {}
    for path in sorted((root / "experiment").rglob("*.yaml")):
        preset = path.relative_to(root / "experiment").with_suffix("").as_posix()
        choices, own = _experiment(root, f"experiment/{preset}")
        chosen = {group: presets.whole(root, f"{group}/{choices[group]}") for group in _GROUPS}
        options = {group: presets.merged(chosen[group], own.get(group)) for group in _GROUPS}
        needed = _training(options["dataset"], store, catalogue)
        needed |= {word for word in _words(options["evaluation"]) if word in catalogue.data_sets}
        for name in needed:
            found.setdefault(name, set()).add(preset)
    return {name: sorted(found[name]) for name in sorted(found)}


def _experiment(root: Path, name: str) -> tuple[dict[str, str], Plain]:
    """The choice of each group, and the options that a preset and those that it builds on set themselves."""
    preset = presets.read(root, name)
    choices = presets.read(root, "train").choices
    own: Plain = {}
    for parent in preset.parents:
        before, options = _experiment(root, parent)
        choices |= before
        own = presets.merged(own, options)
    return choices | preset.choices, presets.merged(own, preset.options)


def _training(options: Plain, store: Store, catalogue: Catalogue) -> set[str]:
    """The data sets of the training rows and of the rows that select the checkpoint."""
    given = {key: value for key, value in options.items() if key not in ("name", "prompts", "defaults")}
    if REQUIRED in given.values():
        return set()  # the user's own files
    dataset: DataSet = family.find("dataset", options["name"])(**given)
    selects = graded(dataset, "dev")
    splits = [
        split for split in ("train", "dev") if split in dataset.splits and (split == "train" or selects)
    ]
    files = [file for split in splits for file in files_of(dataset, split, store)]
    names = {catalogue.data_set_of(file) for file in files} - {None}
    return {str(name) for name in names} | (set() if selects else {_FALLBACK})


def _words(data: object) -> Iterator[str]:
    """Every text in nested lists and mappings, keys among them."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            yield from _words(value)
    elif isinstance(data, list):
        for value in data:
            yield from _words(value)
