"""What Hydra does: a request becomes plain data, held against the rules of safety."""

import contextlib
import copy
import os
import re
import traceback
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from embedrun.config import presets, safety, scale
from embedrun.config.check import nearest
from embedrun.config.decides import has_split, is_own
from embedrun.config.request import (
    AUTO,
    Composed,
    Request,
    evaluations,
    groups_of,
    loosened,
    quoted,
    task_overrides,
    without_auto,
)  # fmt: skip
from embedrun.config.synonyms import lead_on
from embedrun.errors import ConfigError
from embedrun.files import Plain

# Here, so that whoever composes a configuration, with the rules of safety or without, has it.
OmegaConf.register_new_resolver("positive_from", scale.positive_from, replace=True)


def made(request: Request, overrides: Sequence[str], job: int | None, strict: bool) -> Composed:
    """The configuration of a request with other overrides; the arguments are those of `compose.composed`."""
    wanted = list(overrides)
    parsed = _parsed(wanted, request.config_dir)
    refused = safety.override_problems(parsed, groups_of(request.config_dir))
    folder = request.config_dir
    if refused := refused or [
        *_data_as_choices(parsed, folder), *_no_words(parsed, folder), *_second(parsed, request.root)
    ]:  # fmt: skip
        raise ConfigError(refused)
    if request.config_dir is not None:
        safety.check_files(request.config_dir)
    with started(request.config_dir) as extra:
        full = _compose(request, [*wanted, *extra], strict)
        if added := _own_evaluation(full, wanted):
            full = _compose(request, [*without_auto(wanted), *added, *extra], strict)
        about_hydra = [override.input_line or "" for override in parsed if override.is_hydra_override()]
        own = [*about_hydra, *extra]
        untouched = _compose(request, own, True) if own else _chosen(presets.folder(), request.root)
        node, plain = _plain_node(full), _plain_node(untouched)
        problems = [
            *safety.code_keys(asked := _unresolved(full)),
            *safety.user_problems(asked),
            *safety.hydra_problems(node, plain),
            *safety.choice_problems(node, plain),
        ]
        if problems:
            raise ConfigError(problems)
        made = _resolved(full, task_overrides(wanted), job)
        if problems := [*safety.byte_problems(made.config)]:  # of a variable of the environment
            raise ConfigError(problems)
        taken = [*without_auto(made.overrides), *added] if added else made.overrides
        return replace(made, choices=_choices(full, taken, groups_of(request.config_dir)), added=added)


def _own_evaluation(full: DictConfig, overrides: Sequence[str]) -> tuple[str, ...]:
    """The evaluation of a user's own rows, where neither they nor a preset chose one: their test split.

    In a list, it stands in place of ``auto``, and the others stay.
    """
    config: Any = _unresolved(full)
    dataset = config.get("dataset")
    words = evaluations(overrides) or [full.hydra.runtime.choices.get("evaluation")]
    named = any(re.search(r"evaluation\.tasks(?!\.heldout)", one) for one in overrides)
    if AUTO not in words or named or not is_own(dataset):
        return ()
    tasks, others = (config.get("evaluation") or {}).get("tasks"), [one for one in words if one != AUTO]
    if not isinstance(tasks, dict) or any(tasks.get(name) != one for name, one in _sts().items()):
        return ()  # a preset has named something, as options of a task
    if not others and tasks.keys() - _sts() - {"heldout"}:
        return ()  # likewise
    own = [*(["heldout"] if has_split(dataset, "test") else []), *others] or ["none"]
    return (f"evaluation={own[0]}" if len(own) == 1 else f"evaluation=[{','.join(own)}]",)


@cache
def _sts() -> Plain:
    """The tasks of ``evaluation=auto`` as its file has them; only read."""
    return OmegaConf.to_container(OmegaConf.load(presets.folder() / "evaluation" / "sts.yaml").tasks)  # type: ignore[return-value]


def files(request: Request) -> list[tuple[str, str]]:
    """The YAML files of a request in the order in which they are composed: package and text of each."""
    folders = [presets.folder(), *([] if request.config_dir is None else [request.config_dir])]
    with started(request.config_dir) as extra:
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        taken = hydra.config_loader.compute_defaults_list(
            request.root, [*request.overrides, *extra], RunMode.RUN
        )
    found = []
    for one in taken.defaults:
        path = next((folder / f"{one.config_path}.yaml" for folder in folders
                     if (folder / f"{one.config_path}.yaml").is_file()), None)  # fmt: skip
        if path is not None:  # else of Hydra's own
            found.append((one.package or "", path.read_text(encoding="utf-8")))
    return found


def fixed(request: Request) -> list[str]:
    """The overrides that all jobs of a multirun share.

    Raises:
        ConfigError: for what Hydra or the rules of safety refuse.
    """
    parsed = _parsed(request.overrides, request.config_dir)
    if refused := safety.override_problems(parsed, groups_of(request.config_dir)):
        raise ConfigError(refused)
    return [override.input_line or "" for override in parsed if not override.is_sweep_override()]


def jobs(request: Request, params: Plain) -> list[list[str]]:
    """The overrides of each job of a multirun, in Hydra's order; `params` are those of a sweep preset."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    arguments = [f"{key}={value}" for key, value in params.items()] + task_overrides(request.overrides)
    (found,) = BasicSweeper.split_arguments(_parsed(arguments, request.config_dir), None)
    return found


def _parsed(overrides: Sequence[str], config_dir: Path | None) -> list[Override]:
    choices: Any = _Choices(config_dir)
    try:
        return OverridesParser.create(config_loader=choices).parse_overrides(list(overrides))
    except (HydraException, ValueError, RecursionError) as fault:  # the latter two: numbers, nested lists
        raise ConfigError(_worded(fault)) from None


def _second(parsed: Sequence[Override], root: str) -> list[str]:
    """What is wrong with `+loss=angle`: an experiment behind it would silently take its place."""
    taken = presets.read(presets.folder(), root).choices
    again = [one for one in parsed if one.is_add() and one.package is None and one.key_or_group in taken]
    return [_twice(one.key_or_group) for one in again]


def _twice(group: str) -> str:
    return f"+{group}=...: {group} already has a choice; write {group}=... without the plus sign"


_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".txt")


def _data_as_choices(parsed: Sequence[Override], config_dir: Path | None) -> list[str]:
    """What is wrong with `dataset=train.csv`: a file, a folder or the hub in place of a kind of data set."""
    problems, known = [], _Choices(config_dir).get_group_options("dataset")
    for override in parsed:
        value = override.value() if override.key_or_group == "dataset" else None
        words = value if isinstance(value, list) else [value]
        if len(words) > 1:
            each = ",".join(map(str, words))
            several = f"-m dataset={each} makes a run of each"
            if not all(word in known for word in words):
                several = "for your own, dataset=pairs dataset.path=FOLDER reads all files of a folder"
            problems.append(f"dataset=[{each}]: a run has one data set; {several}")
        value = words[0] if len(words) == 1 else None
        if not isinstance(value, str) or value in known:
            continue
        name = value.removesuffix(".gz").lower()
        if name.endswith(_SUFFIXES) or "/" in value or os.path.exists(value):
            form = "texts" if name.endswith(".txt") else "pairs"
            others = "pairs" if form == "texts" else "triplets, dataset=texts"
            problems.append(
                f"dataset={value}: names a kind of data set; for your own, write dataset={form} "
                f"dataset.path={value} (or dataset={others})"
            )
    return problems


def _no_words(parsed: Sequence[Override], config_dir: Path | None) -> list[str]:
    """What is wrong with `loss=3`: Hydra wants words for choices, and says so in words of its own."""
    problems, groups = [], groups_of(config_dir)
    for override in parsed:
        group, value = override.key_or_group, override.value()
        words = value if isinstance(value, list) else [value]
        if group in groups and any(isinstance(word, int | float) for word in words):
            odd = next(str(word).lower() for word in words if isinstance(word, int | float))
            problems.append(_no_choice(group, odd, _Choices(config_dir).get_group_options(group)))
    return problems


class _Choices:
    """All of Hydra's configuration loader that a glob asks for: what it chooses from."""

    def __init__(self, config_dir: Path | None) -> None:
        self._config_dir = config_dir

    def get_group_options(self, group: str, results_filter: object = None) -> list[str]:
        folders = (None,) if self._config_dir is None else (None, self._config_dir)
        return sorted({name for folder in folders for name in presets.groups(folder).get(group, [])})


@contextlib.contextmanager
def started(config_dir: Path | None, name: str = "app") -> Iterator[list[str]]:
    """A fresh Hydra over conf/; yields the overrides that add the user's own folder.

    `name` is what launchers call their jobs.
    """
    GlobalHydra.instance().clear()
    OmegaConf.register_new_resolver("oc.env", safety.environment_variable, replace=True)
    _import_plugins()
    try:
        with initialize_config_dir(str(presets.folder()), version_base=None, job_name=name):
            loader: Any = GlobalHydra.instance().hydra.config_loader  # type: ignore[union-attr]
            loader.repository = _Remembered(loader.repository, _read(presets.folder()))
            yield [f"hydra.searchpath=[{quoted(f'file://{config_dir}')}]"] if config_dir else []
    finally:
        GlobalHydra.instance().clear()


@cache
def _read(folder: Path) -> dict[str, ConfigResult | None]:
    """What was read of the presets of a folder so far, by name: a process takes them as they first were."""
    return {}


class _Remembered(ConfigRepository):
    """Hydra's view of the presets, which would read and parse each file again for every composition."""

    def __init__(self, plain: ConfigRepository, read: dict[str, ConfigResult | None]) -> None:
        self.sources, self._read = plain.sources, read

    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        """Of other folders than the presets' own nothing is remembered."""
        super().initialize_sources(config_search_path)
        self._read = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        """As Hydra's own; the caller may change what it gets."""
        if config_path not in self._read:
            self._read[config_path] = super().load_config(config_path)
        return copy.deepcopy(self._read[config_path])

    def __deepcopy__(self, _: object) -> "_Remembered":
        return _Remembered(self, self._read)

    def __getstate__(self) -> dict[str, Any]:
        """Another process, which a launcher has started, reads anew."""
        return {"sources": self.sources, "_read": {}}


def _import_plugins() -> None:
    """Hydra's own plug-ins, and whatever else is installed as one, once.

    Raises:
        ConfigError: with the file of one that cannot be imported; Hydra passes over an ImportError alone.
    """
    try:
        Plugins.instance()
    except (Exception, SystemExit) as fault:
        files = [frame.filename for frame in traceback.extract_tb(fault.__traceback__)]
        file = next((one for one in reversed(files) if "hydra_plugins" in one), "hydra_plugins")
        raise ConfigError(
            f"{file}: this plug-in of Hydra cannot be imported ({type(fault).__name__}: {fault}); "
            "mend it, or uninstall its package"
        ) from fault


def _compose(request: Request, overrides: list[str], strict: bool) -> DictConfig:
    try:
        return _full(request.root, overrides)
    except ConfigCompositionException as fault:
        if strict or not _OVERRIDDEN.search(str(fault)):
            raise ConfigError(_refusal(fault, request)) from None
    except Exception as fault:  # what Hydra raises for a bad override has no common class
        raise ConfigError(_worded(fault)) from None
    try:
        return _full(request.root, loosened(request, overrides))
    except Exception as fault:
        raise ConfigError(_refusal(fault, request)) from None


def _full(root: str, overrides: Sequence[str] = ()) -> DictConfig:
    """What Hydra composes, with its own node, for a caller inside `started`.

    Hydra applies overrides of values last: of configurations that differ in nothing else, such as the jobs of
    a sweep, the choices are composed once, and the function that Hydra applies them by is called on copies.
    The copies have the choices alone in Hydra's notes of its overrides, and its note of the current folder is
    older; only interpolations read these, and what has one is composed whole.
    """
    if any(_WHOLE.search(one) for one in overrides):
        return compose(root, overrides=list(overrides), return_hydra_config=True)
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    ConfigLoaderImpl.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=False)
    choices = [str(one.input_line) for one in parsed if _is_choice(one)]
    config = copy.deepcopy(_chosen(presets.folder(), root, *choices))
    ConfigLoaderImpl._apply_overrides_to_config([one for one in parsed if not _is_choice(one)], config)
    return config


_WHOLE = re.compile(r"\$|hydra/|hydra\.searchpath")  # interpolations; Hydra's own choices; other presets


@cache
def _chosen(folder: Path, root: str, *choices: str) -> DictConfig:
    """The same without overrides of values; only read."""
    return compose(root, overrides=list(choices), return_hydra_config=True)


def _is_choice(override: Override) -> bool:
    """As Hydra decides it: what names a folder of presets, and is not given as a mapping."""
    is_group = os.path.isdir(presets.folder() / override.key_or_group)
    return is_group and not isinstance(override.value(), dict)


_OVERRIDDEN = re.compile(r"Could not override '(.+?)'")


def _refusal(fault: Exception, request: Request) -> str:
    """As `_worded`, but of a key that the configuration lacks: Hydra says to add it, which helps nobody."""
    found = _OVERRIDDEN.search(str(fault))
    if found is None:
        return _worded(fault)
    key = found[1].partition("@")[0].replace("/", ".")
    chosen = [group for group in presets.read(presets.folder(), request.root).choices if "/" not in group]
    if key in presets.groups() and key not in chosen:
        return f"{key}: embedrun {request.command} has no such group (it has: {', '.join(chosen)})"
    known = list(_paths(_unresolved(_full(request.root)), ""))
    return f"{found[1]}: unknown key{lead_on(key, known)}"


def _paths(data: object, path: str) -> Iterator[str]:
    """Every key of nested mappings, by its full path."""
    if isinstance(data, dict):
        for key, value in data.items():
            where = f"{path}.{key}" if path else str(key)
            yield where
            yield from _paths(value, where)


def _worded(fault: Exception) -> str:
    """What Hydra found, in our words, with the nearest spelling."""
    text = " ".join(str(fault).split())
    if not isinstance(fault, (HydraException, OmegaConfBaseException)):
        return f"an override does not fit the configuration ({type(fault).__name__}: {text})"
    if isinstance(fault, MissingConfigException) and fault.missing_cfg_file:
        group, _, choice = fault.missing_cfg_file.rpartition("/")
        options = list(fault.options or [])
        if options:
            return _no_choice(group, choice, options)
        return f"{fault.missing_cfg_file}: no such group{nearest(group, presets.groups())}"
    if isinstance(fault, OverrideParseException):
        return f"{fault.override}: not an override; write option=value, and quote a value that has spaces"
    found = re.search(r"Multiple values for ([\w/]+)|^([\w/]+) appears more than once", text)
    if found:
        return _twice(found[1] or found[2])
    found = re.search(r"An item is already at '(.+?)'", text)
    if found:
        return f"+{found[1]}: is there already; write {found[1]}=... without the plus sign"
    found = re.search(r"Could not delete from config. '(.+?)' does not exist", text)
    if found:
        return f"~{found[1]}: there is no such option to leave out"
    found = re.search(r"Ambiguous value for argument '(.+?)'", text)
    if found:
        return f"{found[1]}: several values; add -m for one run each, or write a list as key=[a,b]"
    return re.sub(r"\s*Set the environment variable HYDRA_FULL_ERROR.*", "", text)


def _no_choice(group: str, choice: str, options: Sequence[str]) -> str:
    name = f"+{group}" if group == "experiment" else group
    return f"{name}={choice}: no such choice{nearest(choice, options)} (there are: {', '.join(options)})"


def _task(full: DictConfig) -> DictConfig:
    return OmegaConf.masked_copy(full, [key for key in full if key != "hydra"])  # type: ignore[arg-type]


def _unresolved(full: DictConfig) -> Plain:
    found: Any = OmegaConf.to_container(full, resolve=False)
    return {key: value for key, value in found.items() if key != "hydra"}


def _plain_node(full: DictConfig) -> Plain:
    return OmegaConf.to_container(full.hydra, resolve=False)  # type: ignore[return-value]


def _resolved(full: DictConfig, overrides: Sequence[str], job: int | None) -> Composed:
    with open_dict(full), read_write(full):
        full.hydra.job.num = 0 if job is None else job
        full.hydra.job.id = str(full.hydra.job.num)
    HydraConfig.instance().set_config(full)  # so that ${hydra:...} resolves
    try:
        hydra = full.hydra
        plugins = {
            name: OmegaConf.to_container(hydra[name], resolve=True) for name in ("launcher", "sweeper")
        }
        if problems := safety.plugin_problems(plugins):  # type: ignore[arg-type]
            raise ConfigError(problems)
        place = str(hydra.run.dir if job is None else hydra.sweep.dir)
        subdir = "" if job is None else str(hydra.sweep.subdir)
        given = place != "." or subdir not in ("", str(job))
        config: Any = OmegaConf.to_container(_task(full), resolve=True)
        if isinstance(config.get("evaluation"), dict):
            # Where it is missing, texts are scored as before there was this option; a new run is not.
            config["evaluation"].setdefault("max_length", None)
        return Composed(
            config=config,
            overrides=tuple(overrides),
            multirun="MULTIRUN" in str(hydra.mode),
            sweep=plugins["sweeper"].get("params") or {},  # type: ignore[union-attr]
            directory=str(Path(place) / subdir) if given else None,
            parent=place if job is not None and place != "." else None,
        )
    except OmegaConfBaseException as fault:
        key = getattr(fault, "full_key", None) or "config"
        reason = re.sub(r"^\w+ raised while resolving interpolation: ", "", str(fault).splitlines()[0])
        raise ConfigError(f"{key}: {reason}") from None
    finally:
        HydraConfig.instance().cfg = None


def _choices(full: DictConfig, overrides: Sequence[str], groups: Collection[str]) -> dict[str, str]:
    """The presets behind a composition, but Hydra's own, in the order of the configuration."""
    found = {str(group): str(choice) for group, choice in full.hydra.runtime.choices.items() if choice}
    # Hydra keeps no choice of a group where several were given, as a list.
    several = presets.typed(overrides, groups).items()
    found |= {group: choice for group, choice in several if choice.startswith("[")}
    order = ["experiment", *map(str, full)]
    own = sorted(found, key=lambda group: order.index(group) if group in order else len(order))
    return {group: found[group] for group in own if not group.startswith("hydra/")}


def config(command: str, overrides: Sequence[str]) -> dict[str, Any]:
    """As `compose.Compositions.config`."""
    try:
        with started(None):
            return OmegaConf.to_container(_task(_full(command, overrides)), resolve=True)  # type: ignore[return-value]
    except (HydraException, OmegaConfBaseException) as fault:
        said = " ".join(str(fault).split()).removesuffix(".")
        raise ConfigError(f"{command} {' '.join(overrides)}: does not compose ({said})") from None


def choices(command: str, overrides: Sequence[str]) -> dict[str, str]:
    """As `compose.Compositions.choices`."""
    with started(None):
        return _choices(_full(command, overrides), overrides, set(presets.groups()))
