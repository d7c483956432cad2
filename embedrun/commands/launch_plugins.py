"""Which of Hydra's launchers a command line chooses, and whether it is installed."""

from collections.abc import Sequence
from importlib.util import find_spec

from embedrun.errors import ConfigError

# What each launcher needs beside Hydra: the module, and our extra that installs it.
_PLUGINS = {
    "joblib": ("hydra_plugins.hydra_joblib_launcher", "sweep"),
    "submitit_local": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
    "submitit_slurm": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
}


def plugin(overrides: Sequence[str]) -> str:
    """The launcher that overrides choose; one that is none of ours is refused where they are composed.

    Raises:
        ConfigError: if what it needs is not installed.
    """
    name = "basic"
    for override in overrides:
        key, _, value = override.partition("=")
        if key.lstrip("+") == "hydra/launcher":
            name = value.strip("'\"")
    module, extra = _PLUGINS.get(name, ("hydra", ""))
    if not _is_there(module):
        raise ConfigError(
            f"hydra/launcher={name}: its plugin is not installed; pip install 'embedrun[{extra}]'"
        )
    return name


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False
