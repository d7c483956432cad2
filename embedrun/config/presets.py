"""Where conf/ is, what stands in it, and what a paper leaves open in an experiment."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from embedrun.errors import ConfigError
from embedrun.files import Plain, read_yaml

_PACKAGE = Path(__file__).resolve().parents[1]


def folder() -> Path:
    """The preset folder: `conf/` beside the package in a checkout, inside it in a wheel."""
    installed = _PACKAGE / "conf"
    return installed if installed.is_dir() else _PACKAGE.parent / "conf"


@cache
def groups(conf: Path | None = None) -> dict[str, list[str]]:
    """The choices of every config group, by group, both sorted, as they first were. Only read."""
    root = conf or folder()
    choices: dict[str, list[str]] = {}
    for path in root.glob("*/**/*.yaml"):
        choices.setdefault(path.parent.relative_to(root).as_posix(), []).append(path.stem)
    return {group: sorted(names) for group, names in sorted(choices.items())}


def typed(overrides: Sequence[str], known: Collection[str]) -> dict[str, str]:
    """The choices among overrides, `loss=cosent` of the group `loss`, by group; `known` are the groups.

    A list of choices stays as it is written, `[sts,geometry]`.
    """
    choices: dict[str, str] = {}
    for override in overrides:
        key, equals, choice = override.lstrip("+").partition("=")
        if equals and key.partition("@")[0] in known and choice != "null":
            choices[key] = choice.strip("'\"")
    return choices


class Preset(NamedTuple):
    """A file of `conf/`: what its defaults list holds, and its own options.

    `parents` are what it builds on, below the preset folder, as `experiment/angle_bert`; `choices` are by
    group.
    """

    parents: list[str]
    choices: dict[str, str]
    options: Plain


def read(root: Path, name: str) -> Preset:
    """A preset, such as `experiment/angle_bert`, as its file has it, without those that it builds on."""
    options = read_yaml(root / f"{name}.yaml") or {}
    defaults = options.pop("defaults", None) or []
    inside = name.rpartition("/")[0]
    parents = [entry for entry in defaults if isinstance(entry, str) and entry != "_self_"]
    pairs = [pair for entry in defaults if isinstance(entry, Mapping) for pair in entry.items()]
    return Preset(
        [path[1:] if path.startswith("/") else f"{inside}/{path}".lstrip("/") for path in parents],
        {key.split()[-1].lstrip("/"): str(choice) for key, choice in pairs},  # behind `override`, `optional`
        options,
    )


def whole(root: Path, name: str) -> Plain:
    """The options of a preset, such as `evaluation/auto`, on top of those that it builds on."""
    preset = read(root, name)
    options: Plain = {}
    for parent in preset.parents:
        options = merged(options, whole(root, parent))
    return merged(options, preset.options)


def merged(first: Plain, second: Plain | None) -> Plain:
    """Options with others on top of them, option by option."""
    options = dict(first)
    for key, value in (second or {}).items():
        both = isinstance(value, Mapping) and isinstance(options.get(key), Mapping)
        options[key] = merged(options[key], value) if both else value
    return options


def stages(name: str, folders: Sequence[Path]) -> list[str]:
    """The command lines that an experiment consists of; none of one that is a run by itself."""
    root = next((root for root in folders if (root / f"experiment/{name}.yaml").is_file()), None)
    try:
        options = {} if root is None else read_yaml(root / f"experiment/{name}.yaml")
    except ValueError:  # no plain YAML, which whoever composes it says
        return []
    lines = options.get("stages") if isinstance(options, Mapping) else None
    if wrong := [line for line in lines or () if not isinstance(line, str)]:
        raise ConfigError(
            f"stages of {name}: {wrong[0]!r} is no text: YAML takes a colon before a blank for a mapping; "
            "put the stage into double quotes"
        )
    return list(lines or ())


def remarks(
    experiments: Sequence[str], folders: Sequence[Path] = (), *, mark: str = "open"
) -> dict[str, list[str]]:
    """The comments that begin with a mark, of experiments and those that they build on.

    `open`: what they chose where the paper leaves a choice open; `printed`: what the paper says that a run
    takes. The texts of each, by its name; one without such a comment is left out. `experiments` are names, as
    `+experiment=` has them; `folders` are preset folders that are searched after ours.
    """
    # A comment below one, indented by two more blanks, continues it.
    marked = re.compile(rf"^# {mark}: (.*(?:\n#   .*)*)", re.MULTILINE)
    texts: dict[str, list[str]] = {}
    waiting = [f"experiment/{name}" for name in experiments]
    for name in waiting:  # it grows
        root = next((root for root in [folder(), *folders] if (root / f"{name}.yaml").is_file()), None)
        if root is None:
            continue
        if choices := marked.findall((root / f"{name}.yaml").read_text(encoding="utf-8")):
            texts[name.removeprefix("experiment/")] = [
                " ".join(choice.replace("\n#", " ").split()) for choice in choices
            ]
        waiting += [parent for parent in read(root, name).parents if parent not in waiting]
    return texts


def chosen(overrides: Sequence[str], group: str) -> list[str]:
    """What the overrides choose of a group, as ``evaluation=x`` or ``evaluation=[x,y]``."""
    values = [typed([override], (group,)).get(group, "") for override in overrides]
    words = [word.strip(" '\"") for value in values for word in value.strip("[]").split(",")]
    return [word for word in words if word]
