"""Where metrics go: the run's own files, and mirrors in other trackers."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path

from embedrun.config import TrackingConfig
from embedrun.errors import install_extra
from embedrun.files import Plain
from embedrun.tracking.guard import Mirror
from embedrun.tracking.local import Tracker, cut
from embedrun.tracking.trackers import TensorboardFiles, WandbRun


def problems(config: TrackingConfig) -> list[str]:
    """Trackers that the configuration asks for and that are not installed."""
    if config.tensorboard and find_spec("tensorboard") is None:
        return [
            f"tracking.tensorboard: needs the tensorboard package; {install_extra('tensorboard')}, "
            "or choose tracking=local"
        ]
    return []


def mirrors(config: TrackingConfig, folder: Path, *, name: str, options: Plain, step: int) -> list[Mirror]:
    """Start the trackers that the configuration asks for.

    `name`, of the experiment, groups runs on W&B where no group is given. `step` counts the optimizer steps
    whose metrics are there already; 0 in a new run.
    """
    folder, patience = folder.resolve(), config.patience
    started = []
    if config.wandb is not None:
        connect = partial(WandbRun, folder, config.wandb, group=name, options=options, patience=patience)
        started.append(Mirror("tracking.wandb", connect, patience=patience))
    if config.tensorboard:
        connect = partial(TensorboardFiles, folder, step=step)
        started.append(Mirror("tracking.tensorboard", connect, patience=patience))
    return started


__all__ = ["Mirror", "Tracker", "cut", "mirrors", "problems"]
