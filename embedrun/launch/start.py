"""From a request to work done: shown, one run in this process, or a multirun."""

import logging
import sys
from collections.abc import Callable

from embedrun.config import presets
from embedrun.config.compose import composed, register_resolvers
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
    import hydra

    overrides = list(request.overrides)
    if added := composed(request, strict=True).added:
        overrides = [*without_auto(overrides), *added]
    folder = [] if request.config_dir is None else ["--config-dir", str(request.config_dir)]
    register_resolvers()
    # Hydra prints --info through logging, which prints a traceback per line into a closed pipe (`| head`).
    logging.raiseExceptions = False
    # Hydra reads sys.argv and has no other public way in.
    typed, sys.argv = sys.argv, [f"embedrun {request.command}", *overrides, *request.show, *folder]
    try:
        hydra.main(version_base=None, config_path=str(presets.folder()), config_name=request.root)(_no_task)()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else USAGE
    finally:
        sys.argv = typed
    return 0


def _no_task(config: object) -> None:
    """What Hydra runs where it displays nothing, which `--cfg` and `--info` never ask for."""
