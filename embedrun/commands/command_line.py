"""The parser of every command, and the flags that many share."""

import argparse
import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from embedrun import reference
from embedrun.config.check import options_of
from embedrun.config.request import Request, quoted
from embedrun.config.synonyms import option_named
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain
from embedrun.runs.search import MARK, OF_MODEL, named


class Parser(argparse.ArgumentParser):
    """The parser of a command, or of one of its actions.

    Its errors are a ConfigError, not an exit; no flag may be abbreviated, for a new one must not change an
    old command line; and `examples` are printed below the flags in its help, as they are written. `prog` is
    as it is typed, such as `embedrun data list`; `more` goes to argparse. `root` is that in conf/ whose
    groups and options the command takes: `--help` then lists them, and `--help GROUP` shows one in full.
    """

    def __init__(
        self, prog: str, *, examples: str | None = None, root: str | None = None, **more: Any
    ) -> None:
        more |= {"formatter_class": _Paragraphs, "allow_abbrev": False}
        self.root, self.actions, self.parsers = root, [], {}
        super().__init__(prog=prog, epilog=examples, add_help=root is None, **more)
        if root is not None:
            self.add_argument(
                "-h", "--help", nargs="?", action=_Help, metavar="GROUP|OPTION",
                help="show this and exit; of a group, an option or one as loss.angle: all there is to know",
            )  # fmt: skip

    def add_argument(self, *names: Any, **more: Any) -> argparse.Action:
        """As argparse does; `actions` has them all, for `--help` and the tab key."""
        self.actions.append(super().add_argument(*names, **more))
        return self.actions[-1]

    def add_subparsers(self, **more: Any) -> Any:
        """As argparse does; `parsers` has them by word."""
        made = super().add_subparsers(**more)
        self.parsers = made.choices
        return made

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise ConfigError(f"{self.prog}: {message}; {self.prog} --help lists what it takes")

    def read(self, argv: Sequence[str]) -> argparse.Namespace | None:
        """The arguments, with flags also between them; None where --help was printed.

        Raises:
            ConfigError: if the command line is refused.
        """
        self._refuse_flags(argv)
        # argparse reads no flags between words where the first of them chooses another parser.
        read = self.parse_args if self.parsers else self.parse_intermixed_args
        try:
            return read(argv)
        except SystemExit:  # --help has been printed; what is refused is a ConfigError
            return None

    def _refuse_flags(self, argv: Sequence[str]) -> None:
        """Refuse options that are written as flags, with what to type in their place.

        Raises:
            ConfigError: if there are any, or groups; what is no option either is for the parser to refuse.
        """
        if self.root is None:
            return
        paths = [*options_of(reference.COMMANDS[self.root]), "experiment"]
        known = {flag for action in self.actions for flag in action.option_strings}
        problems = []
        for place, word in enumerate(argv):
            flag, equals, value = word.partition("=")
            if not re.fullmatch(r"--?[A-Za-z]\w[\w.-]*", flag) or flag in known:
                continue
            option = option_named(flag.lstrip("-").replace("-", "_"), paths)
            if option is None:
                continue
            after = argv[place + 1] if place + 1 < len(argv) else "-"
            value = value if equals else "..." if after.startswith("-") or "=" in after else after
            typed = option if "=" in option else f"{option}={value}"
            problems.append(f"{flag}: an option is written without dashes: {typed}")
        if problems:
            raise ConfigError(problems)

    def flags(self) -> list[str]:
        """Its long flags, in the order of its help; then those of its actions."""
        shown = [action for action in self.actions if action.help != argparse.SUPPRESS]
        flags = [flag for action in shown for flag in action.option_strings if flag.startswith("--")]
        inside = [flag for parser in self.parsers.values() for flag in parser.flags()]
        return list(dict.fromkeys([*flags, *inside]))

    def values(self) -> dict[str, list[str]]:
        """Of each flag that takes a value: the words that it takes; none where any may stand there."""
        words = {
            flag: [str(choice) for choice in action.choices or ()]
            for action in self.actions
            for flag in action.option_strings
            if action.nargs != 0
        }
        for parser in self.parsers.values():
            words |= parser.values()
        return words

    def format_help(self) -> str:
        """With the groups and options, which are looked up only for this."""
        if self.root is None:
            return super().format_help()
        # The examples come last, where a terminal stands when the text has run past.
        examples, self.epilog = self.epilog, None
        flags, self.epilog = super().format_help(), examples
        last = self.formatter_class(prog=self.prog)
        last.add_text(examples)
        return f"{flags}\n{reference.overview(self.root, _width())}\n\n{last.format_help()}"


class _Paragraphs(argparse.HelpFormatter):
    """Paragraphs are filled to the width of the terminal; lines that begin with blanks stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for line in text.splitlines():
            goes_on = lines and lines[-1] and not lines[-1].startswith(" ")
            if goes_on and line and not line.startswith(" "):
                lines[-1] += f" {line}"
            else:
                lines.append(line)
        return "\n".join(line if line.startswith(" ") else textwrap.fill(line, width) for line in lines)


class _Help(argparse.Action):
    """`--help`, alone or with what is asked about."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if values is None:
            parser.print_help()
        else:
            print(reference.about(parser.root, values, _width()))
        parser.exit()


def _width() -> int:
    return shutil.get_terminal_size().columns


class ComposingParser(Parser):
    """The parser of a command, given by its word, whose configuration Hydra composes.

    `root` is that in conf/, where it has another name; `bare` is the option that a word without `=` gives a
    value to, None: there is none.
    """

    def __init__(
        self,
        command: str,
        description: str | None,
        examples: Sequence[str],
        *,
        root: str | None = None,
        bare: str | None = None,
    ) -> None:
        lines = "\n".join(["examples:", *(f"  {line}" for line in examples)])
        super().__init__(f"embedrun {command}", description=description, examples=lines, root=root or command)
        self._command, self._bare = command, bare
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

    def start(self, argv: Sequence[str], check: Callable[[Plain], object] | None) -> int:
        """Do what the command line asks for, unless that is --help; see `embedrun.launch.start.start`."""
        request = self.request(argv)
        if request is None:
            return 0
        from embedrun.launch.start import start  # after --help: Hydra comes with it

        return start(request, check)

    def request(self, argv: Sequence[str]) -> Request | None:
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
        return Request.typed(
            self._command,
            with_runs(self._spelt_out(known.overrides)),
            known.config_dir,
            multirun=known.multirun,
            show=tuple(show),
            again=getattr(known, "again", False),
        )

    def _spelt_out(self, overrides: Sequence[str]) -> list[str]:
        """The overrides, with the option's name before a word that stands alone."""
        alone = [one for one in overrides if self._bare and "=" not in one and not one.startswith("~")]
        given = [one for one in overrides if one.lstrip("+").startswith(f"{self._bare}=")]
        if alone and len(alone) + len(given) > 1:
            raise ConfigError(
                f"{self.prog}: one {self._bare}, got {', '.join([*alone, *given])}; with -m, {self._bare}=A,B"
            )
        return [f"{self._bare}={quoted(one)}" if one in alone else one for one in overrides]


_OF_MODELS = ("model", "backbone.name")  # options whose value may be a run
_PLAIN = re.compile(r"[\w./:-]+", re.ASCII)  # a value without quotes, interpolations or commas


def with_runs(overrides: Sequence[str]) -> list[str]:
    """Overrides in which a run that is named as a model is one for every reader: `model=run:latest`.

    Raises:
        ConfigError: if several runs have that name.
        DataError: if no run that has it has a model.
    """
    return [_with_run(one) for one in overrides]


def _with_run(override: str) -> str:
    key, _, value = override.partition("=")
    if key.lstrip("+") not in _OF_MODELS or not _PLAIN.fullmatch(value):
        return override
    try:
        run = named(value, OF_MODEL)
    except DataError:
        if value.startswith(MARK):
            return override  # with everything else that is missing, once the options are checked
        raise
    if run == value or value.startswith(MARK):
        return override
    # What stays a name is recorded, so that a run that is resumed finds the model that it began with.
    return f"{key}={quoted(run)}" if Path(value).exists() else f"{key}={MARK}{value}"


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
