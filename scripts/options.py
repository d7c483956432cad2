"""docs/options.md, made from what the options say of themselves: `make docs`; with --check: is it current?

    python scripts/options.py [--check]

Types, ranges and units are those of embedrun/config/options.py, which `embedrun.config.check` holds every
configuration to. Defaults are what a command composes from conf/ where nothing is given. Choices are the
files of conf/, each with the first sentence at its head. Options of loss terms, data sets and evaluation
tasks are the constructors' and their docstrings'.
"""

import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml

from embedrun import family
from embedrun.cli import COMMANDS as WHAT
from embedrun.config import options, presets
from embedrun.config.check import describe
from embedrun.config.compose import Compositions
from embedrun.config.decides import decides

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"
COMMANDS = {
    "train": options.TrainConfig,
    "evaluate": options.EvaluateConfig,
    "annotate": options.AnnotateConfig,
    "generate": options.GenerateConfig,
    "collect": options.CollectConfig,
}
GROUPS = {
    "backbone": options.BackboneConfig,
    "pooling": options.PoolingConfig,
    "loss": options.LossConfig,
    "dataset": None,  # open: the classes of embedrun/dataset
    "training": options.TrainingConfig,
    "gpu": options.GpuConfig,
    "evaluation": options.EvaluationConfig,
    "tracking": options.TrackingConfig,
}
# Of the open families: title, where the options stand and what every member takes, the method that a member
# has (other classes in these folders are not chosen by name), and the arguments that the run fills in.
FAMILIES = {
    "loss": (
        "Loss terms",
        "`loss.terms.<term>.<option>`. Every term takes `weight` (unitless, 0 or more; 0 skips it), `name`\n"
        "(the term, where the key is another word) and `views` ([losses.md](losses.md)).",
        "forward",
        ("dim", "teacher_dims"),
    ),
    "dataset": (
        "Data sets",
        "`dataset.<option>`, for the `dataset.name` of the heading. Every data set takes `prompts`,\n"
        "templates with `{text}` by view ([training.md](training.md)).",
        "read",
        (),
    ),
    "evaluation": (
        "Evaluation tasks",
        "`evaluation.tasks.<task>.<option>`, and the same below `training.dev_tasks`. Every task takes\n"
        "`name`, where the key is another word.",
        "sources",
        (),
    ),
}
BOUNDS = {"at_least": "at least", "above": "above", "at_most": "at most", "below": "below"}
INTRO = """# Options

Made by `make docs` from the code; do not edit. A command refuses every other key and every value outside
these ranges, with all faults in one message, before anything is loaded.

`option=value` sets an option, `group=choice` takes a file of `conf/<group>/`, `+experiment=NAME` takes a
preset of several groups. `-m` with `option=a,b` makes one run of each value. `--cfg job` prints what a
command line composes. A list is `'option=[a,b]'`, a mapping `'option={key: value}'`, both in quotes for the
shell. A key that is not there yet, such as a second task, takes a plus sign: `+evaluation.tasks.fast={...}`.

"Default" is the value if neither you nor a preset sets one.

An option of `train` or `evaluate` decides what is trained and measured, unless it says below that it decides
less. The hash of a run covers every option that decides anything. A table of a paper takes runs that differ
in *where* alone for the same, and also compares runs that differ in *how* with the paper.

DECIDES"""


def page() -> str:
    """The whole page."""
    composed = {command: Compositions().keys(command) for command in COMMANDS}
    less = [f"- *{word}*: {said}.\n" for word, said in options.DECIDES.items() if word != "what"]
    parts = [INTRO.replace("DECIDES", "".join(less)), "## Commands\n"]
    for command, schema in COMMANDS.items():
        parts += command_section(command, schema, composed[command])
    parts.append("## Groups\n")
    for group, schema in GROUPS.items():
        parts += group_section(group, schema, composed["train"].get(group))
    for name in FAMILIES:
        parts += family_section(name)
    parts += presets_section()
    return "\n".join(parts).rstrip() + "\n"


def command_section(command: str, schema: type, composed: Mapping[str, Any]) -> list[str]:
    """The options of a command that are of no group, and the groups that it takes."""
    root = yaml.safe_load((presets.folder() / f"{command}.yaml").read_text(encoding="utf-8"))
    chosen = {
        key: choice for entry in root["defaults"] if isinstance(entry, dict) for key, choice in entry.items()
    }
    groups = [item.name for item in fields(schema) if item.metadata["unit"].startswith("group")]
    said = [
        f"[{group}](#{group})" + (f" (`{chosen[group]}`)" if chosen.get(group) else "") for group in groups
    ]
    takes = [f"Groups, with their default choice: {', '.join(said)}.\n"] if groups else []
    also = " `embedrun check`, `tune` and `reproduce` take the same options." if command == "train" else ""
    rows = [row for row in rows_of(schema, composed, "") if row[0] not in groups]
    return [f"### embedrun {command}\n", f"{WHAT[command].capitalize()}.{also}\n", *takes, table(rows)]


def group_section(group: str, schema: type | None, composed: Any) -> list[str]:
    """The choices of a group and its options."""
    parts = [f"### {group}\n"]
    if schema is not None:
        parts.append(f"{sentence(inspect.getdoc(schema))}\n")
    parts.append(choices(group))
    if schema is None:
        parts.append("Options: [data sets](#data-sets).\n")
        return parts
    return [*parts, table(list(rows_of(schema, composed, f"{group}.")))]


def family_section(name: str) -> list[str]:
    """The members of an open family and the options of their constructors."""
    title, intro, method, filled = FAMILIES[name]
    parts = [f"## {title}\n", f"{intro}\n"]
    for member in family.names(name):
        cls = family.find(name, member)
        # Packages that are installed here and not everywhere may have members, too.
        if not cls.__module__.startswith("embedrun.") or not hasattr(cls, method):
            continue
        said, hints = arguments(cls), get_type_hints(cls.__init__)
        rows = [
            (key, describe(hints.get(key, Any)), value(parameter.default), said.get(key, ""))
            for key, parameter in inspect.signature(cls.__init__).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and key not in filled
        ]
        file = f"{cls.__module__.replace('.', '/')}.py"
        parts += [f"### `{member}`\n", f"{cell(sentence(inspect.getdoc(cls)))} [{file}](../{file})\n"]
        parts.append(table(rows) if rows else "No options.\n")
    return parts


def presets_section() -> list[str]:
    """The presets of several groups, and what `reproduce` takes."""
    tables = [
        f"`{group.removeprefix('table/')}/{name}`"
        for group, found in presets.groups().items()
        if group.startswith("table/")
        for name in found
    ]
    return [
        "## Presets\n",
        "### +experiment=\n",
        choices("experiment"),
        "### --scale of reproduce and table\n",
        choices("scale"),
        "### Tables of reproduce and table\n",
        ", ".join(tables) + "\n",
    ]


def choices(group: str) -> str:
    """The files of a group, each with the first sentence at its head."""
    lines = ["| choice | what it is |", "| --- | --- |"]
    for name in presets.groups()[group]:
        text = (presets.folder() / group / f"{name}.yaml").read_text(encoding="utf-8")
        head = [
            line[1:].strip() for line in text.splitlines() if line.startswith("#") and "@package" not in line
        ]
        said = sentence("\n".join(head))
        lines.append(f"| `{name}` | {cell(said)} |")
    return "\n".join(lines) + "\n"


def rows_of(schema: type, composed: Any, path: str) -> Iterator[tuple[str, str, str, str]]:
    """Option, what it accepts, default and meaning; options of a mapping stand behind it."""
    hints = get_type_hints(schema)
    for item in fields(schema):
        hint, where, unit = hints[item.name], path + item.name, item.metadata["unit"]
        bounds = [f"{BOUNDS[name]} {bound:,}" for name, bound in item.metadata["bounds"].items()]
        accepts = "; ".join([describe(hint), *([" and ".join(bounds)] if bounds else [])])
        has = isinstance(composed, Mapping) and item.name in composed
        default = composed[item.name] if has else item.default
        marks = [] if (word := decides(where.replace("[]", ""))) == "what" else [f"*decides {word}*"]
        marks += ["*only while training*"] if item.metadata["training_only"] else []
        yield where, accepts, value(default), "; ".join([unit, *marks])
        if not unit.startswith("group"):
            for inner, dotted in nested(hint, where):
                yield from rows_of(inner, default, dotted)


def nested(hint: Any, where: str) -> Iterator[tuple[type, str]]:
    """The dataclasses in a type, with what stands before the names of their options."""
    if is_dataclass(hint):
        yield hint, f"{where}."  # type: ignore[misc]
    elif get_origin(hint) is list:
        yield from nested(get_args(hint)[0], f"{where}[]")
    elif get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            yield from nested(part, where)


def value(default: Any) -> str:
    """A default as it would be typed."""
    if default in (MISSING, inspect.Parameter.empty, options.REQUIRED):
        return "to be given"
    if isinstance(default, Mapping):
        return "of the choice, or below"
    if isinstance(default, (list, tuple)) and len(default) > 10:
        return f"{len(default)} of them"
    # YAML writes these as JSON does, but for the quotes of a text.
    return f"`{default}`" if isinstance(default, str) else f"`{json.dumps(default)}`"


def arguments(cls: type) -> dict[str, str]:
    """What the docstring of a class says of each argument."""
    found = re.search(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", inspect.getdoc(cls) or "", re.MULTILINE)
    said: dict[str, str] = {}
    names: list[str] = []
    for line in (found[1] if found else "").splitlines():
        if start := re.match(r" {4}(\w[\w, ]*): (.*)", line):
            names = [name.strip() for name in start[1].split(",")]
            said |= dict.fromkeys(names, start[2])
        elif line.strip():
            said |= {name: f"{said[name]} {line.strip()}" for name in names}
    return said


def sentence(text: str | None) -> str:
    """The first sentence of a text, or its first paragraph where that is one sentence."""
    paragraph = " ".join((text or "").strip().split("\n\n")[0].split())
    # A letter alone before the dot is of a name.
    return re.split(r"(?<![ .][A-Z]\.)(?<=\.)\s+(?=[A-Z`])", paragraph)[0]


def table(rows: list[tuple[str, str, str, str]]) -> str:
    """A Markdown table of options."""
    lines = ["| option | accepts | default | meaning, unit |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{name}` | {cell(accepts)} | {default} | {cell(said)} |" for name, accepts, default, said in rows
    ]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """A text of a docstring as Markdown that ends no cell."""
    plain = re.sub(r":\w+:`~?(?:\w+\.)*([^`]+)`", r"`\1`", text)
    plain = plain.replace("``", "`").replace("\\tau", "τ")
    return plain.replace("|", "\\|")


def main() -> int:
    """Write the page, or say whether it is current."""
    made = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == made:
            return 0
        print("docs/options.md is not what the options say; make docs", file=sys.stderr)
        return 1
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
