"""What an option decides of a run, as its declaration says."""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeGuard

from embedrun.config.mixture import is_mix, parts_of
from embedrun.config.options import COMMANDS, DECIDES, declared
from embedrun.files import Plain

_ORDER = tuple(DECIDES)  # the most decisive first
_MOST = _ORDER[0]
_USER_ROWS = ("pairs", "triplets", "texts", "ranked", "classes")
# Options that data sets of a user's own rows were given after runs had begun, with what held before: so they
# decide nothing, and a run of then is still the run of now.
_LATER = {
    "separator": None,
    "config": None,
    "revision": None,
    "splits": None,
    "split": None,
    "split_by": "group",
    "split_seed": 42,
    "score_range": None,
}


def decides(option: str) -> str:
    """One of the words of `DECIDES`; of a group, the most decisive of its options.

    `option` is a dotted name, such as `training.resume`, or a group, such as `gpu`. What no class declares
    counts as the most decisive: options of data sets, loss terms and tasks, and those of another version.
    """
    inside = [word for path, word in _known().items() if path.startswith(f"{option}.")]
    return min(inside, key=_ORDER.index, default=_known().get(option, _MOST))


def decisive(config: Plain, least: str = "where") -> Plain:
    """The part of a configuration, of any command, that decides at least as much as a word of `DECIDES`.

    An option that came after runs had begun is left out where it has the value that held before.
    """
    words = _ORDER[: _ORDER.index(least) + 1]
    kept = _kept(
        _without(config, {"layers": None, "whiten": None, "prompts": {"query": None, "document": None}}),
        words,
    )
    evaluation = kept.get("evaluation")
    for group, former in _former(kept, config.get("dataset")).items():
        if isinstance(kept.get(group), Mapping):
            kept[group] = _without(kept[group], former)
    backbone = kept.get("backbone")
    if isinstance(backbone, Mapping) and isinstance(backbone.get("adapter"), Mapping):
        kept["backbone"] = {
            **backbone,
            "adapter": _without(backbone["adapter"], {"variant": "lora", "rs": False}),
        }
    # The length of an evaluation was its `max_length` alone; that of training is its backbone's.
    length = evaluation.get("max_length") if isinstance(evaluation, Mapping) else None
    if "backbone" not in kept and length is not None:
        kept["max_length"] = length
    return kept


def _former(kept: Plain, dataset: object) -> dict[str, dict[str, Any]]:
    """By group: the options that came after runs had begun, with the values that held before."""
    lengths = kept.get("backbone", kept.get("evaluation"))
    former: dict[str, dict[str, Any]] = {
        "backbone": {"layers": None, "bidirectional": False},
        "gpu": {"shard": "none"},
        "pooling": {"skip_prompt": None},
        "training": {"dev": "auto", "select_floor": None, "select_untrained": False, "ema": None},
        "loss": {"matryoshka": None, "layers": None},
        "evaluation": {"dims": None, "vectors": None, "near": None},
    }
    if isinstance(lengths, Mapping):
        former["evaluation"] |= {"max_length": lengths.get("max_length")}
    if isinstance(dataset, Mapping) and dataset.get("name") == "nli_scored":
        former["dataset"] = {"column": "score"}
    if is_own(dataset):
        # Triplets and texts have always had `pair_columns`.
        former["dataset"] = _LATER | ({"pair_columns": None} if dataset.get("name") == "pairs" else {})
        former["training"] |= {"dev": "auto" if has_split(dataset, "dev") else "stsb"}
    return former


def _kept(config: Plain, words: tuple[str, ...], group: str = "") -> dict[str, Any]:
    return {
        key: _kept(value, words, f"{group}{key}.") if isinstance(value, Mapping) else value
        for key, value in config.items()
        if _known().get(f"{group}{key}", _MOST) in words
    }


def _without(options: Plain, former: Plain) -> Plain:
    return {key: value for key, value in options.items() if not (key in former and value == former[key])}


def is_own(dataset: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether the options of a data set are those of one, or of a mixture, that reads a user's own rows."""
    if is_mix(dataset):
        return all(is_own(part.get("dataset")) for part in parts_of(dataset).values())
    return isinstance(dataset, Mapping) and dataset.get("name") in _USER_ROWS


def has_split(dataset: Mapping[str, Any], split: str) -> bool:
    """Whether the options of such a data set, which need not be valid, give it a dev or test split."""
    if is_mix(dataset):
        return any(has_split(part.get("dataset", {}), split) for part in parts_of(dataset).values())
    parts = (dataset.get("splits"), dataset.get("split"))
    return dataset.get(split) is not None or any(split in part for part in parts if isinstance(part, Mapping))


@cache
def _known() -> dict[str, str]:
    """What each option and group decides, by its dotted name; none of a group's options decides more."""
    known: dict[str, str] = {}
    for path, item in (pair for schema in COMMANDS.values() for pair in declared(schema)):
        above = known.get(path.rpartition(".")[0], _MOST)
        known[path] = max(above, item.metadata["decides"], key=_ORDER.index)
    return known
