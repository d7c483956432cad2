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
    """One Hydra command line, taken apart.

    Args:
        overrides: in Hydra's grammar, `experiment=x` already rewritten to `+experiment=x`.
        config_dir: the user's own folder of YAML.
        show: arguments for Hydra's own display (`--cfg job`, `--info`), or empty.
        again: whether a multirun also repeats what has finished before.
    """

    command: str
    overrides: tuple[str, ...]
    multirun: bool = False
    config_dir: Path | None = None
    show: tuple[str, ...] = ()
    again: bool = False

    @classmethod
    def typed(
        cls, command: str, overrides: Sequence[str], config_dir: Path | None = None, **flags: Any
    ) -> "Request":
        """The request as a person types it: `experiment=x` for `+experiment=x`, any path of a folder.

        Raises:
            ConfigError: if there is no such folder.
        """
        if config_dir is not None and not config_dir.is_dir():
            raise ConfigError(f"--config-dir: no folder {str(config_dir)!r}; give one laid out as conf/")
        folder = None if config_dir is None else config_dir.resolve()
        return cls(command, tuple(_with_plus(one) for one in overrides), config_dir=folder, **flags)

    @property
    def root(self) -> str:
        """Name of the root config: `check` looks at what `train` would do."""
        return "train" if self.command == "check" else self.command

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The choices of every config group, of embedrun and of the user's folder."""
        own = presets.groups(self.config_dir) if self.config_dir is not None else {}
        every = presets.groups()
        return {name: sorted({*every.get(name, ()), *own.get(name, ())}) for name in {**every, **own}}


def _with_plus(override: str) -> str:
    # The defaults list has no entry for an experiment, so Hydra wants it added; people type both.
    key, equals, value = override.partition("=")
    return f"+experiment={value}" if equals and key in ("experiment", "++experiment") else override


@dataclass(frozen=True)
class Composed:
    """One composed configuration.

    Args:
        config: resolved, without the `hydra` node; `"???"` where no value was given.
        multirun: whether the configuration asks for a multirun.
        sweep: `hydra.sweeper.params`, what a sweep preset varies.
        directory: the run directory that the user gave.
        parent: the `hydra.sweep.dir` that the user gave; only of a job.
        overrides: the task overrides that made it.
        choices: the presets that it is made of, by group, `experiment` first.
        added: overrides that were added to those of the user: what ``evaluation=auto`` stands for.
    """

    config: Plain
    multirun: bool
    sweep: Plain
    directory: str | None
    parent: str | None
    overrides: tuple[str, ...] = ()
    choices: dict[str, str] = field(default_factory=dict)
    added: tuple[str, ...] = ()


AUTO = "auto"


def without_auto(overrides: Sequence[str]) -> list[str]:
    """The overrides without ``evaluation=auto``, alone or in a list, which `Composed.added` stands in for."""
    return [one for one in overrides if AUTO not in evaluations([one])]


def evaluations(overrides: Sequence[str]) -> list[str]:
    """What the overrides choose as ``evaluation=x`` or ``evaluation=[x,y]``."""
    typed = presets.typed(overrides, ("evaluation",)).get("evaluation", "")
    return [word.strip(" '\"") for word in typed.strip("[]").split(",") if word.strip()]


def task_overrides(overrides: Sequence[str]) -> list[str]:
    """The overrides that are not about Hydra itself."""
    return [override for override in overrides if not is_hydra(override)]


def is_hydra(override: str) -> bool:
    """Whether an override is about Hydra itself."""
    return re.match(r"[+~\s]*hydra[./]", override) is not None
