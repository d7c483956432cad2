"""W&B and TensorBoard, imported in the child alone."""

import os
import secrets
from pathlib import Path

from embedrun.errors import EmbedrunError
from embedrun.files import Plain

_NO_KEY = "no API key; set WANDB_API_KEY, or run `wandb login`, or choose tracking.wandb.mode=offline"


class WandbRun:
    """One run on W&B, or its files below `RUN_DIR/wandb` that `wandb sync` uploads.

    Its id is in `RUN_DIR/wandb/id`, so that a resumed run continues under it. `opening` has `folder`, the run
    directory; `name`, `project`, `entity`, `group`, `tags`, `mode`; and `options`, the resolved
    configuration.

    Raises:
        Exception: whatever wandb raises.
    """

    def __init__(self, opening: Plain) -> None:
        self.folder = Path(opening["folder"]) / "wandb"
        self.folder.mkdir(exist_ok=True)
        # wandb's error reports to its developers: an offline run should not use the network.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb
        from wandb.errors import UsageError

        settings = wandb.Settings(
            silent=True,
            console="off",
            save_code=False,
            disable_code=True,
            disable_git=True,
            symlink=False,
            x_disable_stats=True,
            x_disable_meta=True,
            x_save_requirements=False,
        )
        try:
            self._run = wandb.init(
                dir=opening["folder"],  # to which wandb adds the folder `wandb`
                id=_identity(self.folder / "id"),
                resume="allow",
                settings=settings,
                config=opening["options"],
                **{key: opening[key] for key in ("mode", "project", "entity", "group", "tags", "name")},
            )
        except UsageError as fault:
            raise EmbedrunError(_NO_KEY) if "api key" in str(fault).lower() else fault from fault
        if not Path(self._run.dir).resolve().is_relative_to(self.folder):
            raise PermissionError(f"cannot write below {self.folder}; wandb went to {self._run.dir} instead")
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
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    identity = secrets.token_hex(4)
    path.write_text(identity + "\n", encoding="utf-8")
    return identity


class TensorboardFiles:
    """Event files below `RUN_DIR/tensorboard`.

    A resumed run writes another file beside the first, which discards what followed the checkpoint. `opening`
    has `folder`, the run directory, and `step`, the last whose values stay, 0 for none.
    """

    def __init__(self, opening: Plain) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder = Path(opening["folder"]) / "tensorboard"
        again = any(self.folder.glob("events.*"))
        first = opening["step"] + 1 if opening["step"] else 0  # step 0 is that of the untrained scores
        self._writer = SummaryWriter(str(self.folder), purge_step=first if again else None, flush_secs=15)

    def add(self, step: int, name: str, value: float) -> None:
        """Write one scalar."""
        self._writer.add_scalar(name, value, step)

    def close(self, *, finished: bool) -> None:
        """Flush everything to the file; it has no place for how the run ended."""
        self._writer.flush()
        self._writer.close()
