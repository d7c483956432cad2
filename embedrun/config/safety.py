"""What a user's configuration may not do: configuration is data and names no code to run.

Hydra's own configuration can: a callback, a launcher or a logger is a class that Hydra builds before
any of our code runs. So the composed result is compared with the one without the user's input, and
every difference outside a short list of harmless options is refused.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from embedrun import files
from embedrun.config.presets import MOST_FILES
from embedrun.console import is_utf8, masked, names_user
from embedrun.errors import ConfigError, install_extra
from embedrun.files import Plain

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override


# The launchers of Hydra that may be chosen: the module that each needs, and our extra that installs it.
LAUNCHERS = {
    "basic": ("hydra", ""),
    "joblib": ("hydra_plugins.hydra_joblib_launcher", "sweep"),
    "submitit_local": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
    "submitit_slurm": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
}
SWEEPERS = ("basic",)
# Environment variables that a configuration may read; secrets are not among them.
VARIABLES = ("EMBEDRUN_DATA", "HOME", "USER", "TMPDIR", "SLURM_JOB_ID", "SLURM_PROCID", "SLURM_ARRAY_TASK_ID")
_CODE_KEYS = ("_target_", "_partial_", "_args_", "_recursive_", "_convert_",
              "trust_remote_code", "auto_map", "code_revision")  # fmt: skip
_FREE = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.mode", "hydra.sweeper.params")
_BY_GROUP = ("hydra/launcher", "hydra/sweeper")
_PLUGINS = ("hydra._internal.core_plugins.basic_", "hydra_plugins.hydra_")
_BOOKKEEPING = ("hydra.overrides", "hydra.runtime", "hydra.job.name", "hydra.job.override_dirname",
                "hydra.job.num", "hydra.job.id", "hydra.job.config_name")  # fmt: skip


def environment_variable(name: str, default: object = None) -> Any:
    """Replaces OmegaConf's `oc.env`: only the listed variables may be read."""
    if name not in VARIABLES:
        raise ValueError(
            f"a configuration may not read the environment variable {name!r}, only {', '.join(VARIABLES)}"
        )
    return os.environ.get(name, default)


def code_keys(data: object, path: str = "") -> Iterator[str]:
    """One problem for each key that would make Hydra build an object, or a library fetch code and run it."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            where = f"{path}.{key}" if path else str(key)
            if key in _CODE_KEYS:
                yield f"{where}: configuration is data and may not name code to run; remove it"
            yield from code_keys(value, where)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from code_keys(value, f"{path}[{index}]")


def user_problems(data: object, path: str = "") -> Iterator[str]:
    """One problem for each text with an address that names a user or a password; neither is shown."""
    for where, text in _texts(data, path):
        if names_user(text):
            yield (
                f"{masked(where)}: holds an address with a user or password, which would be written down; "
                "leave them out: keys and tokens are read from variables (key_variable, token_variable, "
                "HF_TOKEN)"
            )


def byte_problems(data: object, path: str = "") -> Iterator[str]:
    """One problem for each text with bytes that are not UTF-8: a file's name may have them, YAML may not."""
    for where, text in _texts(data, path):
        if not is_utf8(text):
            yield (
                f"{where}: {text!r} has bytes that are not UTF-8, which no configuration can record; rename "
                "the file or folder, or name it by a link"
            )


def _texts(data: object, path: str) -> Iterator[tuple[str, str]]:
    """Every text of nested mappings and lists, with its place."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _texts(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            yield from _texts(value, f"{path}[{index}]")
    elif isinstance(data, str):
        yield path, data


def word_problems(words: Sequence[str]) -> list[str]:
    """The same of the words of a command line, by option, flag or place."""
    problems = []
    for number, (before, word) in enumerate(zip(("", *words), words, strict=False), 1):
        key, is_option, _ = word.partition("://")[0].partition("=")
        place = key if is_option else before if before.startswith("-") else f"argument {number}"
        problems += user_problems(word, place)
    return problems


def override_problems(overrides: Sequence["Override"], groups: Collection[str]) -> list[str]:
    """What the command line asks of Hydra and may not, and choices that lead out of the preset folders.

    `groups` are those whose choices are files.
    """
    problems = []
    for override in overrides:
        key = override.key_or_group
        problems += byte_problems((override.input_line or "").partition("=")[2], key)
        if key == "hydra" or override.is_hydra_override():
            allowed = key in _BY_GROUP or _starts(key, (*_FREE, "hydra.launcher"))
            if not allowed or any(part in _CODE_KEYS for part in key.split(".")):
                problems.append(_may_not_change(key))
            elif override.is_sweep_override():
                problems.append(f"{key}: takes one value; a multirun varies the options of its runs alone")
        elif key in groups and key != "dataset" and not override.is_sweep_override():  # a path is data there
            problems += _outside(key, override.value())
    return problems


def hydra_problems(composed: Plain, plain: Plain) -> list[str]:
    """What the user's files and options changed in Hydra's own configuration and may not.

    `composed` is the unresolved `hydra` node as the user's input makes it, `plain` the same with nothing but
    the command line's own `hydra...` overrides, which `override_problems` checks.
    """
    before, after = dict(_flat(plain, "hydra")), dict(_flat(composed, "hydra"))
    changed = [
        ".".join(key.split(".")[:3])
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key) and not _starts(key, (*_BOOKKEEPING, *_FREE))
    ]
    return [_may_not_change(key) for key in dict.fromkeys(changed)]


def choice_problems(composed: Plain, plain: Plain) -> list[str]:
    """Choices out of their group's folder; launchers and sweepers that may not be chosen, or not in a file.

    Both nodes are as for `hydra_problems`.
    """
    chosen = composed["runtime"]["choices"]
    problems = [problem for group, choice in chosen.items() for problem in _outside(group, choice)]
    for group, allowed in (("launcher", LAUNCHERS), ("sweeper", SWEEPERS)):
        choice = chosen.get(f"hydra/{group}")
        if choice not in allowed:
            problems.append(f"hydra/{group}={choice}: not one of {', '.join(allowed)}")
        elif choice != plain["runtime"]["choices"].get(f"hydra/{group}"):
            problems.append(
                f"hydra/{group}={choice}: an experiment file may not choose it, because Hydra ignores that "
                f"in a multirun; pass hydra/{group}={choice} on the command line"
            )
        elif not str(composed[group].get("_target_")).startswith(_PLUGINS):
            problems.append(
                f"hydra.{group}._target_: may not be set; choose hydra/{group}=... from {', '.join(allowed)}"
            )
    return problems


def plugin_problems(plugins: Mapping[str, Plain]) -> list[str]:
    """Code named inside the options of the launcher or the sweeper, which Hydra builds whole.

    `plugins` are the two nodes, resolved, since an interpolation may make a mapping.
    """
    return [
        problem
        for group, options in plugins.items()
        for key, value in options.items()
        if key != "_target_"  # chosen by group, see choice_problems
        for problem in code_keys({key: value}, f"hydra.{group}")
    ]


def _may_not_change(key: str) -> str:
    return f"{key}: Hydra's own settings may not be changed; allowed are {', '.join((*_FREE, *_BY_GROUP))}"


def _outside(group: str, choice: object) -> list[str]:
    """A problem for each choice that is a path out of its group's folder."""
    names = [name for name in (choice if isinstance(choice, list) else [choice]) if isinstance(name, str)]
    return [
        f"{group}={name}: leads out of the folder of its group; give a name without '..' and leading '/', "
        "and add your own files with --config-dir"
        for name in names
        if name.startswith("/") or ".." in PurePosixPath(name).parts
    ]


def check_files(folder: Path) -> None:
    """Refuse YAML of the user's folder that is too large, that aliases blow up, or that is Hydra's.

    Links are followed, as Hydra does.

    Raises:
        ConfigError: naming each such file.
    """
    problems = []
    if (folder / "hydra").exists():
        # It would stand in for Hydra's own launchers and sweepers, which are classes to build.
        problems.append(f"{folder / 'hydra'}: Hydra's own groups may not be added to; remove the folder")
    for file in files.below(folder, most=MOST_FILES):
        if file.suffix != ".yaml" or file.is_dir():
            continue
        try:
            files.yaml_node(file)
        except OSError as fault:
            problems.append(f"{file}: cannot be read: {fault.strerror}")
        except ValueError as fault:
            problems.append(f"{file}: {fault}")
    if problems:
        raise ConfigError(problems)


def _flat(data: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _flat(value, f"{path}.{key}")
    else:
        yield path, data


def _starts(key: str, prefixes: Sequence[str]) -> bool:
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in prefixes)


def launcher_of(overrides: Sequence[str]) -> str:
    """Name of the launcher that the overrides choose; an unknown one is refused where they are composed.

    Raises:
        ConfigError: if its plugin is not installed.
    """
    name = "basic"
    for override in overrides:
        key, _, value = override.partition("=")
        if key.lstrip("+") == "hydra/launcher":
            name = value.strip("'\"")
    module, extra = LAUNCHERS.get(name, LAUNCHERS["basic"])
    if not _is_there(module):
        raise ConfigError(f"hydra/launcher={name}: its plugin is not installed; {install_extra(extra)}")
    return name


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False
