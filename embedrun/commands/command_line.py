"""The parser of every command, and the flags that many share."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from embedrun.config import presets
from embedrun.errors import ConfigError

if TYPE_CHECKING:
    from embedrun.config.compose import Request


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are a ConfigError, not an exit."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise ConfigError(f"{self.prog}: {message}; {self.prog} --help lists what it takes")


def parse(command: str, description: str, argv: Sequence[str], examples: Sequence[str]) -> "Request | None":
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
    from embedrun.config.compose import Request  # after --help: Hydra comes with it

    return Request.typed(
        command,
        known.overrides,
        known.config_dir,
        multirun=known.multirun,
        show=tuple(show),
        again=getattr(known, "again", False),
    )


def _choices() -> str:
    lines = ["", "groups and their choices:"]
    for group, choices in presets.groups().items():
        sign = "+" if group == "experiment" else ""
        lines.append(f"  {sign}{group}=" + "|".join(choices))
    return "\n".join([*lines, ""])


def seed_list(text: str | None, command: str) -> tuple[int, ...] | None:
    """The value of `--seeds`, taken apart; None of none.

    Args:
        text: as `1,2,3`.
        command: that was given it, for the message.

    Raises:
        ConfigError: for anything but different whole numbers.
    """
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and word.isascii() for word in words) or len(set(words)) < len(words):
        raise ConfigError(
            f"embedrun {command}: --seeds: expected different whole numbers, as 1,2,3, got {text!r}"
        )
    return tuple(int(word) for word in words)


def misplaced(overrides: Sequence[str], command: str) -> list[str]:
    """Problems with overrides that the command has options for.

    Args:
        overrides: of every run.
        command: that was given them, for the message.
    """
    options = {"seed": "--seeds 1,2,3", "scale": "--scale NAME"}
    keys = [override.lstrip("+~").partition("=")[0] for override in overrides]
    return [f"{key}: embedrun {command} takes {options[key]}" for key in keys if key in options]
