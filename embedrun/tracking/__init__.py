"""Where metrics go: the run's own files, and mirrors in other trackers."""

from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from embedrun.child import command, environment
from embedrun.config import TrackingConfig
from embedrun.errors import install_extra
from embedrun.files import Plain
from embedrun.tracking.local import Tracker, cut
from embedrun.tracking.mirror import Mirror

_KEY = "WANDB_API_KEY"


def problems(config: TrackingConfig) -> list[str]:
    """Trackers that the configuration asks for and that are not installed."""
    if config.tensorboard and find_spec("tensorboard") is None:
        return [
            f"tracking.tensorboard: needs the tensorboard package; {install_extra('tensorboard')}, "
            "or choose tracking=local"
        ]
    return []


def mirrors(config: TrackingConfig, folder: Path, *, name: str, options: Plain, step: int) -> list[Mirror]:
    """Start the trackers that the configuration asks for, in processes of their own.

    `name`, of the experiment, groups runs on W&B where no group is given. `step` counts the optimizer steps
    whose metrics are there already; 0 in a new run.
    """
    folder = folder.resolve()
    common = {"folder": str(folder), "step": step}
    started = []
    if config.wandb is not None:
        own = asdict(config.wandb)
        own["group"] = own["group"] or name
        opening = {**common, **own, "name": folder.name, "options": dict(options)}
        started.append(_start("wandb", config, opening, key=config.wandb.mode == "online"))
    if config.tensorboard:
        started.append(_start("tensorboard", config, common, key=False))
    return started


def _start(kind: str, config: TrackingConfig, opening: Plain, *, key: bool) -> Mirror:
    return Mirror(
        f"tracking.{kind}",
        command("embedrun.tracking.mirror", kind, f"{config.patience:g}"),
        opening,
        patience=config.patience,
        environment=_environment(key=key),
    )


def _environment(*, key: bool) -> dict[str, str]:
    """That of a child; W&B's key only where it is needed."""
    return {name: value for name, value in environment().items() if key or name != _KEY}


__all__ = ["Mirror", "Tracker", "cut", "mirrors", "problems"]
