"""Options of the open families, held against the signatures of the classes that they name."""

import inspect
from collections.abc import Mapping
from typing import Any

from embedrun import family
from embedrun.config import Checker, nearest

_LABEL = {"loss": "loss term", "dataset": "data set", "evaluation": "evaluation task"}


def build(
    checker: Checker,
    kind: str,
    name: Any,
    options: Mapping[str, Any],
    path: str,
    *,
    given: Mapping[str, Any] | None = None,
) -> Any:
    """An instance of the named class, or None where a fault was noted.

    Args:
        checker: collects the faults.
        kind: `loss`, `dataset` or `evaluation`.
        name: as the configuration gives it.
        options: of the class's constructor.
        path: of the options in the configuration.
        given: what the run passes to a constructor that asks for it.
    """
    given = given or {}
    known = family.names(kind)
    if name not in known:
        hint = nearest(str(name), known)
        checker.problems.append(f"{path}: no {_LABEL[kind]} {name!r}{hint} (there are: {', '.join(known)})")
        return None
    before = len(checker.problems)
    cls = family.find(kind, name)
    checker.signature(cls, options, path, given=given)
    if len(checker.problems) > before:
        return None
    try:
        asked = inspect.signature(cls.__init__).parameters
        return cls(**options, **{name: value for name, value in given.items() if name in asked})
    except ValueError as fault:
        checker.problems.append(f"{path}: {fault}")
        return None


def without(options: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The options that are the class's own."""
    return {key: value for key, value in options.items() if key not in keys}


def family_name(instance: Any) -> str:
    """The name in YAML of an instance's class: that of its module."""
    return type(instance).__module__.rpartition(".")[2]
