"""One command line of Hydra, and what came of it; nothing here imports Hydra."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from embedrun.config import presets
from embedrun.errors import ConfigError
from embedrun.files import Plain

# A path that Hydra's grammar takes as it stands, and not as a number, null or another thing.
_WORD = re.compile(r"(?!(null|true|false|nan|inf)$)[a-z_/][\w./:-]*", re.ASCII | re.IGNORECASE)


def quoted(text: str) -> str:
    """Any text as a value of Hydra's override grammar, in quotes where it needs them."""
    if _WORD.fullmatch(text):
        return text
    # Only before a quote, and before the last one, does a backslash stand for something else.
    escaped = re.sub(r"(\\*)('|\Z)", lambda match: 2 * match[1] + (match[2] and "\\'"), text)
    return f"'{escaped}'"


@dataclass(frozen=True)
class Request:
    """One Hydra command line, taken apart."""

    command: str
    overrides: tuple[str, ...]  # in Hydra's grammar, `experiment=x` already rewritten to `+experiment=x`
    multirun: bool = False
    config_dir: Path | None = None  # the user's own folder of YAML
    show: tuple[str, ...] = ()  # arguments for Hydra's own display (`--cfg job`, `--info`)
    again: bool = False  # whether a multirun also repeats what has finished before

    @classmethod
    def typed(
        cls, command: str, overrides: Sequence[str], config_dir: Path | None = None, **flags: Any
    ) -> "Request":
        """The request as a person types it: `experiment=x` for `+experiment=x`, any path of a folder."""
        if config_dir is not None and not config_dir.is_dir():
            raise ConfigError(f"--config-dir: no folder {str(config_dir)!r}; give one laid out as conf/")
        folder = None if config_dir is None else config_dir.resolve()
        return cls(command, tuple(_with_plus(override) for override in overrides), config_dir=folder, **flags)

    @property
    def root(self) -> str:
        """Name of the root config: `check` looks at what `train` would do."""
        return "train" if self.command == "check" else self.command

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The choices of every config group, of embedrun and of the user's folder."""
        choices = dict(presets.groups())
        for name, words in presets.groups(self.config_dir).items() if self.config_dir else ():
            choices[name] = sorted({*choices.get(name, ()), *words})
        return choices


def _with_plus(override: str) -> str:
    # The defaults list has no entry for an experiment, so Hydra wants it added; people type both.
    key, equals, value = override.partition("=")
    return f"+experiment={value}" if equals and key in ("experiment", "++experiment") else override


@dataclass(frozen=True)
class Composed:
    """One composed configuration."""

    config: Plain  # resolved, without the `hydra` node; `"???"` where no value was given
    multirun: bool  # whether the configuration asks for a multirun
    sweep: Plain  # `hydra.sweeper.params`, what a sweep preset varies
    directory: str | None  # of the run, where the user gave one
    parent: str | None  # the `hydra.sweep.dir` that the user gave; only of a job
    overrides: tuple[str, ...] = ()  # about the task, that made it
    choices: dict[str, str] = field(default_factory=dict)  # presets behind it, by group, `experiment` first
    added: tuple[str, ...] = ()  # to the user's overrides: what ``evaluation=auto`` stands for


AUTO = "auto"


def without_auto(overrides: Sequence[str]) -> list[str]:
    """The overrides without ``evaluation=auto``, alone or in a list, which `Composed.added` stands in for."""
    return [override for override in overrides if AUTO not in presets.chosen([override], "evaluation")]


def task_overrides(overrides: Sequence[str]) -> list[str]:
    """The overrides that are not about Hydra itself."""
    return [override for override in overrides if not is_hydra(override)]


def is_hydra(override: str) -> bool:
    """Whether an override is about Hydra itself."""
    return re.match(r"[+~\s]*hydra[./]", override) is not None
