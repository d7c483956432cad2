"""Which overrides of a command line a row of a table takes: those of options that it has itself."""

from collections.abc import Mapping
from typing import Any

from embedrun.table.identity import RUN

# What decides how the runs that an evaluation scores are made, and not what the evaluation measures.
_OF_TRAINING = ("backbone", "gpu", "training", "dataset", "data_dir")


def fits(override: str, command: str, plain: Mapping[str, Any]) -> bool:
    """Whether a row has the option, and an override of it leaves alone what the row starts from.

    Args:
        override: in Hydra's grammar.
        command: `train` or `evaluate`.
        plain: the configuration of the row without the override.
    """
    written = override.partition("=")[0].strip()
    path = written.lstrip("+~").partition("@")[0].replace("/", ".")
    if path == "experiment":
        return command == "train"
    if path == "backbone.name" and (plain.get("backbone") or {}).get("scratch") is not None:
        return False  # a new model has no name
    word, dot, _ = path.partition(".")
    if written.startswith("+"):  # an option that is not there yet
        return word in plain and not (dot and plain[word] is None)
    found: Any = plain
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return False
        found = found[part]
    return not (isinstance(found, str) and found.startswith(RUN))


def below(command: str, extra: tuple[str, ...]) -> tuple[str, ...]:
    """The overrides that reach the runs which one of a command needs first.

    Args:
        command: `train` or `evaluate`.
        extra: overrides of the command line.
    """
    if command == "train":
        return extra
    return tuple(one for one in extra if _first_word(one) in _OF_TRAINING)


def _first_word(override: str) -> str:
    return (
        override.partition("=")[0].strip().lstrip("+~").partition("@")[0].replace("/", ".").partition(".")[0]
    )
