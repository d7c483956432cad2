"""What an option decides of a run, as its declaration says."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeGuard, get_args

from embedrun.config.options import DECIDES, AnnotateConfig, EvaluateConfig, GenerateConfig, TrainConfig
from embedrun.files import Plain

COMMANDS = (TrainConfig, EvaluateConfig, AnnotateConfig, GenerateConfig)  # those with runs
_ORDER = tuple(DECIDES)  # the most decisive first
_MOST = _ORDER[0]

Place = tuple[str, ...]  # a dotted name, taken apart


def decides(option: str) -> str:
    """One of the words of `DECIDES`; of a group, the most decisive of its options.

    `option` is a dotted name, such as `training.resume`, or a group, such as `gpu`. What no class declares
    counts as the most decisive: options of data sets, loss terms and tasks, and those of another version.
    """
    path = tuple(option.split("."))
    inside = [
        word for other, word in _known().items() if len(other) > len(path) and other[: len(path)] == path
    ]
    return min(inside, key=_ORDER.index, default=_known().get(path, _MOST))


def decisive(config: Plain, least: str = "where") -> Plain:
    """The part of a configuration, of any command, that decides at least as much as a word of `DECIDES`."""
    kept = dict(_kept(config, _ORDER[: _ORDER.index(least) + 1], ()))
    training = kept.get("training")
    if isinstance(training, Mapping) and _selects_as_before(training.get("dev"), config.get("dataset")):
        kept["training"] = {key: value for key, value in training.items() if key != "dev"}
    return _with_lengths_as_before(kept)


def scored_as_trained(plain: Plain) -> bool:
    """Whether a configuration is of before `evaluation.max_length`: its run scores at the training length."""
    own = plain.get("evaluation")
    return isinstance(own, Mapping) and "max_length" not in own


def _with_lengths_as_before(config: dict[str, Any]) -> dict[str, Any]:
    """The same without `evaluation.max_length` where it means what held before that option.

    That was the length of training; an evaluation has `max_length`, which is short for it.
    """
    evaluation, backbone = config.get("evaluation"), config.get("backbone")
    if not isinstance(evaluation, Mapping) or scored_as_trained(config):
        return config
    given = evaluation["max_length"]
    if isinstance(backbone, Mapping) and given != backbone.get("max_length"):
        return config
    rest = {key: value for key, value in evaluation.items() if key != "max_length"}
    short = {} if isinstance(backbone, Mapping) or given is None else {"max_length": given}
    return config | {"evaluation": rest} | short


def _selects_as_before(rule: object, dataset: object) -> bool:
    """Whether `training.dev` means what held before that option: the own dev split, else that of STS-B."""
    return rule == ("stsb" if is_own(dataset) and not has_split(dataset, "dev") else "auto")


def is_own(dataset: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether the options of a data set are those of one that reads a user's own rows."""
    return isinstance(dataset, Mapping) and dataset.get("name") in _OWN_ROWS


def has_split(dataset: Mapping[str, Any], split: str) -> bool:
    """Whether the options of such a data set, which need not be valid, give it a dev or test split."""
    parts = (dataset.get("splits"), dataset.get("split"))
    return dataset.get(split) is not None or any(split in part for part in parts if isinstance(part, Mapping))


def _kept(config: Plain, words: tuple[str, ...], group: Place) -> Plain:
    known = _known()
    later = _LATER.get(group, {}) if group != ("dataset",) or is_own(config) else {}
    if group == ("dataset",) and config.get("name") == "pairs":  # triplets and texts have always had it
        later = {**later, "pair_columns": None}
    return {
        key: _kept(value, words, (*group, key)) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if known.get((*group, key), _MOST) in words and not (key in later and value == later[key])
    }


_OWN_ROWS = ("pairs", "triplets", "texts")
# Options that groups, and data sets of a user's own rows, were given after runs had begun, with what held
# before: there they decide nothing, and a run of then is still the run of now.
_LATER: Mapping[Place, Plain] = {
    (): {"layers": None},  # of an evaluation
    ("backbone",): {"layers": None},
    ("dataset",): {
        "separator": None,
        "config": None,
        "revision": None,
        "splits": None,
        "split": None,
        "split_by": "group",
        "split_seed": 42,
        "score_range": None,
    },
}


@cache
def _known() -> dict[Place, str]:
    return {path: word for command in COMMANDS for path, word in declared(command)}


def declared(schema: type, group: Place = (), above: str = _MOST) -> Iterator[tuple[Place, str]]:
    """Every option and group of a class, and what it says that it decides.

    `group` is the one that the class describes, empty for a whole command, and `above` what that group says
    of itself; none of its options decides more.
    """
    for item in fields(schema):
        path, word = (*group, item.name), max(above, item.metadata["decides"], key=_ORDER.index)
        yield path, word
        for part in (item.type, *get_args(item.type)):
            if isinstance(part, type) and is_dataclass(part):
                yield from declared(part, path, word)
