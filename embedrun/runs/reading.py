"""What a run directory says about its run, read without trust."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from embedrun.console import clean
from embedrun.errors import DataError

SELECTED_BY = "selected_by"  # the note of a run that names the dev score which selected its checkpoint


_DIGITS = 300  # of a whole number: one of 309 or more is no float
_MARKS = ("status.json", "run.log")  # the second alone while the model of a new run is still loading


@dataclass(frozen=True)
class RunFiles:
    """The small files of one run directory; what is not there yet is empty.

    Args:
        path: of the directory.
        status: `state`, `started`, `heartbeat` and more.
        config: the resolved configuration.
        environment: versions, machine and data fingerprints.
        results: `main`, `scores` and more.
    """

    path: Path
    status: dict[str, Any]
    config: dict[str, Any]
    environment: dict[str, Any]
    results: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "RunFiles":
        """The files of one directory.

        Raises:
            DataError: if one of them cannot be read or holds something else.
        """
        return cls(
            path,
            status=_object(path / "status.json"),
            config=_object(path / "config.yaml"),
            environment=_object(path / "environment.json"),
            results=_object(path / "results.json"),
        )

    @property
    def scores(self) -> dict[str, float]:
        """The scores by key, × 100."""
        scores = self.results.get("scores")
        return {key: value for key, value in _mapping(scores).items() if isinstance(value, int | float)}

    @property
    def main(self) -> dict[str, Any]:
        """Name and value of the score that stands for the run; empty where there is none."""
        return dict(_mapping(self.results.get("main")))


def is_run(folder: Path) -> bool:
    """Whether a folder looks like a run directory.

    Raises:
        OSError: if it may not be looked into.
    """
    return any((folder / mark).is_file() for mark in _MARKS)


def flattened(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The leaves of nested mappings by dotted key; a list or an empty mapping is a leaf."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        leaves |= flattened(value, f"{name}.") if isinstance(value, Mapping) and value else {name: value}
    return leaves


def as_text(value: Any, width: int) -> str:
    """A value on one line of at most so many characters; of a long path, its end."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(clean(text).split())
    if len(text) <= width:
        return text
    return f"...{text[3 - width :]}" if "/" in text else f"{text[: width - 3]}..."


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _object(path: Path) -> dict[str, Any]:
    """The mapping that a JSON or YAML file holds; empty if there is no such file."""
    from embedrun import files

    try:
        if path.suffix == ".yaml":
            loaded = files.read_yaml(path)
        else:
            loaded = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        # YAML may hold dates, also as names; both may hold numbers that no float is.
        plain = json.loads(json.dumps(loaded, default=str, allow_nan=False), parse_int=_whole)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, RecursionError) as fault:
        raise DataError(f"{path}: cannot be read ({_first_line(fault)})") from fault
    if not isinstance(plain, dict):
        raise DataError(f"{path}: holds no mapping of names, so it is not a file of a run")
    return plain


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"holds {constant}, which no run writes")


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"holds a whole number of {len(digits)} digits, which no run writes")
    return int(digits)


def _first_line(fault: BaseException) -> str:
    return " ".join(str(fault).split())[:200] or type(fault).__name__
