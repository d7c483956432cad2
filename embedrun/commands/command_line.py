"""The parser of every command, the flags that many share, and how a composed command starts."""

import argparse
import logging
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from embedrun import reference
from embedrun.config import mixture, presets, yaml_file
from embedrun.config.check import option_named, options_of
from embedrun.config.compose import composed, register_resolvers
from embedrun.config.request import Request, quoted, without_auto
from embedrun.config.safety import launcher_of
from embedrun.errors import ConfigError, DataError
from embedrun.launch.job import RECORDING, run_of
from embedrun.runs.search import MARK, OF_MODEL, named


class Parser(argparse.ArgumentParser):
    """The parser of a command, or of one of its actions.

    Its errors are a ConfigError, not an exit; no flag may be abbreviated, for a new one must not change an
    old command line; and `examples` are printed last in its help, as they are written. `prog` is as it is
    typed, such as `embedrun data list`; `more` goes to argparse. `root` is that in conf/ whose groups and
    options the command takes: `--help` then lists them, and `--help GROUP` shows one in full.
    """

    def __init__(
        self, prog: str, *, examples: str | None = None, root: str | None = None, **more: Any
    ) -> None:
        self.root, self.examples, self.actions, self.parsers = root, examples, [], {}
        super().__init__(prog=prog, add_help=root is None, allow_abbrev=False, **more)
        if root is not None:
            self.add_argument(
                "-h", "--help", nargs="?", action=_Help, metavar="GROUP|OPTION",
                help="show this and exit; of a group, an option or a term (loss.angle): the full description",
            )  # fmt: skip

    def add_argument(self, *names: Any, **more: Any) -> argparse.Action:
        """As argparse does; `actions` has them all, for `--help` and completion."""
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

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """The arguments, with flags also between them.

        Raises:
            ConfigError: if the command line is refused.
            SystemExit: where --help has been printed.
        """
        if problems := self._options_as_flags(argv):
            raise ConfigError(problems)
        # argparse reads no flags between words where the first of them chooses another parser.
        return (self.parse_args if self.parsers else self.parse_intermixed_args)(argv)

    def _options_as_flags(self, argv: Sequence[str]) -> list[str]:
        """A problem for each option that is written as a flag, with what to type in its place."""
        if self.root is None:
            return []
        paths = [*options_of(reference.COMMANDS[self.root]), "experiment"]
        known = {flag for action in self.actions for flag in action.option_strings}
        problems = []
        for flag, _, value in (word.partition("=") for word in argv if word.startswith("-")):
            option = None if flag in known else option_named(flag.lstrip("-").replace("-", "_"), paths)
            if option is not None:
                typed = option if "=" in option else f"{option}={value or '...'}"
                problems.append(f"{flag}: an option is written without dashes: {typed}")
        return problems

    def every(self) -> Iterator[argparse.Action]:
        """Its actions in the order of its help; then those of its parsers."""
        yield from self.actions
        for parser in self.parsers.values():
            yield from parser.every()

    def flags(self) -> list[str]:
        """Its long flags, and those of its parsers."""
        shown = (action for action in self.every() if action.help != argparse.SUPPRESS)
        flags = (flag for action in shown for flag in action.option_strings if flag.startswith("--"))
        return list(dict.fromkeys(flags))

    def values(self) -> dict[str, list[str]]:
        """Of each flag that takes a value: the words that it takes; none where any may stand there."""
        taking = [action for action in self.every() if action.nargs != 0]
        return {
            flag: list(map(str, action.choices or ())) for action in taking for flag in action.option_strings
        }

    def format_help(self) -> str:
        """With the groups and options, which are looked up only for this, and the examples."""
        options = None if self.root is None else reference.overview(self.root, _width())
        return "\n\n".join(filter(None, [super().format_help().rstrip(), options, self.examples])) + "\n"


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
        add(
            "overrides", nargs="*", metavar="FILE.yaml|group=choice|option=value",
            help="a YAML file of options, and Hydra overrides",
        )  # fmt: skip
        if (root or command) in RECORDING:
            add("-m", "--multirun", action="store_true", help="one job for each combination of a,b,c values")
        if command in RECORDING:
            add("--again", action="store_true", help="with -m: also rerun finished jobs, from scratch")
        add("--cfg", choices=("job", "hydra", "all"), help="print the composed configuration, run nothing")
        add("--package", "-p", help="with --cfg: only this part")
        add("--resolve", action="store_true", help="with --cfg: with interpolations resolved")
        add("--info", nargs="?", const="all", help="print how the configuration was composed")
        add("--write", type=Path, metavar="FILE", help="save the composed options as YAML, run nothing")
        add("--config-dir", "-cd", type=Path, help="a folder with your own YAML, laid out as conf/")
        add("--debug", action="store_true", help="show the traceback of a failure")

    def start(self, argv: Sequence[str]) -> int:
        """Do what the command line asks for; see `start`."""
        return start(self.request(argv))

    def request(self, argv: Sequence[str]) -> Request:
        """The request; raises what `read` does."""
        known = self.read(argv)
        given = (("--cfg", known.cfg), ("--info", known.info), ("--package", known.package))
        show = [word for flag, value in given if value for word in (flag, value)]
        request = Request.typed(
            self._command,
            with_runs(yaml_file.expanded(self._spelt_out(known.overrides), self.root or self._command)),
            known.config_dir,
            multirun=getattr(known, "multirun", False),
            show=(*show, *(["--resolve"] if known.resolve else [])),
            again=getattr(known, "again", False),
        )
        if known.write is not None:
            meanings = {option.name: option.meaning for option in reference.every_option(request.root)}
            yaml_file.write(known.write, request, meanings)
            print(f"{known.write}: written; run it with: {self.prog} {known.write}")
            self.exit()
        return request

    def _spelt_out(self, overrides: Sequence[str]) -> list[str]:
        """The overrides, with the option's name before a word that stands alone."""
        words = [word for word in overrides if not yaml_file.is_file(word)]
        alone = [word for word in words if self._bare and "=" not in word and not word.startswith("~")]
        given = [word for word in overrides if word.lstrip("+").startswith(f"{self._bare}=")]
        if alone and len(alone) + len(given) > 1:
            raise ConfigError(
                f"{self.prog}: one {self._bare}, got {', '.join([*alone, *given])}; with -m, {self._bare}=A,B"
            )
        return [f"{self._bare}={quoted(word)}" if word in alone else word for word in overrides]


def start(request: Request) -> int:
    """Show a configuration, run one in this process, or a multirun; returns the exit code."""
    launcher_of(request.overrides)
    if request.show:
        return show(request)
    job = None if request.multirun else composed(request)
    if job is not None and not job.multirun:
        if request.again:
            raise ConfigError(
                "--again: is for several jobs; add -m, or leave it out: a single job starts from scratch"
            )
        more = {"choices": job.choices} if request.command in RECORDING else {}
        return run_of(request.command)(job.config, list(job.overrides), job.directory, **more).code
    if request.command not in RECORDING:
        raise ConfigError(f"embedrun {request.command}: one at a time; leave out -m and hydra.mode")
    from embedrun.launch.sweep import launch  # it compares, with scipy

    return launch(request)


def show(request: Request) -> int:
    """Let Hydra display a configuration, once it has been found safe; returns the exit code."""
    import hydra

    overrides = list(request.overrides)
    if added := composed(request, strict=True).added:
        overrides = [*without_auto(overrides), *added]
    # The names of parts are the user's, which Hydra takes with a plus alone.
    overrides = [f"++{typed}" if typed.startswith(mixture.PARTS) else typed for typed in overrides]
    folder = [] if request.config_dir is None else ["--config-dir", str(request.config_dir)]
    register_resolvers()
    # Hydra prints --info through logging, which prints a traceback per line into a closed pipe (`| head`).
    logging.raiseExceptions = False
    # Hydra reads sys.argv and has no other public way in.
    typed, sys.argv = sys.argv, [f"embedrun {request.command}", *overrides, *request.show, *folder]
    try:
        hydra.main(version_base=None, config_path=str(presets.folder()), config_name=request.root)(_no_task)()
    finally:
        sys.argv = typed
    return 0


def _no_task(config: object) -> None:
    """What Hydra runs where it displays nothing, which `--cfg` and `--info` never ask for."""


_OF_MODELS = ("model", "backbone.name")  # options whose value may be a run
_PLAIN = re.compile(r"[\w./:-]+", re.ASCII)  # a value without quotes, interpolations or commas


def with_runs(overrides: Sequence[str]) -> list[str]:
    """Overrides in which a run that is named as a model is one for every reader: `model=run:latest`.

    Raises:
        ConfigError: if several runs have that name.
        DataError: if no run that has it has a model.
    """
    return [_with_run(override) for override in overrides]


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
