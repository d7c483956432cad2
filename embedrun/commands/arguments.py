"""The flags that the Hydra commands share, and their --help."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import NoReturn

from embedrun import presets
from embedrun.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are a ConfigError, not an exit."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise ConfigError(f"{self.prog}: {message}; {self.prog} --help lists what it takes")


@dataclass(frozen=True)
class Request:
    """One Hydra command line, taken apart.

    Args:
        command: ``train``, ``evaluate`` or ``check``.
        overrides: in Hydra's grammar, `experiment=x` already rewritten to `+experiment=x`.
        multirun: whether -m was given.
        config_dir: the user's own folder of YAML.
        show: arguments for Hydra's own display (`--cfg job`, `--info`), or empty.
        again: whether a multirun runs what has finished before anew.
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


def parse(command: str, description: str, argv: Sequence[str], examples: Sequence[str]) -> Request | None:
    """The request, or None where --help was printed."""
    parser = Parser(prog=f"embedrun {command}", description=description, add_help=False, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("overrides", nargs="*", metavar="group=choice|option=value", help="Hydra overrides")
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="one job for each combination of a,b,c values"
    )
    if command in ("train", "evaluate"):
        parser.add_argument(
            "--again", action="store_true", help="with -m: run what has finished before anew, too"
        )
    parser.add_argument(
        "--cfg", choices=("job", "hydra", "all"), help="print the composed configuration, run nothing"
    )
    parser.add_argument("--package", "-p", help="with --cfg: only this part")
    parser.add_argument("--resolve", action="store_true", help="with --cfg: with interpolations resolved")
    parser.add_argument("--info", nargs="?", const="all", help="print how the configuration was composed")
    parser.add_argument(
        "--config-dir", "-cd", type=Path, help="a folder with your own YAML, laid out as conf/"
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of a failure")
    parser.add_argument("-h", "--help", action="store_true", help="show this and exit")
    known = parser.parse_intermixed_args(argv)
    if known.help:
        print(
            parser.format_help() + _choices() + "\nexamples:\n" + "\n".join(f"  {line}" for line in examples)
        )
        return None
    show = [] if known.cfg is None else ["--cfg", known.cfg]
    show += [] if known.info is None else ["--info", known.info]
    show += ["--package", known.package] if known.package else []
    show += ["--resolve"] if known.resolve else []
    return Request.typed(
        command,
        known.overrides,
        known.config_dir,
        multirun=known.multirun,
        show=tuple(show),
        again=getattr(known, "again", False),
    )


def _with_plus(override: str) -> str:
    # The defaults list has no entry for an experiment, so Hydra wants it added; people type both.
    key, equals, value = override.partition("=")
    return f"+experiment={value}" if equals and key in ("experiment", "++experiment") else override


def _choices() -> str:
    lines = ["", "groups and their choices:"]
    for group, choices in presets.groups().items():
        sign = "+" if group == "experiment" else ""
        lines.append(f"  {sign}{group}=" + "|".join(choices))
    return "\n".join([*lines, ""])
