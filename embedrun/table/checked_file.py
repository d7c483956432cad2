"""A YAML file of `conf/` held to a dataclass of options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from embedrun.config import Checker
from embedrun.errors import ConfigError

_Kind = TypeVar("_Kind")


def checked(kind: type[_Kind], path: Path, where: str, **given: Any) -> tuple[_Kind | None, list[str]]:
    """What a file says, as a `kind`, or None; and every fault of it.

    Args:
        kind: a dataclass whose fields are made by `option`.
        path: of the file.
        where: what a fault calls it.
        given: fields that the file may leave out.

    Raises:
        ConfigError: if it is no YAML.
    """
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise ConfigError(f"{where}: not YAML: {' '.join(str(fault).split())}") from None
    checker = Checker()
    found = checker.build(kind, {**given, **data} if isinstance(data, Mapping) else {})
    # The checker speaks to a command line; to a file nothing can be passed.
    return found, [problem.partition("; pass ")[0] for problem in checker.problems]
