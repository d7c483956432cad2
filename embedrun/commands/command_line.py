"""The parser of every command, and the flags that many share."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from embedrun.config import presets
from embedrun.errors import ConfigError

if TYPE_CHECKING:
    from embedrun.config.compose import Request


class Parser(argparse.ArgumentParser):
    """The parser of a command, or of one of its actions.

    Its errors are a ConfigError, not an exit; no flag may be abbreviated, for a new one must not change an
    old command line; and `examples` are printed below the flags in its help, as they are written. `prog` is
    as it is typed, such as `embedrun data list`; `more` goes to argparse.
    """

    def __init__(self, prog: str, *, examples: str | None = None, **more: Any) -> None:
        more |= {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
        super().__init__(prog=prog, epilog=examples, **more)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise ConfigError(f"{self.prog}: {message}; {self.prog} --help lists what it takes")

    def read(self, argv: Sequence[str]) -> argparse.Namespace | None:
        """The arguments, with flags also between them; None where --help was printed.

        Raises:
            ConfigError: if the command line is refused.
        """
        # argparse reads no flags between words where the first of them chooses another parser.
        read = self.parse_intermixed_args if self._subparsers is None else self.parse_args
        try:
            return read(argv)
        except SystemExit:  # --help has been printed; what is refused is a ConfigError
            return None

    def flags(self) -> list[str]:
        """Its long flags, in the order of its help; then those of its actions."""
        found, inside = [], []
        for action in self._actions:
            found += [flag for flag in action.option_strings if flag.startswith("--")]
            if isinstance(action, argparse._SubParsersAction):
                inside += [flag for parser in action.choices.values() for flag in parser.flags()]
        return list(dict.fromkeys([*found, *inside]))


class ComposingParser(Parser):
    """The parser of a command, given by its word, whose configuration Hydra composes."""

    def __init__(self, command: str, description: str | None, examples: Sequence[str]) -> None:
        super().__init__(f"embedrun {command}", description=description, add_help=False)
        self._command, self._examples = command, examples
        add = self.add_argument
        add("overrides", nargs="*", metavar="group=choice|option=value", help="Hydra overrides")
        add("-m", "--multirun", action="store_true", help="one job for each combination of a,b,c values")
        if command in ("train", "evaluate"):
            add("--again", action="store_true", help="with -m: also rerun finished jobs, from scratch")
        add("--cfg", choices=("job", "hydra", "all"), help="print the composed configuration, run nothing")
        add("--package", "-p", help="with --cfg: only this part")
        add("--resolve", action="store_true", help="with --cfg: with interpolations resolved")
        add("--info", nargs="?", const="all", help="print how the configuration was composed")
        add("--config-dir", "-cd", type=Path, help="a folder with your own YAML, laid out as conf/")
        add("--debug", action="store_true", help="show the traceback of a failure")
        add("-h", "--help", action="help", help="show this and exit")

    def format_help(self) -> str:
        """With the choices that conf/ has, which are looked up only for this."""
        lines = ["", "groups and their choices:"]
        for group, choices in presets.groups().items():
            sign = "+" if group == "experiment" else ""
            lines.append(f"  {sign}{group}=" + "|".join(choices))
        lines += ["", "examples:", *(f"  {line}" for line in self._examples), ""]
        return super().format_help() + "\n".join(lines)

    def request(self, argv: Sequence[str]) -> "Request | None":
        """The request, or None where --help was printed.

        Raises:
            ConfigError: if the command line is refused.
        """
        known = self.read(argv)
        if known is None:
            return None
        show = [] if known.cfg is None else ["--cfg", known.cfg]
        show += [] if known.info is None else ["--info", known.info]
        show += ["--package", known.package] if known.package else []
        show += ["--resolve"] if known.resolve else []
        from embedrun.config.compose import Request  # after --help: Hydra comes with it

        return Request.typed(
            self._command,
            known.overrides,
            known.config_dir,
            multirun=known.multirun,
            show=tuple(show),
            again=getattr(known, "again", False),
        )


def seed_list(text: str | None, command: str) -> tuple[int, ...] | None:
    """The numbers in the value of `--seeds`, such as `1,2,3`; None of none.

    Raises:
        ConfigError: for anything but different whole numbers; `command` is for its message.
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
    """Problems with overrides of every run that the command, named in the message, has options for."""
    options = {"seed": "--seeds 1,2,3", "scale": "--scale NAME"}
    keys = [override.lstrip("+~").partition("=")[0] for override in overrides]
    return [f"{key}: embedrun {command} takes {options[key]}" for key in keys if key in options]
