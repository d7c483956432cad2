"""What a user's configuration may not do: configuration is data and names no code to run.

Hydra's own configuration can: a callback, a launcher or a logger is a class that Hydra builds before
any of our code runs. So the composed result is compared with the one without the user's input, and
every difference outside a short list of harmless options is refused.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

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
    "ray": ("hydra_plugins.hydra_ray_launcher", "ray"),
}
PLUGINS: Mapping[str, Collection[str]] = {"launcher": LAUNCHERS, "sweeper": ("basic",)}  # that Hydra builds
# Environment variables that a configuration may read; secrets are not among them.
VARIABLES = ("EMBEDRUN_DATA", "HOME", "USER", "TMPDIR", "SLURM_JOB_ID", "SLURM_PROCID", "SLURM_ARRAY_TASK_ID")
_CODE_KEYS = ("_target_", "_partial_", "_args_", "_recursive_", "_convert_",
              "trust_remote_code", "auto_map", "code_revision")  # fmt: skip
_FREE = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.mode", "hydra.sweeper.params")
_BY_GROUP = tuple(f"hydra/{group}" for group in PLUGINS)
_CLASSES = ("hydra._internal.core_plugins.basic_", "hydra_plugins.hydra_")  # of these plug-ins
_BOOKKEEPING = ("hydra.overrides", "hydra.runtime", "hydra.job.name", "hydra.job.override_dirname",
                "hydra.job.num", "hydra.job.id", "hydra.job.config_name")  # fmt: skip


def environment_variable(name: str, default: object = None) -> Any:
    """Replaces OmegaConf's `oc.env`: only the listed variables may be read."""
    if name not in VARIABLES:
        raise ValueError(f"may not read the environment variable {name!r}, only {', '.join(VARIABLES)}")
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


def override_problems(overrides: Sequence["Override"], groups: Collection[str]) -> list[str]:
    """What the command line asks of Hydra and may not, and choices that lead out of the preset folders.

    `groups` are those whose choices are files.
    """
    problems = []
    for override in overrides:
        key = override.key_or_group
        if key == "hydra" or override.is_hydra_override():
            problems += _problems_of_hydra(override)
        elif key in groups and key != "dataset" and not override.is_sweep_override():  # a path is data there
            problems += _outside(key, override.value())
    return problems


def _problems_of_hydra(override: "Override") -> list[str]:
    key = override.key_or_group
    allowed = key in _BY_GROUP or _starts(key, (*_FREE, "hydra.launcher"))
    if not allowed or not set(_CODE_KEYS).isdisjoint(key.split(".")):
        return [_may_not_change(key)]
    if override.is_sweep_override():
        return [f"{key}: takes one value; a multirun varies the options of its runs alone"]
    return []


def hydra_problems(composed: Plain, allowed: Plain) -> list[str]:
    """What the user's files and options changed in Hydra's own configuration and may not.

    `composed` is the unresolved `hydra` node as the user's input makes it, `allowed` the same with nothing
    but the command line's own `hydra...` overrides, which `override_problems` checks.
    """
    before, after = dict(_flat(allowed, "hydra")), dict(_flat(composed, "hydra"))
    changed = [
        ".".join(key.split(".")[:3])
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key) and not _starts(key, (*_BOOKKEEPING, *_FREE))
    ]
    problems = [_may_not_change(key) for key in dict.fromkeys(changed)]
    choices = composed["runtime"]["choices"]
    problems += [problem for group, choice in choices.items() for problem in _outside(group, choice)]
    for plugin, names in PLUGINS.items():
        group, choice = f"hydra/{plugin}", choices.get(f"hydra/{plugin}")
        if choice not in names:
            problems.append(f"{group}={choice}: not one of {', '.join(names)}")
        elif choice != allowed["runtime"]["choices"].get(group):
            problems.append(f"{group}={choice}: Hydra ignores it in an experiment file; type it instead")
    return problems


def plugin_problems(plugins: Mapping[str, Plain]) -> list[str]:
    """Code named inside the options of the launcher or the sweeper, which Hydra builds whole.

    `plugins` are the two nodes, resolved, since an interpolation may make a mapping.
    """
    problems = []
    for plugin, options in plugins.items():
        if not str(options.get("_target_")).startswith(_CLASSES):
            problems.append(f"hydra.{plugin}._target_: may not be set; choose hydra/{plugin}=...")
        others = {key: value for key, value in options.items() if key != "_target_"}
        problems += code_keys(others, f"hydra.{plugin}")
    return problems


def _may_not_change(key: str) -> str:
    return f"{key}: Hydra's own settings may not be changed; allowed are {', '.join((*_FREE, *_BY_GROUP))}"


def _outside(group: str, choice: object) -> list[str]:
    return [
        f"{group}={name}: leads out of the folder of its group; give a name without '..' and leading '/', "
        "and add your own files with --config-dir"
        for name in (choice if isinstance(choice, list) else [choice])
        if isinstance(name, str) and (name.startswith("/") or ".." in PurePosixPath(name).parts)
    ]


def _flat(data: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _flat(value, f"{path}.{key}")
    else:
        yield path, data


def _starts(key: str, prefixes: Sequence[str]) -> bool:
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in prefixes)


def launcher_of(overrides: Sequence[str]) -> str:
    """Name of the launcher that the overrides choose; an unknown one is refused where they are composed."""
    name = "basic"
    for override in overrides:
        key, _, value = override.partition("=")
        if key.lstrip("+") == "hydra/launcher":
            name = value.strip("'\"")
    module, extra = LAUNCHERS.get(name, LAUNCHERS["basic"])
    try:
        installed = find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        installed = False
    if not installed:
        raise ConfigError(f"hydra/launcher={name}: its plugin is not installed; {install_extra(extra)}")
    return name
