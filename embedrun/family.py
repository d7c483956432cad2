"""Open families: a name in YAML is a class in the package of its family, with nothing to register.

`rank_margin` is the class `RankMargin` in `embedrun/loss/rank_margin.py`, or what an installed package
names `rank_margin` under the entry point group `embedrun.loss`. A YAML can name nothing else.
"""

import ast
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

_ROOT = Path(__file__).resolve().parent
# Parts of a family whose class is named like their file and is no member: the sum of terms, rows to score,
# copies of sentences.
_NO_MEMBER = ("mix", "source", "masking")


def class_name(name: str) -> str:
    """`rank_margin` -> `RankMargin`."""
    return "".join(part.capitalize() for part in name.split("_"))


@cache
def names(family: str) -> tuple[str, ...]:
    """Every name of a family (`loss`, `dataset`, `evaluation`), sorted; imports none of them."""
    own = [
        path.stem
        for path in (_ROOT / family).glob("*.py")
        if class_name(path.stem) in _classes(path) and path.stem not in _NO_MEMBER
    ]
    installed = [entry.name for entry in entry_points(group=f"embedrun.{family}")]
    return tuple(sorted({*own, *installed}))


@cache
def find(family: str, name: str) -> type:
    """The class behind a name.

    Raises:
        KeyError: if the family has no such name.
    """
    if name not in names(family):
        raise KeyError(name)
    if class_name(name) in _classes(_ROOT / family / f"{name}.py"):
        return getattr(import_module(f"embedrun.{family}.{name}"), class_name(name))
    return next(iter(entry_points(group=f"embedrun.{family}", name=name))).load()


@cache
def _classes(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.ClassDef))
