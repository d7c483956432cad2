"""What a run is, apart from its seed: the part of its configuration that decides its scores, as one key."""

from collections.abc import Callable, Mapping
from typing import Any

from embedrun.runs.directory import config_hash

# Which machine computes, and whether an interrupted run is looked for; what is no option at all.
_WHERE = {
    "gpu": ("device", "threads", "processes", "nodes", "rendezvous"),
    "training": ("resume",),
}
_NOT_OPTIONS = ("schema", "seed")
_MODELS = ("name", "model")  # keys of the options that name a model

RUN = "run:"  # before the name of an experiment: the model of its finished run

# What stands for the name of a model that is a run; None for any other model.
Reference = Callable[[str], Any]


def identity(config: Mapping[str, Any], reference: Reference) -> str:
    """The key under which all runs of a configuration are found, whatever their seed.

    It is the hash of a run directory, without the seed, without the options that say where a run computes,
    and with each model that is itself a run in the words of `reference`: the directory of that run may lie
    elsewhere tomorrow.

    Args:
        config: resolved plain data.
        reference: what a run that is trained further or scored counts as.
    """
    kept = {key: value for key, value in config.items() if key not in _NOT_OPTIONS}
    for group, options in _WHERE.items():
        if isinstance(kept.get(group), Mapping):
            kept[group] = {key: value for key, value in kept[group].items() if key not in options}
    return config_hash(referred(kept, reference))


def referred(plain: Any, reference: Reference) -> Any:
    """Configuration data in which each model that is a run stands in the words of `reference`.

    Args:
        plain: plain data, of any form.
        reference: what a run that is trained further or scored counts as.
    """
    if isinstance(plain, Mapping):
        return {
            key: (reference(one) or one)
            if key in _MODELS and isinstance(one, str)
            else referred(one, reference)
            for key, one in plain.items()
        }
    return [referred(one, reference) for one in plain] if isinstance(plain, list | tuple) else plain
