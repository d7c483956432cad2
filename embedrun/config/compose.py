"""From what was typed to one plain configuration: composed by Hydra, then held against the rules of safety.

Hydra is imported inside the functions that call it: that takes a third of a second, which `--help` has not.
"""

import contextlib
import copy
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from embedrun.config import mixture, presets, safety, scale
from embedrun.config.check import nearest, options_of, suggest
from embedrun.config.decides import has_split, is_own
from embedrun.config.options import COMMANDS
from embedrun.config.request import (
    AUTO,
    Composed,
    Request,
    is_hydra,
    quoted,
    task_overrides,
    without_auto,
)
from embedrun.errors import ConfigError
from embedrun.files import Plain

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig


def composed(
    request: Request, overrides: Sequence[str] | None = None, *, job: int | None = None, strict: bool = False
) -> Composed:
    """Compose a request and hold the result against the rules of safety.

    For one job of a multirun, `overrides` stand in place of the request's own and `job` is its number. An
    unknown key is refused here only if `strict`; by default it is let in, for the report of all faults.

    Raises:
        ConfigError: what Hydra rejects, in our words; and every key that names code to run.
    """
    given = list(request.overrides if overrides is None else overrides)
    parsed = _parsed(given, request)
    _refuse(safety.override_problems(parsed, request.groups))
    ours = presets.read(presets.folder(), request.root).choices
    _refuse([fault for override in parsed for fault in _problems_of_choice(override, ours, request.groups)])
    if request.config_dir is not None and (hydra_folder := request.config_dir / "hydra").exists():
        raise ConfigError(f"{hydra_folder}: Hydra's own groups may not be added to; remove the folder")
    with started(request.config_dir) as folder:
        full = _compose(request, parsed, folder, strict)
        config, hydra = _unresolved(full)
        taken = given
        if added := _evaluation_of_user_rows(config, hydra["runtime"]["choices"], given):
            taken = [*without_auto(given), *added]
            full = _compose(request, _parsed(taken, request), folder, strict)
            config, hydra = _unresolved(full)
        if "stages" in {**config, **(config.get("experiment") or {})}:
            _refuse(["experiment: a list of stages, which `embedrun train` and `embedrun check` alone take"])
        about_hydra = [override for override in given if is_hydra(override)]
        _, allowed = _unresolved(_choices_composed(request.root, [*about_hydra, *folder]))
        _refuse([*safety.code_keys(config), *safety.hydra_problems(hydra, allowed)])
        choices = _choices(hydra["runtime"]["choices"], list(config), task_overrides(taken), request.groups)
        return replace(
            _resolved(full, job), overrides=tuple(task_overrides(given)), choices=choices, added=added
        )


def sweep(request: Request) -> list[list[str]]:
    """The overrides of each job of a multirun, in Hydra's order: the last option varies fastest."""
    parsed = _parsed(request.overrides, request)
    _refuse(safety.override_problems(parsed, request.groups))
    fixed = [override.input_line or "" for override in parsed if not override.is_sweep_override()]
    params = composed(request, fixed).sweep  # of a sweep preset
    typed = [*(f"{key}={value}" for key, value in params.items()), *task_overrides(request.overrides)]
    varied = {override.get_key_element(): _values(override) for override in _parsed(typed, request)}
    jobs = [[*filter(is_hydra, fixed), *job] for job in itertools.product(*varied.values())]
    if not jobs:
        raise ConfigError("-m: no jobs; an option has no value left, such as a glob(...) that fits no choice")
    return jobs


class Compositions:
    """Configurations that are compared with each other, each composed once, also with a user's presets."""

    def __init__(self, config_dir: Path | None = None) -> None:
        self._of = cache(
            lambda *given: composed(Request(given[0], given[1:], config_dir=config_dir), strict=True)
        )

    def config(self, command: str, overrides: Sequence[str]) -> dict[str, Any]:
        """The resolved configuration of a root, such as `train`, as plain data."""
        return copy.deepcopy(dict(self._of(command, *overrides).config))

    def choices(self, command: str, overrides: Sequence[str]) -> dict[str, str]:
        """The presets behind the same configuration, by group."""
        return dict(self._of(command, *overrides).choices)


@contextlib.contextmanager
def started(config_dir: Path | None) -> Iterator[list[str]]:
    """A fresh Hydra over conf/; yields the overrides that add the user's own folder."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    register_resolvers()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(presets.folder()), version_base=None, job_name="embedrun"):
        yield [f"hydra.searchpath=[{quoted(f'file://{config_dir}')}]"] if config_dir else []


def register_resolvers() -> None:
    """Give OmegaConf the words of our presets, and take the environment's secrets from its `oc.env`."""
    from omegaconf import OmegaConf

    OmegaConf.register_new_resolver("oc.env", safety.environment_variable, replace=True)
    OmegaConf.register_new_resolver("positive_from", scale.positive_from, replace=True)


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise ConfigError(problems)


def _parsed(overrides: Sequence[str], request: Request) -> list["Override"]:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    # All of Hydra's configuration loader that a glob asks for: what it chooses from.
    loader: Any = SimpleNamespace(get_group_options=lambda group, *_, **__: request.groups.get(group, []))
    try:
        return OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))
    except Exception as fault:  # Hydra's own; of long numbers and of nested lists Python's
        raise ConfigError(_worded(fault, request)) from None


def _values(override: "Override") -> list[str]:
    """What a multirun makes of one override: itself, or one for each of its values."""
    from hydra.errors import HydraException

    key = override.get_key_element()
    if not override.is_sweep_override():
        return [f"{key}={override.get_value_element_as_str()}"]
    try:
        return [f"{key}={value}" for value in override.sweep_string_iterator()]
    except HydraException as fault:  # interval(...)
        raise ConfigError(f"{override.input_line}: {fault}") from None


def _problems_of_choice(
    override: "Override", ours: Collection[str], groups: Mapping[str, Sequence[str]]
) -> list[str]:
    group, value, typed = override.key_or_group, override.value(), override.input_line
    words = value if isinstance(value, list) else [value]
    if override.is_sweep_override():
        return [f"{typed}: several values; add -m for one run each, or write a list, {group}=[a,b]"]
    if override.is_add() and override.package is None and group in ours:
        # An experiment behind it would silently take its place.
        return [f"+{group}=...: {group} already has a choice; write {group}=... without the plus"]
    if group == "dataset" and len(words) > 1:
        parts = ", ".join(f"{word}: {{dataset: {word}, share: 0.5}}" for word in words)
        return [
            f"{typed}: for one run on several data sets, dataset=mix 'dataset.parts={{{parts}}}', each "
            f"perhaps with a loss of its own; for a run on each, -m dataset={','.join(map(str, words))}"
        ]
    return _unknown_choices(group, map(str, (word for word in words if not isinstance(word, dict))), groups)


def _unknown_choices(group: str, words: Iterable[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    known = groups.get(group)
    if not known:
        return []
    # Options of the group and files of a folder in it are no choices; a path of rows is one.
    names = [word for word in words if group == "dataset" or "/" not in word]
    return [_no_choice(group, name, known) for name in names if name not in known]


def _compose(
    request: Request, parsed: Sequence["Override"], folder: Sequence[str], strict: bool
) -> "DictConfig":
    """Compose the choices with Hydra, then set the option values in the result, as Hydra itself does last.

    Jobs of a sweep and rows of a table differ in values alone, so that they share the composition.
    """
    from omegaconf import OmegaConf

    values = [override for override in parsed if _is_value(override, request.groups)]
    others = [override.input_line or "" for override in parsed if override not in values]
    try:
        full = copy.deepcopy(_choices_composed(request.root, [*others, *folder]))
        for override in values:
            key = override.key_or_group
            # Options that no choice lists, and parts, whose names are the user's.
            adds = not strict or key in options_of(COMMANDS[request.root]) or key.startswith(mixture.PARTS)
            OmegaConf.update(full, key, override.value(), force_add=adds)
        if request.root == "train":
            _expand_parts(full, request, folder, any(_is_of_loss(override) for override in parsed))
    except ConfigError:
        raise
    except Exception as fault:  # what Hydra raises for a bad override has no common class
        raise ConfigError(_worded(fault, request)) from None
    return full


def _expand_parts(full: "DictConfig", request: Request, folder: Sequence[str], has_loss: bool) -> None:
    """Put the presets of the parts of a mixture in place; `has_loss`: the user chose that of the run."""
    from omegaconf import OmegaConf, open_dict

    if not OmegaConf.is_dict(full.dataset) or full.dataset.get("name") != mixture.NAME:
        return
    parts: Any = OmegaConf.to_container(full.dataset, resolve=True)["parts"]  # type: ignore[index, call-overload]

    def preset(group: str, choice: str | None, dataset: Plain) -> Plain:
        if choice is not None:
            _refuse(_unknown_choices(group, [choice], request.groups))
        chosen = [] if choice is None else [f"{group}={quoted(choice)}"]
        part = copy.deepcopy(_choices_composed(request.root, [*chosen, *folder]) if chosen else full)
        with open_dict(part):
            if group == "dataset":
                part.dataset = presets.merged(OmegaConf.to_container(part.dataset), dataset)  # type: ignore[arg-type]
            else:
                part.dataset = dataset
        return OmegaConf.to_container(part[group], resolve=True)  # type: ignore[return-value]

    given = parts.values() if isinstance(parts, Mapping) else ()
    without = any(isinstance(part, Mapping) and part.get("loss") is None for part in given)
    if has_loss and given and not without:
        raise ConfigError(
            "loss: every part of the mixture has a loss of its own; give dataset.parts.NAME.loss, or leave "
            "that out"
        )
    OmegaConf.update(full, "dataset.parts", mixture.expanded(parts, preset), merge=False)
    if given:
        OmegaConf.update(full, "loss.terms", {}, merge=False)  # each part has its own now


def _is_of_loss(override: "Override") -> bool:
    return override.key_or_group.partition(".")[0] == "loss"


def _is_value(override: "Override", groups: Collection[str]) -> bool:
    is_choice = override.key_or_group in groups and not isinstance(override.value(), dict)
    changes = not (override.is_add() or override.is_delete() or override.is_hydra_override())
    return changes and not is_choice and override.package is None


def _choices_composed(root: str, overrides: Sequence[str]) -> "DictConfig":
    """What Hydra composes, its `hydra` node included; for callers inside `started`, which only read it."""
    user_folder = any(override.startswith("hydra.searchpath=") for override in overrides)
    # A user may edit files meanwhile.
    compose = _compose_choices.__wrapped__ if user_folder else _compose_choices
    return compose(presets.folder(), root, *overrides)


@lru_cache(maxsize=256)
def _compose_choices(folder: Path, root: str, *overrides: str) -> "DictConfig":
    from hydra import compose

    return compose(root, overrides=list(overrides), return_hydra_config=True)


def _worded(fault: Exception, request: Request) -> str:
    from hydra.errors import HydraException, MissingConfigException, OverrideParseException
    from omegaconf.errors import OmegaConfBaseException

    text = " ".join(str(fault).split())
    if not isinstance(fault, (HydraException, OmegaConfBaseException)):
        return f"the configuration cannot be composed ({type(fault).__name__}: {text})"
    if isinstance(fault, MissingConfigException) and fault.missing_cfg_file:
        group, _, choice = fault.missing_cfg_file.rpartition("/")
        if fault.options:
            return _no_choice(group, choice, fault.options)
        return f"{fault.missing_cfg_file}: no such group{nearest(group, presets.groups())}"
    if isinstance(fault, OverrideParseException):
        return f"{fault.override}: not an override; write option=value, and quote a value that has spaces"
    if missing := re.search(r"Could not override '(.+?)'", text):
        chosen = presets.read(presets.folder(), request.root).choices
        groups = ", ".join(group for group in chosen if "/" not in group)
        return f"{missing[1]}: embedrun {request.command} has no such group (it has: {groups})"
    if re.search(r"Key '.+?' is not in struct", text):
        key = getattr(fault, "full_key", None) or text
        return f"{key}: unknown key{suggest(key, list(options_of(COMMANDS[request.root])))}"
    return re.sub(r"\s*Set the environment variable HYDRA_FULL_ERROR.*", "", text)


def _no_choice(group: str, choice: str, options: Sequence[str]) -> str:
    name = f"+{group}" if group == "experiment" else group
    tip = f"; for rows of your own: dataset=pairs dataset.path={choice}" if group == "dataset" else ""
    return f"{name}={choice}: no such choice{nearest(choice, options)} (there are: {', '.join(options)}){tip}"


def _evaluation_of_user_rows(
    config: Plain, choices: Mapping[str, Any], overrides: Sequence[str]
) -> tuple[str, ...]:
    """The evaluation of a user's own rows, where neither they nor a preset chose one: their test split.

    In a list, it stands in place of ``auto``, and the others stay.
    """
    words = presets.chosen(overrides, "evaluation") or [choices.get("evaluation")]
    others, dataset = [word for word in words if word != AUTO], config.get("dataset")
    if len(others) == len(words) or not is_own(dataset) or _names_tasks(config, overrides, also=bool(others)):
        return ()
    chosen = [*(["heldout"] if has_split(dataset, "test") else []), *others] or ["none"]
    return (f"evaluation={chosen[0]}" if len(chosen) == 1 else f"evaluation=[{','.join(chosen)}]",)


def _names_tasks(config: Plain, overrides: Sequence[str], *, also: bool) -> bool:
    """Whether a preset or an override names a task or an option of one; `also` if further choices may."""
    if any(re.search(r"evaluation\.tasks(?!\.heldout)", override) for override in overrides):
        return True
    sts = presets.read(presets.folder(), "evaluation/sts").options["tasks"]
    tasks = (config.get("evaluation") or {}).get("tasks")
    if not isinstance(tasks, dict) or {**tasks, **sts} != tasks:
        return True
    return not also and bool(tasks.keys() - sts - {"heldout"})


def _unresolved(full: "DictConfig") -> tuple[Plain, Plain]:
    from omegaconf import OmegaConf

    config: Any = OmegaConf.to_container(full, resolve=False)
    return config, config.pop("hydra")


def _resolved(full: "DictConfig", job: int | None) -> Composed:
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf, open_dict, read_write
    from omegaconf.errors import OmegaConfBaseException

    try:
        with open_dict(full), read_write(full):
            full.hydra.job.num = job or 0
            full.hydra.job.id = str(full.hydra.job.num)
            HydraConfig.instance().set_config(full)  # so that ${hydra:...} resolves
            settings = _settings(full.hydra, job)
            del full["hydra"]
        config: Any = OmegaConf.to_container(full, resolve=True)
    except OmegaConfBaseException as fault:
        key = getattr(fault, "full_key", None) or "config"
        reason = re.sub(r"^\w+ raised while resolving interpolation: ", "", str(fault).splitlines()[0])
        raise ConfigError(f"{key}: {reason}") from None
    finally:
        HydraConfig.instance().cfg = None
    if isinstance(config.get("evaluation"), dict):
        # A configuration from before this option lacks it, and is scored as it was then; a new one has it.
        config["evaluation"].setdefault("max_length", None)
    return Composed(config=config, **settings)


def _settings(hydra: "DictConfig", job: int | None) -> dict[str, Any]:
    plugins = {name: _plain(hydra[name]) for name in safety.PLUGINS}
    _refuse(safety.plugin_problems(plugins))
    place = str(hydra.run.dir if job is None else hydra.sweep.dir)
    subdir = "" if job is None else str(hydra.sweep.subdir)
    is_given = place != "." or subdir not in ("", str(job))
    return {
        "multirun": "MULTIRUN" in str(hydra.mode),
        "sweep": plugins["sweeper"].get("params") or {},
        "directory": str(Path(place) / subdir) if is_given else None,
        "parent": place if job is not None and place != "." else None,
    }


def _plain(node: Any) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_dict(node) else {}


def _choices(
    composed: Mapping[str, Any], keys: Sequence[str], overrides: Sequence[str], groups: Collection[str]
) -> dict[str, str]:
    """The presets behind a composition, but Hydra's own, in the order of the configuration's keys."""
    choices = {group: str(choice) for group, choice in composed.items() if choice}
    # Hydra keeps no choice of a group where several were given, as a list.
    typed = presets.typed(overrides, groups).items()
    choices |= {group: choice for group, choice in typed if choice.startswith("[")}
    order = ["experiment", *keys]
    ordered = sorted(choices, key=lambda group: order.index(group) if group in order else len(order))
    return {group: choices[group] for group in ordered if not group.startswith("hydra/")}
