"""YAML that anyone may have written, read only while the file, and what its aliases unfold to, are small."""

from pathlib import Path
from typing import Any

_BYTES = 1 << 20
_VALUES = 100_000
_LONG = 100  # characters of a text that count as one more value, since an alias repeats them, too


def read(path: Path) -> Any:
    """The plain data that a file holds; None where it is empty.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is too large, unfolds too far, or is no plain YAML; the message says which.
    """
    from yaml import YAMLError
    from yaml.constructor import SafeConstructor

    found = node(path)
    try:
        return None if found is None else SafeConstructor().construct_document(found)
    # All but the first are what PyYAML lets through where a value does not fit its tag, as `!!bool maybe`.
    except (YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as fault:
        raise ValueError(_invalid(fault)) from fault


def node(path: Path) -> Any:
    """The syntax tree of a file, from which nothing has been made yet; None where the file is empty.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is too large, unfolds too far, or is no YAML; the message says which.
    """
    import yaml

    if path.stat().st_size > _BYTES:
        raise ValueError("over 1 MiB; configuration files are small")
    try:
        found = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        values = _unfolded(found, {})
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as fault:
        raise ValueError(_invalid(fault)) from fault
    if values > _VALUES:
        raise ValueError(f"its aliases expand to over {_VALUES:,} values")
    return found


def _unfolded(node: Any, seen: dict[int, int]) -> int:
    """Number of values once every alias is written out; a shared node is counted each time."""
    if node is None:
        return 1
    if isinstance(node.value, str):
        # 1:1:1:... is one number to base 60, and reading it takes the square of its length.
        if len(node.value) > _LONG and node.tag.endswith((":int", ":float")):
            raise ValueError(f"holds a number of over {_LONG} characters")
        return 1 + len(node.value) // _LONG
    if id(node) in seen:
        return seen[id(node)]
    seen[id(node)] = _VALUES  # a node that contains itself never ends
    children = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
    seen[id(node)] = min(1 + sum(_unfolded(child, seen) for child in children), 10 * _VALUES)
    return seen[id(node)]


def _invalid(fault: BaseException) -> str:
    return f"not valid YAML: {' '.join(str(fault).split())}"
