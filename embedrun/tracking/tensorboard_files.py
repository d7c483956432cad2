"""TensorBoard's event files; imported in the child process alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorboardFiles:
    """Event files below `RUN_DIR/tensorboard`.

    A resumed run writes another file beside the first, which takes back what followed the checkpoint.

    Args:
        opening: `folder`, the run directory; `step`, the last whose values stay, 0 for none.

    Attributes:
        folder: where its files are.
    """

    def __init__(self, opening: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder = Path(opening["folder"]) / "tensorboard"
        again = any(self.folder.glob("events.*"))
        first = opening["step"] + 1 if opening["step"] else 0  # step 0 is that of the untrained scores
        self._writer = SummaryWriter(str(self.folder), purge_step=first if again else None, flush_secs=15)

    def add(self, step: int, name: str, value: float) -> None:
        """Write one scalar."""
        self._writer.add_scalar(name, value, step)

    def close(self, *, finished: bool) -> None:
        """Bring everything to the file; it has no place for how the run ended."""
        self._writer.flush()
        self._writer.close()
