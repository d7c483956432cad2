"""Compose one configuration with Hydra's compose API, before Hydra may launch anything."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from embedrun import presets
from embedrun.commands import safety
from embedrun.commands.arguments import Request
from embedrun.config.spelling import nearest
from embedrun.errors import ConfigError


@dataclass(frozen=True)
class Composed:
    """One composed configuration.

    Args:
        config: resolved plain data, without the `hydra` node; `"???"` where no value was given.
        overrides: the task overrides that made it.
        multirun: whether the configuration asks for a multirun.
        sweep: `hydra.sweeper.params`, what a sweep preset varies.
        directory: the run directory that the user gave, or None.
        launcher: name of the launcher.
    """

    config: dict[str, Any]
    overrides: tuple[str, ...]
    multirun: bool
    sweep: dict[str, Any]
    directory: str | None
    launcher: str


def composed(
    request: Request, overrides: Sequence[str] | None = None, *, job: int | None = None, strict: bool = False
) -> Composed:
    """Compose and hold the result against the safety rules.

    Args:
        request: the command line.
        overrides: instead of the request's own, for one job of a multirun.
        job: number of that job.
        strict: refuse an unknown key here; by default it is let in, for the report of all faults.

    Raises:
        ConfigError: what Hydra rejects, in our words; and every key that names code to run.
    """
    wanted = list(request.overrides if overrides is None else overrides)
    if refused := safety.override_problems(wanted):
        raise ConfigError(refused)
    if request.config_dir is not None:
        safety.check_files(request.config_dir)
    with _hydra(request.config_dir) as extra:
        full = _compose(request.root, [*wanted, *extra], strict)
        plain = _plain_node(compose(request.root, overrides=extra, return_hydra_config=True))
        node = _plain_node(full)
        problems = [
            *safety.code_keys(OmegaConf.to_container(_task(full), resolve=False)),
            *safety.hydra_problems(node, plain),
            *safety.choice_problems(node, plain, wanted),
        ]
        if problems:
            raise ConfigError(problems)
        return _resolved(full, task_overrides(wanted), job)


def task_overrides(overrides: Sequence[str]) -> list[str]:
    """The overrides that are not about Hydra itself."""
    return [override for override in overrides if not re.match(r"[+~]*hydra[./]", override)]


def sweep(request: Request) -> list[list[str]]:
    """The overrides of each job of a multirun, in Hydra's order."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    fixed = [override for override in request.overrides if not _is_sweep(override)]
    params = composed(request, fixed).sweep
    hydra_only = [override for override in fixed if override not in task_overrides(fixed)]
    arguments = [f"{key}={value}" for key, value in params.items()] + task_overrides(request.overrides)
    parsed = OverridesParser.create().parse_overrides(arguments)
    (jobs,) = BasicSweeper.split_arguments(parsed, None)
    return [[*hydra_only, *job] for job in jobs]


def _is_sweep(override: str) -> bool:
    try:
        return OverridesParser.create().parse_override(override).is_sweep_override()
    except HydraException as fault:
        raise ConfigError(_worded(fault)) from None


@contextlib.contextmanager
def _hydra(config_dir: Path | None) -> Iterator[list[str]]:
    """A fresh Hydra over conf/; yields the overrides that add the user's own folder."""
    GlobalHydra.instance().clear()
    OmegaConf.register_new_resolver("oc.env", safety.environment_variable, replace=True)
    try:
        with initialize_config_dir(str(presets.folder()), version_base=None):
            yield [f"hydra.searchpath=['file://{config_dir}']"] if config_dir else []
    finally:
        GlobalHydra.instance().clear()


def _compose(root: str, overrides: list[str], strict: bool) -> DictConfig:
    try:
        return compose(root, overrides=overrides, return_hydra_config=True)
    except ConfigCompositionException as fault:
        if not strict and "is not in struct" in f"{fault.__cause__} {fault}":
            return _compose_loosely(root, overrides, fault)
        raise ConfigError(_worded(fault)) from None
    except (HydraException, OmegaConfBaseException) as fault:
        raise ConfigError(_worded(fault)) from None


def _compose_loosely(root: str, overrides: list[str], fault: Exception) -> DictConfig:
    """Compose with unknown keys let in, so that `check` reports them with every other fault."""
    groups = presets.groups()
    loose = [
        f"++{override}"
        if re.match(r"[\w.]+=", override) and override.partition("=")[0] not in groups
        else override
        for override in overrides
    ]
    try:
        return compose(root, overrides=loose, return_hydra_config=True)
    except (HydraException, OmegaConfBaseException):
        raise ConfigError(_worded(fault)) from None


def _worded(fault: Exception) -> str:
    """What Hydra found, in our words, with the nearest spelling."""
    text = " ".join(str(fault).split())
    if isinstance(fault, MissingConfigException) and fault.missing_cfg_file:
        group, _, choice = fault.missing_cfg_file.rpartition("/")
        options = list(fault.options or [])
        if options:
            name = f"+{group}" if group == "experiment" else group
            return (
                f"{name}={choice}: no such choice{nearest(choice, options)} (there are: {', '.join(options)})"
            )
        return f"{fault.missing_cfg_file}: no such group{nearest(group, presets.groups())}"
    if isinstance(fault, OverrideParseException):
        return f"{fault.override}: not an override; write option=value, with quotes around values that hold spaces"
    found = re.search(r"Multiple values for ([\w/]+)|^([\w/]+) appears more than once", text)
    if found:
        group = found[1] or found[2]
        return f"+{group}=...: {group} already has a choice; write {group}=... without the plus sign"
    found = re.search(r"Ambiguous value for argument '(.+?)'", text)
    if found:
        return f"{found[1]}: several values; add -m for one run each, or write a list as key=[a,b]"
    return re.sub(r"\s*Set the environment variable HYDRA_FULL_ERROR.*", "", text)


def _task(full: DictConfig) -> DictConfig:
    return OmegaConf.masked_copy(full, [key for key in full if key != "hydra"])  # type: ignore[arg-type]


def _plain_node(full: DictConfig) -> dict[str, Any]:
    return OmegaConf.to_container(full.hydra, resolve=False)  # type: ignore[return-value]


def _resolved(full: DictConfig, overrides: Sequence[str], job: int | None) -> Composed:
    with open_dict(full), read_write(full):
        full.hydra.job.num = 0 if job is None else job
        full.hydra.job.id = str(full.hydra.job.num)
    HydraConfig.instance().set_config(full)  # so that ${hydra:...} resolves
    try:
        hydra = full.hydra
        place = hydra.run.dir if job is None else hydra.sweep.dir
        directory = None if place == "." else str(place if job is None else Path(place) / hydra.sweep.subdir)
        return Composed(
            config=OmegaConf.to_container(_task(full), resolve=True),  # type: ignore[arg-type]
            overrides=tuple(overrides),
            multirun="MULTIRUN" in str(hydra.mode),
            sweep=OmegaConf.to_container(hydra.sweeper, resolve=True).get("params") or {},  # type: ignore[union-attr]
            directory=directory,
            launcher=hydra.runtime.choices["hydra/launcher"],
        )
    except OmegaConfBaseException as fault:
        key = getattr(fault, "full_key", None) or "config"
        raise ConfigError(f"{key}: {str(fault).splitlines()[0]}") from None
    finally:
        HydraConfig.instance().cfg = None
