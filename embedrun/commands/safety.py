"""What a user's configuration may not do: configuration is data and names no code to run.

Hydra's own configuration can: a callback, a launcher or a logger is a class that Hydra builds before
any of our code runs. So the composed result is compared with the one without the user's input, and
every difference outside a short list of harmless options is refused.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from embedrun.errors import ConfigError

LAUNCHERS = ("basic", "joblib", "submitit_local", "submitit_slurm")
SWEEPERS = ("basic",)
# Environment variables that a configuration may read; secrets are not among them.
VARIABLES = ("EMBEDRUN_DATA", "HOME", "USER", "TMPDIR", "SLURM_JOB_ID", "SLURM_PROCID", "SLURM_ARRAY_TASK_ID")
_CODE_KEYS = ("_target_", "_partial_", "_args_", "_recursive_", "_convert_")
_FREE = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.mode", "hydra.sweeper.params")
_CHOSEN = ("hydra.launcher", "hydra.sweeper")
_BOOKKEEPING = ("hydra.overrides", "hydra.runtime", "hydra.job.name", "hydra.job.override_dirname", "hydra.job.num",
                "hydra.job.id", "hydra.job.config_name")  # fmt: skip
_FILE_BYTES = 1 << 20
_FILE_NODES = 100_000


def environment_variable(name: str, default: Any = None) -> Any:
    """Stands in for OmegaConf's `oc.env`: only the listed variables may be read."""
    if name not in VARIABLES:
        raise ValueError(
            f"a configuration may not read the environment variable {name!r}, only {', '.join(VARIABLES)}"
        )
    return os.environ.get(name, default)


def code_keys(data: Any, path: str = "") -> Iterator[str]:
    """One problem for each key that would make Hydra build an object."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            where = f"{path}.{key}" if path else str(key)
            if key in _CODE_KEYS:
                yield f"{where}: configuration is data and may not name code to run; remove it"
            yield from code_keys(value, where)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from code_keys(value, f"{path}[{index}]")


def hydra_problems(composed: Mapping[str, Any], plain: Mapping[str, Any]) -> list[str]:
    """What the user's input changed in Hydra's own configuration and may not.

    Args:
        composed: the `hydra` node as the user's input makes it, unresolved.
        plain: the same node without any user input.
    """
    before, after = dict(_flat(plain, "hydra")), dict(_flat(composed, "hydra"))
    problems = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) == after.get(key) or _starts(key, _BOOKKEEPING) or _starts(key, _FREE):
            continue
        if _starts(key, _CHOSEN):
            continue  # held against the allow-list by choice_problems
        problems.append(f"{key}: Hydra's own settings may not be changed; allowed are {', '.join(_FREE)}")
    return problems


def override_problems(overrides: Sequence[str]) -> list[str]:
    """The same for the command line itself, where our own search path would hide the user's."""
    keys = [override.partition("=")[0].lstrip("+~") for override in overrides]
    return [
        f"{key}: Hydra's own settings may not be changed; allowed are {', '.join(_FREE)}"
        for key in keys
        if key.startswith("hydra.") and not _starts(key, (*_FREE, *_CHOSEN))
    ]


def choice_problems(
    composed: Mapping[str, Any], plain: Mapping[str, Any], overrides: Sequence[str]
) -> list[str]:
    """Launchers and sweepers come by group from an allow-list, and only from the command line."""
    problems = []
    for group, allowed in (("launcher", LAUNCHERS), ("sweeper", SWEEPERS)):
        chosen = composed["runtime"]["choices"].get(f"hydra/{group}")
        if chosen not in allowed:
            problems.append(f"hydra/{group}={chosen}: not one of {', '.join(allowed)}")
        elif chosen != plain["runtime"]["choices"].get(f"hydra/{group}") and not any(
            override.lstrip("+").startswith(f"hydra/{group}=") for override in overrides
        ):
            problems.append(
                f"hydra/{group}={chosen}: an experiment file may not choose it, because Hydra ignores that in a "
                f"multirun; pass hydra/{group}={chosen} on the command line"
            )
        elif chosen == "basic":
            target = composed[group].get("_target_")
            if target != plain[group].get("_target_"):
                problems.append(
                    f"hydra.{group}._target_: may not be set; choose hydra/{group}=... from {', '.join(allowed)}"
                )
        elif not str(composed[group].get("_target_")).startswith("hydra_plugins."):
            problems.append(
                f"hydra.{group}._target_: may not be set; choose hydra/{group}=... from {', '.join(allowed)}"
            )
    return problems


def check_files(folder: Path) -> None:
    """Refuse YAML of the user's folder that is too large, or that aliases blow up.

    Raises:
        ConfigError: naming each such file.
    """
    problems = []
    for file in sorted(folder.rglob("*.yaml")):
        if file.stat().st_size > _FILE_BYTES:
            problems.append(f"{file}: over 1 MiB; configuration files are small")
            continue
        try:
            nodes = _expanded(yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader), {})
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as fault:
            problems.append(f"{file}: not valid YAML: {' '.join(str(fault).split())}")
            continue
        if nodes > _FILE_NODES:
            problems.append(f"{file}: its aliases expand to over {_FILE_NODES:,} values")
    if problems:
        raise ConfigError(problems)


def _expanded(node: Any, seen: dict[int, int]) -> int:
    """Number of values once every alias is written out; a shared node is counted each time."""
    if node is None or isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in seen:
        return seen[id(node)]
    seen[id(node)] = _FILE_NODES  # a node that contains itself never ends
    children = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
    seen[id(node)] = min(1 + sum(_expanded(child, seen) for child in children), 10 * _FILE_NODES)
    return seen[id(node)]


def _flat(data: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _flat(value, f"{path}.{key}")
    else:
        yield path, data


def _starts(key: str, prefixes: Sequence[str]) -> bool:
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in prefixes)
