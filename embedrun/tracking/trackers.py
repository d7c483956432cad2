"""W&B and TensorBoard, each imported where it is asked for."""

import os
import secrets
from pathlib import Path

from embedrun.config.options import WandbConfig
from embedrun.errors import EmbedrunError
from embedrun.files import Plain

_NO_KEY = "no API key; set WANDB_API_KEY, or run `wandb login`, or choose tracking.wandb.mode=offline"


class WandbRun:
    """One run on W&B, or its files below `RUN_DIR/wandb` that `wandb sync` uploads.

    Its id is in `RUN_DIR/wandb/id`, so that a resumed run continues under it. `folder` is the run directory,
    `group` that of the run where the configuration names none, `options` the resolved configuration.

    Raises:
        Exception: whatever wandb raises.
    """

    def __init__(
        self, folder: Path, config: WandbConfig, *, group: str, options: Plain, patience: float
    ) -> None:
        (folder / "wandb").mkdir(exist_ok=True)
        # wandb's error reports to its developers: an offline run should not use the network.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        settings = wandb.Settings(
            silent=True,
            console="off",
            save_code=False,
            disable_code=True,
            disable_git=True,
            symlink=False,
            finish_timeout=patience,  # else the exit of Python would wait for an upload without end
            x_disable_stats=True,
            x_disable_meta=True,
            x_save_requirements=False,
        )
        wandb.setup(settings)
        if config.mode == "online" and not wandb.login(prompt=False):  # `init` would ask for a key
            raise EmbedrunError(_NO_KEY)
        self._run = wandb.init(
            dir=str(folder),  # to which wandb adds the folder `wandb`
            id=_identity(folder / "wandb" / "id"),
            resume="allow",
            settings=settings,
            config=dict(options),
            mode=config.mode,
            project=config.project,
            entity=config.entity,
            group=config.group or group,
            tags=config.tags,
            name=folder.name,
        )
        self._step = 0

    def add(self, step: int, name: str, value: float) -> None:
        """Log one value.

        W&B refuses steps in the past. The test scores of the best weights, which were those of an earlier
        step, are therefore logged at the last one.
        """
        self._step = max(self._step, step)
        self._run.log({name: value}, step=self._step)

    def close(self, *, finished: bool) -> None:
        """Mark the run as finished or as failed, and upload the rest."""
        self._run.finish(exit_code=0 if finished else 1)


def _identity(path: Path) -> str:
    if not path.is_file():
        path.write_text(secrets.token_hex(4) + "\n", encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()


class TensorboardFiles:
    """Event files below `RUN_DIR/tensorboard`; `folder` is the run directory.

    A resumed run writes another file beside the first, which discards what followed the checkpoint. `step` is
    the last whose values stay, 0 for none.
    """

    def __init__(self, folder: Path, *, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        events = folder / "tensorboard"
        first = step + 1 if step else 0  # step 0 is that of the untrained scores
        purged = first if any(events.glob("events.*")) else None
        self._writer = SummaryWriter(str(events), purge_step=purged, flush_secs=15)

    def add(self, step: int, name: str, value: float) -> None:
        """Write one scalar."""
        self._writer.add_scalar(name, value, step)

    def close(self, *, finished: bool) -> None:
        """Flush everything to the file; it has no place for how the run ended."""
        self._writer.close()
