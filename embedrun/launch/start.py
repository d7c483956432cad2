"""From a request to work done: shown, one run in this process, or a multirun."""

import io
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace

from embedrun.config import comments, presets
from embedrun.config.compose import composed, through_hydra
from embedrun.config.request import Request, without_auto
from embedrun.config.safety import launcher_of
from embedrun.errors import USAGE, ConfigError
from embedrun.files import Plain
from embedrun.launch.job import RECORDING, run_of


def start(request: Request, check: Callable[[Plain], object] | None) -> int:
    """Do what the command line asks for; returns the exit code.

    `check` raises `ConfigError` for a job of a multirun that cannot run; None: the command has no multirun.
    """
    launcher_of(request.overrides)
    if request.show:
        return show(request)
    asked = request.multirun or any("hydra.mode" in override for override in request.overrides)
    if not request.multirun and not (asked and check is None):
        single = composed(request)
        if not single.multirun:
            if request.again:
                raise ConfigError(
                    "--again: is for several jobs; add -m, or leave it out: a single job starts from scratch"
                )
            more = {"choices": single.choices} if request.command in RECORDING else {}
            return run_of(request.command)(
                single.config, list(single.overrides), single.directory, **more
            ).code
    if check is None:
        raise ConfigError(f"embedrun {request.command}: one at a time; leave out -m and hydra.mode")
    from embedrun.launch.sweep import launch  # it draws and compares; one run, and what is only shown, do not

    return launch(request, check)


def show(request: Request) -> int:
    """Let Hydra display a configuration, once it has been found safe; returns the exit code."""
    if added := composed(request, strict=True).added:
        request = replace(request, overrides=(*without_auto(request.overrides), *added))
    if request.show[:2] == ("--cfg", "job") and not request.multirun:
        with redirect_stdout(io.StringIO()) as shown:
            code = _show(request)
        text = shown.getvalue()
        part = request.show[request.show.index("--package") + 1] if "--package" in request.show else ""
        # What Hydra prints of a part that is no mapping is no YAML file.
        if not code and (not part or text.startswith("# @package")):
            found = [comments.read(one, _keys(package)) for package, one in through_hydra().files(request)]
            text = comments.commented(text, comments.joined(found), _keys(part))
        print(text, end="")
        return code
    return _show(request)


def _keys(package: str) -> tuple[str, ...]:
    return tuple(package.split(".")) if package not in ("", "_global_") else ()


def _show(request: Request) -> int:
    arguments = [*request.overrides, *request.show]
    if request.config_dir is not None:
        arguments += ["--config-dir", str(request.config_dir)]
    # Hydra prints --info through logging, which prints a traceback per line into a closed pipe (`| head`).
    logging.raiseExceptions = False
    return hydra_main(request, arguments, lambda config: None)


def hydra_main(request: Request, arguments: Sequence[str], task) -> int:
    """Let Hydra's command line run `task`; returns its exit code instead of exiting."""
    import hydra

    through_hydra()
    typed = sys.argv

    def work(config: object) -> None:
        with _command_line(typed):  # a run records what the user typed, not what Hydra is given
            task(config)

    with _command_line([f"embedrun {request.command}", *arguments]):
        try:
            hydra.main(version_base=None, config_path=str(presets.folder()), config_name=request.root)(work)()
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else USAGE
    return 0


@contextmanager
def _command_line(argv: Sequence[str]):
    # Hydra reads sys.argv and has no other public way in.
    before = sys.argv
    sys.argv = list(argv)
    try:
        yield
    finally:
        sys.argv = before
