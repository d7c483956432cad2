"""Open families: a name in YAML is a class, and its options are held against the constructor.

`rank_margin` is the class `RankMargin` in `embedrun/loss/rank_margin.py`, or what an installed package
names `rank_margin` under the entry point group `embedrun.loss`. A YAML can name nothing else.
"""

import ast
import contextlib
import hashlib
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from embedrun.config import Checker, nearest
from embedrun.config.mixture import alone
from embedrun.errors import ConfigError
from embedrun.files import Plain

_ROOT = Path(__file__).resolve().parent
# Files of a family whose class is named like them and is no member: the sum of terms, rows to score, copies
# of sentences.
_NO_MEMBER = (("loss", "mix"), ("evaluation", "scores"), ("dataset", "masking"))

# Members that share a file with others; every other one has a file of its name.
_TOGETHER = {
    "dataset": {"texts": "pairs", "triplets": "pairs", "nli_scored": "nli"}
    | dict.fromkeys(
        ("captions", "github_issues", "mrpc", "qnli", "qqp", "senteval", "sickr", "sts", "stsb", "wiki1m"),
        "published",
    ),
}


def class_name(name: str) -> str:
    """`rank_margin` -> `RankMargin`."""
    return "".join(part.capitalize() for part in name.split("_"))


@cache
def names(family: str) -> tuple[str, ...]:
    """Every name of a family (`loss`, `dataset`, `evaluation`), sorted; imports none of them."""
    ours = [
        path.stem
        for path in (_ROOT / family).glob("*.py")
        if (family, path.stem) not in _NO_MEMBER and _has_class(path)
    ]
    offered = [point.name for point in entry_points(group=f"embedrun.{family}")]
    return tuple(sorted({*ours, *_TOGETHER.get(family, ()), *offered}))


def module(family: str, name: str) -> str:
    """The file of a member of ours, as it is imported."""
    return f"embedrun.{family}.{_TOGETHER.get(family, {}).get(name, name)}"


def _has_class(path: Path) -> bool:
    """Whether a file defines the class that its name says; parsing every file of a family takes long."""
    text = path.read_text(encoding="utf-8")
    return re.search(rf"^class {class_name(path.stem)}\b", text, re.M) is not None


@cache
def find(family: str, name: str) -> type:
    """The class behind a name, else a KeyError; Unloadable if an installed package cannot give its class."""
    if name not in names(family):
        raise KeyError(name)
    if source(family, name) is not None:
        return getattr(import_module(module(family, name)), class_name(name))
    return _loaded(next(iter(entry_points(group=f"embedrun.{family}", name=name))))


class Unloadable(ConfigError):  # noqa: N818 - a fault of the configuration, as its base says
    """An installed package that offers a member cannot be imported, or offers no class."""


def _loaded(point: EntryPoint) -> type:
    """The class of another package; what its import prints goes to standard error, as results do not."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            loaded = point.load()
        if isinstance(loaded, type):
            return loaded
        fault = f"it is no class but {type(loaded).__name__}"
    except (Exception, SystemExit) as raised:  # the code of others raises what it likes, but Ctrl-C is ours
        fault = " ".join(f"{type(raised).__name__}: {raised}".split())
    raise Unloadable(
        f"{point.group}: {point.name} = {point.value} of {package_of(point)} cannot be used ({fault}); "
        "fix or uninstall that package, or leave the name out"
    )


def package_of(point: EntryPoint) -> str:
    """The installed package that an entry point is of, with its version."""
    return f"the package {point.dist.name} {point.dist.version}" if point.dist else "a package"


def installed() -> list[EntryPoint]:
    """What installed packages add to the families; none of it is imported."""
    return [point for family in _LABEL for point in entry_points(group=f"embedrun.{family}")]


def source(family: str, name: str) -> ast.ClassDef | None:
    """The class of ours behind a name, as it is written, without importing it; None of a package's."""
    file = module(family, name)
    if not _ROOT.joinpath(*file.split(".")[1:]).with_suffix(".py").is_file():
        return None
    classes = [node for node in tree(file).body if isinstance(node, ast.ClassDef)]
    return next((node for node in classes if node.name == class_name(name)), None)


@cache
def tree(module: str) -> ast.Module:
    """A module of ours as it is written, such as `embedrun.loss.angle`."""
    path = _ROOT.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def code_of(config: Plain) -> dict[str, str]:
    """SHA-256 of the code of each loss term, and of each data set and task of an installed package."""
    return {key: code for _, part in alone(config) for key, code in _code_of_part(part).items()}


def _code_of_part(config: Plain) -> dict[str, str]:
    groups = {name: group for name, group in config.items() if isinstance(group, Mapping)}
    used = (
        ("loss", groups.get("loss", {}).get("terms")),
        ("dataset", {"": groups.get("dataset")}),
        ("evaluation", groups.get("training", {}).get("dev_tasks")),
        ("evaluation", groups.get("evaluation", {}).get("tasks")),
    )
    return {
        f"code {family} {name}": code
        for family, members in used
        for key, options in (members.items() if isinstance(members, Mapping) else ())
        if isinstance(options, Mapping) and options.get("weight") != 0
        if (code := _code(family, name := str(options.get("name", key)))) is not None
    }


@cache
def _code(family: str, name: str) -> str | None:
    if name not in names(family):
        return None
    if source(family, name) is None:
        lines = _code_of_package(next(iter(entry_points(group=f"embedrun.{family}", name=name))))
    else:
        lines = _code_of_ours(f"embedrun.loss.{name}") if family == "loss" else []
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else None


def _code_of_package(point: EntryPoint) -> list[str]:
    top = point.module.partition(".")[0]
    if point.dist is not None:
        record = (point.dist.read_text("RECORD") or "").splitlines()
        # An editable install records nothing of the package, and only files of the wheel have a hash.
        ours = [line for line in record if line.startswith((f"{top}/", f"{top}.py,")) and "sha256=" in line]
        if ours:
            return [point.value, point.dist.name, point.dist.version, *sorted(ours)]
    hashes = [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in _python_files(top)]
    return [point.value, *hashes] if hashes else []


def _python_files(package: str) -> list[Path]:
    spec = find_spec(package)
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [Path(spec.origin or "")]
    return sorted(path for folder in spec.submodule_search_locations for path in Path(folder).rglob("*.py"))


@cache
def _code_of_ours(module: str) -> list[str]:
    """A file of `embedrun/loss/` as it is parsed, and those of them that it imports."""
    imports = {str(node.module) for node in ast.walk(tree(module)) if isinstance(node, ast.ImportFrom)}
    below = [name for name in sorted(imports) if name.startswith("embedrun.loss.")]
    return [repr(_bare(tree(module))), *(line for name in below for line in _code_of_ours(name))]


def _bare(node: object) -> object:
    """A syntax tree as tuples and lists: without docstrings, and empty fields, which not every Python has."""
    if isinstance(node, list):
        return [part for part in map(_bare, node) if part != ""]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return ""
    fields = [(name, _bare(value)) for name, value in ast.iter_fields(node) if value not in (None, [])]
    return type(node).__name__, fields


_LABEL = {"loss": "loss term", "dataset": "data set", "evaluation": "evaluation task"}


def build(
    checker: Checker,
    kind: str,
    name: object,
    options: Plain,
    path: str,
    *,
    given: Plain | None = None,
) -> Any:
    """An instance of the named class, or None where a fault was noted.

    `path` is where the options stand; `given` is what the run passes to a constructor that asks for it.
    """
    given = given or {}
    known = names(kind)
    if name not in known:
        hint = nearest(str(name), known)
        checker.problems.append(f"{path}: no {_LABEL[kind]} {name!r}{hint} (there are: {', '.join(known)})")
        return None
    try:
        cls = find(kind, name)
    except Unloadable as fault:
        checker.problems += [f"{path}: {problem}" for problem in fault.problems]
        return None
    before = len(checker.problems)
    checker.signature(cls, options, path, given=given)
    if len(checker.problems) > before:
        return None
    try:
        parameters = inspect.signature(cls.__init__).parameters
        return cls(**options, **{name: value for name, value in given.items() if name in parameters})
    except ValueError as fault:
        checker.problems.append(f"{path}: {fault}")
        return None


def without(options: Plain, *keys: str) -> Plain:
    """The options but for some keys, so that only the class's own remain."""
    return {key: value for key, value in options.items() if key not in keys}


def family_name(instance: object) -> str:
    """The name in YAML of an instance's class: `RankMargin` -> `rank_margin`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(instance).__name__).lower()
