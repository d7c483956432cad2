"""docs/options.md, made from what the options say of themselves: `make docs`; with --check: is it current?

    python scripts/options.py [--check]

Types, ranges and units are those of embedrun/config/options.py, which `embedrun.config.check` holds every
configuration to. Defaults are what a command composes from conf/ where nothing is given. Choices are the
files of conf/, each with the first sentence at its head. Options of loss terms, data sets and evaluation
tasks are the constructors' and their docstrings'.
"""

import sys
from pathlib import Path

from embedrun import family, reference
from embedrun.cli import COMMANDS as WHAT
from embedrun.config import options, presets
from embedrun.reference import COMMANDS, GROUPS, Option, choices, options_of, plain, sentence, value

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"
# Of the open families: title, and where the options stand and what every member takes.
FAMILIES = {
    "loss": (
        "Loss terms",
        "`loss.terms.<term>.<option>`. Every term takes `weight` (unitless, 0 or more; 0 skips it), `name`\n"
        "(the term, where the key is another word) and `views` ([losses.md](losses.md)).",
    ),
    "dataset": (
        "Data sets",
        "`dataset.<option>`, for the `dataset.name` of the heading. Every data set takes `roles`,\n"
        "which of its texts are queries or documents ([training.md](training.md)).",
    ),
    "evaluation": (
        "Evaluation tasks",
        "`evaluation.tasks.<task>.<option>`, and the same below `training.dev_tasks`. Every task takes\n"
        "`name`, where the key is another word.",
    ),
}
INTRO = """# Options

Made by `make docs` from the code; do not edit. A command refuses every other key and every value outside
these ranges, with all faults in one message, before anything is loaded. A whole number without an upper
bound here is at most 2,147,483,647.

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
    less = [f"- *{word}*: {said}.\n" for word, said in options.DECIDES.items() if word != "what"]
    parts = [INTRO.replace("DECIDES", "".join(less)), "## Commands\n"]
    for command in COMMANDS:
        parts += command_section(command)
    parts.append("## Groups\n")
    composed = reference.defaults("train")
    for group, schema in GROUPS.items():
        parts += group_section(group, schema, composed[group])
    for name in FAMILIES:
        parts += family_section(name)
    parts += presets_section()
    return "\n".join(parts).rstrip() + "\n"


def command_section(command: str) -> list[str]:
    """The options of a command that are of no group, and the groups that it takes."""
    groups = reference.groups_of(command)
    said = [f"[{group}](#{group})" + (f" (`{chosen}`)" if chosen else "") for group, chosen in groups.items()]
    takes = [f"Groups, with their default choice: {', '.join(said)}.\n"] if groups else []
    also = " `embedrun check`, `tune` and `reproduce` take the same options." if command == "train" else ""
    found = options_of(COMMANDS[command], reference.defaults(command))
    rows = [row(one) for one in found if one.name not in groups]
    return [f"### embedrun {command}\n", f"{WHAT[command].capitalize()}.{also}\n", *takes, table(rows)]


def group_section(group: str, schema: type | None, composed: object) -> list[str]:
    """The choices of a group and its options."""
    parts = [f"### {group}\n"]
    if schema is not None:
        parts.append(f"{sentence(schema.__doc__)}\n")
    parts.append(choice_table(group))
    if schema is None:
        parts.append("Options: [data sets](#data-sets).\n")
        return parts
    return [*parts, table([row(one) for one in options_of(schema, composed, f"{group}.")])]


def family_section(name: str) -> list[str]:
    """The members of an open family and the options of their constructors."""
    title, intro = FAMILIES[name]
    parts = [f"## {title}\n", f"{intro}\n"]
    for one in family.names(name):
        if family.source(name, one) is None:  # of a package that is installed here and not everywhere
            continue
        found = reference.member(name, one)
        rows = [row(option._replace(name=option.name.rpartition(".")[2])) for option in found.options]
        parts += [f"### `{one}`\n", f"{cell(sentence(found.doc))} `{found.file}`\n"]
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
        choice_table("experiment"),
        "### --scale of reproduce and table\n",
        choice_table("scale"),
        "### Tables of reproduce and table\n",
        ", ".join(tables) + "\n",
    ]


def choice_table(group: str) -> str:
    """The files of a group, each with the first sentence at its head."""
    lines = ["| choice | what it is |", "| --- | --- |"]
    lines += [f"| `{name}` | {cell(said)} |" for name, said in choices(group).items()]
    return "\n".join(lines) + "\n"


def row(one: Option) -> tuple[str, str, str, str]:
    """Option, what it accepts, default and meaning."""
    said = value(one.default)
    default = f"`{said}`" if said is not None else "of the choice, or below"
    if isinstance(one.default, list) and len(one.default) > 10:
        default = said or ""
    if one.is_needed:
        default = "to be given"
    return one.name, one.accepts, default, "; ".join([one.meaning, *(f"*{mark}*" for mark in one.marks)])


def table(rows: list[tuple[str, str, str, str]]) -> str:
    """A Markdown table of options."""
    lines = ["| option | accepts | default | meaning, unit |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{name}` | {cell(accepts)} | {default} | {cell(said)} |" for name, accepts, default, said in rows
    ]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """A text of a docstring as Markdown that ends no cell."""
    return plain(text).replace("|", "\\|")


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
