"""What a command takes: groups, their choices and options, as conf/ and the code say of themselves.

`docs/options.md` and `--help` are written from it. Nothing is imported for it that is slow: the classes of
open families are read as text.
"""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from itertools import chain
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from embedrun import family
from embedrun.config import options, presets
from embedrun.config.check import BOUNDS, alike, describe
from embedrun.config.decides import decides
from embedrun.config.options import COMMANDS
from embedrun.errors import ConfigError
from embedrun.files import Plain

# The groups of a training, each with its class; None where it is open, as `dataset`: that of the name in it.
GROUPS: dict[str, type | None] = {
    item.name: item.type if isinstance(item.type, type) and is_dataclass(item.type) else None
    for item in fields(options.TrainConfig)
    if item.metadata["unit"].startswith("group")
}
# Of the open families: what stands before the options of a member, and what a member is called.
FAMILIES = {
    "loss": ("loss.terms.TERM.", "loss term"),
    "dataset": ("dataset.", "data set"),
    "evaluation": ("evaluation.tasks.TASK.", "evaluation task"),
}
_FILLED = ("dim", "teacher_dims", "head")  # arguments of loss terms that the run fills in
_NO_DEFAULT = (MISSING, inspect.Parameter.empty, options.REQUIRED)


class Option(NamedTuple):
    """One option; `values` are all words that it takes, none where it takes a number, text or list too."""

    name: str
    accepts: str
    default: Any
    meaning: str
    decides: str = "what"
    training_only: bool = False
    values: tuple[str, ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether there is no default."""
        return self.default in _NO_DEFAULT

    @property
    def marks(self) -> list[str]:
        """What sets it apart from most options."""
        less = [] if self.decides == "what" else [f"decides {self.decides}"]
        return [*less, "only while training"] if self.training_only else less


class Member(NamedTuple):
    """A member of an open family: its docstring, the file below the package's parent, its options."""

    name: str
    doc: str
    file: str
    options: list[Option]


def groups_of(root: str) -> dict[str, str | None]:
    """The groups that the root of a command composes, each with the choice that it has by default."""
    chosen = presets.read(presets.folder(), root).choices
    return {
        item.name: None if chosen[item.name] == "None" else chosen[item.name]
        for item in fields(COMMANDS[root])
        if item.metadata["unit"].startswith("group")
    }


def defaults(root: str) -> Plain:
    """What the root of a command composes where nothing is given, without Hydra, which takes its time."""
    chosen = {
        group: presets.whole(presets.folder(), f"{group}/{choice}")
        for group, choice in groups_of(root).items()
        if choice is not None
    }
    return {**chosen, **presets.read(presets.folder(), root).options}


def choices(group: str) -> dict[str, str]:
    """The files of a group, each with the first sentence at its head."""
    heads = {}
    for name in presets.groups().get(group, []):
        text = (presets.folder() / group / f"{name}.yaml").read_text(encoding="utf-8")
        lines = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
        heads[name] = sentence("\n".join(line for line in lines if "@package" not in line))
    return heads


def options_of(schema: type, composed: Any, path: str = "") -> Iterator[Option]:
    """The options of a schema, those of a mapping behind it; groups are among them, without their own."""
    hints = get_type_hints(schema)
    for item in fields(schema):
        hint, where, about = hints[item.name], path + item.name, item.metadata
        bounds = " and ".join(f"{BOUNDS[name][0]} {bound:,}" for name, bound in about["bounds"].items())
        default = composed.get(item.name, item.default) if isinstance(composed, Mapping) else item.default
        yield Option(
            name=where,
            accepts="; ".join(filter(None, [describe(hint), bounds])),
            default=default,
            meaning=about["unit"],
            decides=decides(where.replace("[]", "")),
            training_only=about["training_only"],
            values=tuple(_values(hint)),
        )
        if not about["unit"].startswith("group"):
            for inner, dotted in _nested(hint, where):
                yield from options_of(inner, default, dotted)


def every_option(root: str) -> list[Option]:
    """The options of a command, those of its groups among them."""
    composed, every = defaults(root), []
    for option in options_of(COMMANDS[root], composed):
        if not option.meaning.startswith("group"):
            every.append(option)
        elif (schema := GROUPS[option.name]) is not None:
            every += options_of(schema, composed.get(option.name), f"{option.name}.")
    return every


def value(default: Any) -> str | None:
    """A default as it would be typed; None where it is not a few words."""
    if default in _NO_DEFAULT or isinstance(default, Mapping):
        return None
    if isinstance(default, (list, tuple)) and len(default) > 10:
        return f"{len(default)} of them"
    # YAML writes these as JSON does, but for the quotes of a text.
    return default if isinstance(default, str) else json.dumps(default)


def member(kind: str, name: str) -> Member:
    """One member of an open family, ours without importing it: torch would come with most."""
    node = family.source(kind, name)
    if node is None:
        cls = family.find(kind, name)
        hints, module = get_type_hints(cls.__init__), cls.__module__
        doc = inspect.cleandoc(cls.__doc__ or "its class has no docstring")  # torch's is of no term
        taken = [
            (key, hints.get(key, Any), parameter.default)
            for key, parameter in inspect.signature(cls.__init__).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        ]
    else:
        module = family.module(kind, name)
        doc, taken = ast.get_docstring(node) or "", list(_arguments(node, _Names(module)))
    meanings = arguments(doc)
    path = FAMILIES[kind][0].replace("TERM", name).replace("TASK", name)
    options_of_class = [
        Option(path + key, describe(hint), default, meanings.get(key, ""), values=tuple(_values(hint)))
        for key, hint, default in taken
        if key not in _FILLED
    ]
    return Member(name, doc, f"{module.replace('.', '/')}.py", options_of_class)


def arguments(doc: str) -> dict[str, str]:
    """What the docstring of a class says of each argument."""
    part = re.search(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", doc, re.MULTILINE)
    meanings: dict[str, str] = {}
    for names, text in re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {5,}.*)*)", part[1] if part else "", re.M):
        meanings |= dict.fromkeys(map(str.strip, names.split(",")), " ".join(text.split()))
    return meanings


def sentence(text: str | None) -> str:
    """The first sentence of a text, or its first paragraph where that is one sentence."""
    paragraph = " ".join((text or "").strip().split("\n\n")[0].split())
    # A letter alone before the dot is of a name.
    return re.split(r"(?<![ .][A-Z]\.)(?<=\.)\s+(?=[A-Z`])", paragraph)[0]


def plain(text: str) -> str:
    """A text of a docstring without its roles, as `code` where it has such."""
    text = re.sub(r":\w+:`~?(?:\w+\.)*([^`]+)`", r"`\1`", text)
    return text.replace("``", "`").replace("\\tau", "τ")


def overview(root: str, width: int) -> str:
    """The groups and options of a command, a line each."""
    lines = ["groups, each with its default choice (all of them: --help GROUP):"]
    groups = groups_of(root) | ({"+experiment": None} if root == "train" else {})
    for group, choice in groups.items():
        others = ", ".join(name for name in presets.groups()[group.lstrip("+")] if name != choice)
        lines.append(_line(f"{group}={choice or ''}", f"or {others}" if choice else others, 24, width))
    lines += ["", "options, each with its default and what it takes (in full: --help OPTION):"]
    for option in every_option(root):
        needed = "to be given; " if option.is_needed else ""
        text = f"{needed}{option.accepts}; {option.meaning}"
        lines.append(_line(_typed(option, width - 34), text, 32, width))
    for kind, (path, called) in FAMILIES.items():
        if kind in groups:
            lines.append(_line(f"{path}OPTION", f"--help {kind} lists the {called}s", 32, width))
    return "\n".join(lines)


def about(root: str, topic: str, width: int) -> str:
    """A group, an option, or a member of an open family, as `loss.angle`, in full."""
    word = topic.partition("=")[0].lstrip("+~").replace("/", ".")
    group, _, rest = word.partition(".")
    groups = [*groups_of(root), *(["experiment"] if root == "train" else [])]
    if word in groups:
        return _group(root, word, width)
    options = {option.name: option for option in every_option(root)}
    if below := [options[name] for name in options if f"{name}.".startswith((f"{word}.", f"{word}[]"))]:
        return "\n".join(_in_full(below, width))
    members = family.names(group) if group in FAMILIES.keys() & set(groups) else ()
    name = rest.removeprefix("terms.").removeprefix("tasks.").partition(".")[0]
    if name in members:
        described = member(group, name)
        lines = textwrap.wrap(f"{FAMILIES[group][1]} {name}: {plain(sentence(described.doc))}", width)
        in_full = _in_full(described.options, width) or ["no options"]
        return "\n".join([*lines, described.file, "", *in_full])
    near = alike(word, [*groups, *(f"{group}.{name}" for name in members), *options])
    raise ConfigError(
        f"--help {topic}: no group or option{'' if near is None else f'; did you mean {near!r}?'} "
        f"(groups: {', '.join(groups)}; --help alone lists the options)"
    )


def _group(root: str, group: str, width: int) -> str:
    lines = []
    schema = GROUPS.get(group)
    if schema is not None:
        lines += [*textwrap.wrap(f"{group}: {inspect.getdoc(schema)}", width), ""]
    lines.append(f"choices of {'+' if group == 'experiment' else ''}{group}=")
    for name, text in choices(group).items():
        lines += [f"  {name}", *_indented(text, width)]
    if schema is not None:
        lines += ["", "options, each with its default, what it takes and its meaning:"]
        lines += _in_full(options_of(schema, defaults(root).get(group), f"{group}."), width)
    if group in FAMILIES:
        path, called = FAMILIES[group]
        lines += ["", f"{called}s, with options {path}OPTION:"]
        for name in family.names(group):
            try:
                text = plain(sentence(member(group, name).doc))
            except family.Unloadable as fault:
                text = fault.problems[0]
            lines += [f"  {name}", *_indented(text, width)]
    return "\n".join(lines)


def _typed(option: Option, most: int) -> str:
    default = value(option.default)
    typed = f"{option.name}={default}"
    return option.name if default is None or " of them" in typed or len(typed) > most else typed


def _in_full(options: Iterable[Option], width: int) -> list[str]:
    lines = []
    for option in options:
        name, default = _typed(option, width - 2), value(option.default)
        first = ["to be given"] if option.is_needed else []
        first += [] if "=" in name or default is None else [f"default {default}"]
        lines += [f"  {name}", *_indented("; ".join([*first, option.accepts]), width)]
        lines += _indented("; ".join(filter(None, [plain(option.meaning), *option.marks])), width)
    return lines


def _indented(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6)


def _line(name: str, text: str, column: int, width: int) -> str:
    start = f"  {name.ljust(column)}  "
    return start + textwrap.shorten(text, max(width - len(start), 12), placeholder=" ...")


def _values(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return [str(word) for word in get_args(hint)]
    if get_origin(hint) in (Union, UnionType):
        parts = list(map(_values, get_args(hint)))
        return list(chain.from_iterable(parts)) if all(parts) else []
    return {bool: ["true", "false"], NoneType: ["null"]}.get(hint, [])


def _nested(hint: Any, where: str) -> Iterator[tuple[type, str]]:
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint, f"{where}."
    where += "[]" if get_origin(hint) is list else ""
    for part in get_args(hint) if get_origin(hint) in (list, Union, UnionType) else ():
        yield from _nested(part, where)


def _arguments(node: ast.ClassDef, names: "_Names") -> Iterator[tuple[str, Any, Any]]:
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    for constructor in (method for method in methods if method.name == "__init__"):
        for argument, default in zip(constructor.args.kwonlyargs, constructor.args.kw_defaults, strict=True):
            typed = None if argument.arg in _FILLED else argument.annotation
            hint = Any if typed is None else names.read(typed)
            yield argument.arg, hint, inspect.Parameter.empty if default is None else names.read(default)


class _Names(dict[str, Any]):
    """What names in a module of ours stand for: aliases of types, constants, and what typing has."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self._tree = family.tree(module)

    def read(self, node: ast.expr) -> Any:
        """The value of an expression that only names types, constants and builtins."""
        return eval(ast.unparse(node), {}, self)  # of our own files

    def __missing__(self, name: str) -> Any:
        for node in self._tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    return self.read(value)
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                    return self.read(value)
                case ast.ImportFrom(module=str(module)) if name in [part.name for part in node.names]:
                    # The standard library's are imported.
                    ours = module.startswith("embedrun.")
                    return _Names(module)[name] if ours else getattr(import_module(module), name)
        raise KeyError(name)
