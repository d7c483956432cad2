"""From what was typed to one plain configuration: composed by Hydra, then held against the rules of safety.

Hydra is imported inside the functions that call it: that takes a third of a second, which `--help` has not.
"""

import contextlib
import copy
import itertools
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedrun.config import presets, safety, scale
from embedrun.config.check import nearest
from embedrun.config.decides import has_split, is_own
from embedrun.config.request import (
    AUTO,
    Composed,
    Request,
    evaluations,
    is_hydra,
    loosened,
    quoted,
    task_overrides,
    without_auto,
)
from embedrun.config.synonyms import lead_on
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
    _refuse(safety.override_problems(parsed, request.groups) or _choice_problems(parsed, request))
    if request.config_dir is not None:
        _refuse(safety.folder_problems(request.config_dir))
    with started(request.config_dir) as extra:
        full = _compose(request, [*given, *extra], strict)
        if added := _evaluation_of_own_rows(full, given):
            full = _compose(request, [*without_auto(given), *added, *extra], strict)
        about_hydra = [one.input_line or "" for one in parsed if one.is_hydra_override()]
        typed = [*about_hydra, *extra]
        allowed = _full(request.root, typed) if typed else _chosen(presets.folder(), request.root)
        _refuse(
            [
                *safety.code_keys(_unresolved(full)),
                *safety.hydra_problems(_hydra_node(full), _hydra_node(allowed)),
            ]
        )
        taken = [*without_auto(given), *added] if added else given
        return replace(
            _resolved(full, job),
            overrides=tuple(task_overrides(given)),
            choices=_choices(full, task_overrides(taken), request.groups),
            added=added,
        )


def sweep(request: Request) -> list[list[str]]:
    """The overrides of each job of a multirun, in Hydra's order: the last option varies fastest.

    Raises:
        ConfigError: for what is refused, and if there is no job.
    """
    parsed = _parsed(request.overrides, request)
    _refuse(safety.override_problems(parsed, request.groups))
    fixed = [one.input_line or "" for one in parsed if not one.is_sweep_override()]
    params = composed(request, fixed).sweep  # of a sweep preset
    typed = [*(f"{key}={value}" for key, value in params.items()), *task_overrides(request.overrides)]
    varied = {one.get_key_element(): _values(one) for one in _parsed(typed, request)}
    jobs = [[*filter(is_hydra, fixed), *job] for job in itertools.product(*varied.values())]
    if not jobs:
        raise ConfigError("-m: no jobs; an option has no value left, such as a glob(...) that fits no choice")
    return jobs


class Compositions:
    """Configurations of presets that are compared with each other, each composed once."""

    def __init__(self) -> None:
        self._composed: dict[tuple[str, ...], Composed] = {}

    def config(self, command: str, overrides: Sequence[str]) -> dict[str, Any]:
        """The resolved configuration of a root, such as `train`, as plain data.

        Raises:
            ConfigError: if the overrides do not compose.
        """
        return copy.deepcopy(dict(self._of(command, overrides).config))

    def choices(self, command: str, overrides: Sequence[str]) -> dict[str, str]:
        """The presets behind the same configuration, by group."""
        return dict(self._of(command, overrides).choices)

    def _of(self, command: str, overrides: Sequence[str]) -> Composed:
        key = (command, *overrides)
        if key not in self._composed:
            self._composed[key] = composed(Request(command, tuple(overrides)), strict=True)
        return self._composed[key]


@contextlib.contextmanager
def started(config_dir: Path | None, name: str = "app") -> Iterator[list[str]]:
    """A fresh Hydra over conf/; yields the overrides that add the user's own folder.

    `name` is what launchers call their jobs.
    """
    from hydra import initialize
    from hydra.core.global_hydra import GlobalHydra

    register_resolvers()
    _share_files()
    GlobalHydra.instance().clear()
    with initialize(config_path=None, version_base=None, job_name=name):
        yield [f"hydra.searchpath=[{quoted(f'file://{config_dir}')}]"] if config_dir else []


def register_resolvers() -> None:
    """Give OmegaConf the words of our presets, and take the environment's secrets from its `oc.env`."""
    from omegaconf import OmegaConf

    OmegaConf.register_new_resolver("oc.env", safety.environment_variable, replace=True)
    OmegaConf.register_new_resolver("positive_from", scale.positive_from, replace=True)


@cache
def _share_files() -> None:
    """Have Hydra read each file of conf/ once in a process, wherever it is started without a folder."""
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.core.plugins import Plugins
    from hydra.plugins.config_source import ConfigResult, ConfigSource
    from hydra.plugins.search_path_plugin import SearchPathPlugin

    plugins = Plugins.instance()
    sources: list[Any] = list(plugins.discover(ConfigSource))
    files = next(one for one in sources if one.scheme() == "file")
    read: dict[tuple[str, str], ConfigResult] = {}

    class ReadOnce(files):
        @staticmethod
        def scheme() -> str:
            return "embedrun"

        def load_config(self, config_path: str) -> ConfigResult:
            key = (self.path, config_path)
            if key not in read:
                read[key] = super().load_config(config_path)
            return copy.deepcopy(read[key])  # Hydra changes what it gets

    class Presets(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            if all(place.provider != "main" for place in search_path.get_path()):
                search_path.append("main", f"embedrun://{presets.folder()}")

    plugins.register(ReadOnce)
    plugins.register(Presets)


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise ConfigError(problems)


class _Choices:
    """All of Hydra's configuration loader that a glob asks for: what it chooses from."""

    def __init__(self, groups: dict[str, list[str]]) -> None:
        self._groups = groups

    def get_group_options(self, group: str, results_filter: object = None) -> list[str]:
        return self._groups.get(group, [])


def _parsed(overrides: Sequence[str], request: Request) -> list["Override"]:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    loader: Any = _Choices(request.groups)
    try:
        return OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))
    except Exception as fault:  # Hydra's own; of long numbers and of nested lists Python's
        raise ConfigError(_worded(fault)) from None


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


_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".txt")


def _choice_problems(parsed: Sequence["Override"], request: Request) -> list[str]:
    """What is wrong with choices of groups that Hydra would misread, or refuse in words of its own."""
    problems = []
    chosen = presets.read(presets.folder(), request.root).choices
    for override in parsed:
        group, value = override.key_or_group, override.value()
        if override.is_add() and override.package is None and group in chosen:
            problems.append(_twice(group))  # an experiment behind it would silently take its place
        if group not in request.groups:
            continue
        words = value if isinstance(value, list) else [value]
        numbers = [str(word).lower() for word in words if isinstance(word, int | float)]
        if numbers:
            problems.append(_no_choice(group, numbers[0], request.groups[group]))
        elif group == "dataset":
            problems += _data_as_choice(words, request.groups[group])
    return problems


def _data_as_choice(words: list[Any], known: Collection[str]) -> list[str]:
    """What is wrong with `dataset=train.csv`: a file, a folder or the hub in place of a kind of data set."""
    if len(words) > 1:
        each = ",".join(map(str, words))
        several = f"-m dataset={each} makes a run of each"
        if not all(word in known for word in words):
            several = "for your own, dataset=pairs dataset.path=FOLDER reads all files of a folder"
        return [f"dataset=[{each}]: a run has one data set; {several}"]
    value = words[0] if words else None
    if not isinstance(value, str) or value in known:
        return []
    name = value.removesuffix(".gz").lower()
    if not (name.endswith(_SUFFIXES) or "/" in value or os.path.exists(value)):
        return []
    form, others = "pairs", "triplets, dataset=texts"
    if name.endswith(".txt"):
        form, others = "texts", "pairs"
    return [
        f"dataset={value}: names a kind of data set; for your own, write dataset={form} "
        f"dataset.path={value} (or dataset={others})"
    ]


def _compose(request: Request, overrides: list[str], strict: bool) -> "DictConfig":
    """What Hydra composes, where need be with unknown keys let in.

    Raises:
        ConfigError: with what Hydra rejects.
    """
    try:
        return _full(request.root, overrides)
    except Exception as fault:  # what Hydra raises for a bad override has no common class
        if strict or not _OVERRIDDEN.search(str(fault)):
            raise ConfigError(_refusal(fault, request)) from None
    try:
        return _full(request.root, loosened(request, overrides))
    except Exception as fault:
        raise ConfigError(_refusal(fault, request)) from None


_WHOLE = re.compile(r"\$|hydra[./]")  # interpolations, and what is about Hydra itself


def _full(root: str, overrides: Sequence[str] = ()) -> "DictConfig":
    """What Hydra composes, with its own node, for a caller inside `started`.

    The jobs of a sweep and the rows of a table differ in values alone, which Hydra sets last: their choices
    are composed once, and the values set in a copy. What does not fit is left to Hydra to refuse.
    """
    from hydra import compose
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    parsed = OverridesParser.create().parse_overrides(list(overrides))
    groups = presets.groups()
    values = [one for one in parsed if one.key_or_group not in groups or isinstance(one.value(), dict)]
    plain = all(
        one.type in (OverrideType.CHANGE, OverrideType.FORCE_ADD)
        and one.key_or_group not in groups
        and one.package is None
        and not one.is_sweep_override()
        for one in values
    )
    if plain and not any(_WHOLE.search(one) for one in overrides):
        choices = [one.input_line or "" for one in parsed if one.key_or_group in groups]
        config = copy.deepcopy(_chosen(presets.folder(), root, *choices))
        with contextlib.suppress(OmegaConfBaseException):
            for one in values:
                OmegaConf.update(config, one.key_or_group, one.value(), force_add=one.is_force_add())
            return config
    return compose(root, overrides=list(overrides), return_hydra_config=True)


@cache
def _chosen(folder: Path, root: str, *choices: str) -> "DictConfig":
    """The same without values, of the presets in `folder`; only read."""
    from hydra import compose

    return compose(root, overrides=list(choices), return_hydra_config=True)


_OVERRIDDEN = re.compile(r"Could not override '(.+?)'")


def _refusal(fault: Exception, request: Request) -> str:
    """As `_worded`, but of a key that the configuration lacks: Hydra says to add it, which helps nobody."""
    missing = _OVERRIDDEN.search(str(fault))
    if missing is None:
        return _worded(fault)
    key = missing[1].partition("@")[0].replace("/", ".")
    chosen = [group for group in presets.read(presets.folder(), request.root).choices if "/" not in group]
    if key in presets.groups() and key not in chosen:
        return f"{key}: embedrun {request.command} has no such group (it has: {', '.join(chosen)})"
    known = list(_paths(_unresolved(_full(request.root)), ""))
    return f"{missing[1]}: unknown key{lead_on(key, known)}"


def _paths(data: object, path: str) -> Iterator[str]:
    """Every key of nested mappings, by its full path."""
    if isinstance(data, dict):
        for key, value in data.items():
            where = f"{path}.{key}" if path else str(key)
            yield where
            yield from _paths(value, where)


def _worded(fault: Exception) -> str:
    """What Hydra says, in our words, with the nearest spelling."""
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
    for pattern, words in _WORDS.items():
        if match := re.search(pattern, text):
            return words.format(match[1])
    return re.sub(r"\s*Set the environment variable HYDRA_FULL_ERROR.*", "", text)


_TWICE = "+{0}=...: {0} already has a choice; write {0}=... without the plus sign"
_WORDS = {
    r"Multiple values for ([\w/]+)": _TWICE,
    r"^([\w/]+) appears more than once": _TWICE,
    r"An item is already at '(.+?)'": "+{0}: is there already; write {0}=... without the plus sign",
    r"Could not delete from config. '(.+?)' does not exist": "~{0}: there is no such option to leave out",
    r"Ambiguous value for argument '(.+?)'": "{0}: several values; add -m for one run each, or write a list "
    "as key=[a,b]",
}


def _twice(group: str) -> str:
    return _TWICE.format(group)


def _no_choice(group: str, choice: str, options: Sequence[str]) -> str:
    name = f"+{group}" if group == "experiment" else group
    return f"{name}={choice}: no such choice{nearest(choice, options)} (there are: {', '.join(options)})"


def _evaluation_of_own_rows(full: "DictConfig", overrides: Sequence[str]) -> tuple[str, ...]:
    """The evaluation of a user's own rows, where neither they nor a preset chose one: their test split.

    In a list, it stands in place of ``auto``, and the others stay.
    """
    config: Any = _unresolved(full)
    dataset = config.get("dataset")
    words = evaluations(overrides) or [full.hydra.runtime.choices.get("evaluation")]
    named = any(re.search(r"evaluation\.tasks(?!\.heldout)", one) for one in overrides)
    if AUTO not in words or named or not is_own(dataset):
        return ()
    sts = presets.read(presets.folder(), "evaluation/sts").options["tasks"]
    tasks, others = (config.get("evaluation") or {}).get("tasks"), [one for one in words if one != AUTO]
    if not isinstance(tasks, dict) or any(tasks.get(name) != options for name, options in sts.items()):
        return ()  # a preset has named something, as options of a task
    if not others and tasks.keys() - sts - {"heldout"}:
        return ()  # likewise
    chosen = [*(["heldout"] if has_split(dataset, "test") else []), *others] or ["none"]
    return (f"evaluation={chosen[0]}" if len(chosen) == 1 else f"evaluation=[{','.join(chosen)}]",)


def _unresolved(full: "DictConfig") -> Plain:
    from omegaconf import OmegaConf

    config: Any = OmegaConf.to_container(full, resolve=False)
    return {key: value for key, value in config.items() if key != "hydra"}


def _hydra_node(full: "DictConfig") -> Plain:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(full.hydra, resolve=False)  # type: ignore[return-value]


def _resolved(full: "DictConfig", job: int | None) -> Composed:
    """The configuration without interpolations, and what its `hydra` node says of the run's place."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf, open_dict, read_write
    from omegaconf.errors import OmegaConfBaseException

    with open_dict(full), read_write(full):
        full.hydra.job.num = 0 if job is None else job
        full.hydra.job.id = str(full.hydra.job.num)
    HydraConfig.instance().set_config(full)  # so that ${hydra:...} resolves
    try:
        hydra = full.hydra
        nodes = {name: hydra[name] for name in safety.PLUGINS}
        plugins: Any = {
            name: OmegaConf.to_container(node, resolve=True) if OmegaConf.is_dict(node) else {}
            for name, node in nodes.items()
        }
        _refuse(safety.plugin_problems(plugins))
        place = str(hydra.run.dir if job is None else hydra.sweep.dir)
        subdir = "" if job is None else str(hydra.sweep.subdir)
        given = place != "." or subdir not in ("", str(job))
        task = OmegaConf.masked_copy(full, [key for key in full if key != "hydra"])  # type: ignore[arg-type]
        config: Any = OmegaConf.to_container(task, resolve=True)
        if isinstance(config.get("evaluation"), dict):
            # Where it is missing, texts are scored as before there was this option; a new run is not.
            config["evaluation"].setdefault("max_length", None)
        return Composed(
            config=config,
            multirun="MULTIRUN" in str(hydra.mode),
            sweep=plugins["sweeper"].get("params") or {},
            directory=str(Path(place) / subdir) if given else None,
            parent=place if job is not None and place != "." else None,
        )
    except OmegaConfBaseException as fault:
        key = getattr(fault, "full_key", None) or "config"
        reason = re.sub(r"^\w+ raised while resolving interpolation: ", "", str(fault).splitlines()[0])
        raise ConfigError(f"{key}: {reason}") from None
    finally:
        HydraConfig.instance().cfg = None


def _choices(full: "DictConfig", overrides: Sequence[str], groups: Collection[str]) -> dict[str, str]:
    """The presets behind a composition, but Hydra's own, in the order of the configuration."""
    choices = {str(group): str(choice) for group, choice in full.hydra.runtime.choices.items() if choice}
    # Hydra keeps no choice of a group where several were given, as a list.
    typed = presets.typed(overrides, groups).items()
    choices |= {group: choice for group, choice in typed if choice.startswith("[")}
    order = ["experiment", *map(str, full)]
    ordered = sorted(choices, key=lambda group: order.index(group) if group in order else len(order))
    return {group: choices[group] for group in ordered if not group.startswith("hydra/")}
