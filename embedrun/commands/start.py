"""From a request to work done: show the configuration, run one job, or launch several."""

import logging
import sys
from collections.abc import Sequence
from contextlib import contextmanager

from embedrun.commands.job import run_of
from embedrun.commands.launch_plugins import plugin
from embedrun.config import presets
from embedrun.config.compose import Request, composed
from embedrun.errors import USAGE, ConfigError


def start(request: Request) -> int:
    """Do what the command line asks for; returns the exit code."""
    plugin(request.overrides)
    if request.show:
        composed(request, strict=True)
        return _show(request)
    if not request.multirun:
        single = composed(request)
        if not single.multirun:
            if request.again:
                raise ConfigError("--again: is for several jobs; add -m, or leave it out: one begins anew")
            return run_of(request.command)(single.config, list(single.overrides), single.directory).code
    from embedrun.commands.multirun import launch

    return launch(request)


def _show(request: Request) -> int:
    """Hydra's own display of a configuration that has been found safe."""
    arguments = [*request.overrides, *request.show]
    if request.config_dir is not None:
        arguments += ["--config-dir", str(request.config_dir)]
    # Hydra prints --info through logging, which answers a closed pipe (`| head`) with a traceback a line.
    logging.raiseExceptions = False
    return hydra_main(request, arguments, lambda config: None)


def hydra_main(request: Request, arguments: Sequence[str], task) -> int:
    """Let Hydra's command line run `task`; returns its exit code instead of exiting."""
    import hydra

    typed = sys.argv

    def work(config: object) -> None:
        with _command_line(typed):  # a run records what the user typed, not what Hydra reads
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
