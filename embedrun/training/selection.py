"""Which of the trained checkpoints is the best, and whether it is worth going on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass
class Selection:
    """The best dev score so far.

    An undefined score (NaN) is never the best. Where every score is undefined, or there is no dev
    split, the last checkpoint is kept. The untrained model takes no part.

    Args:
        metric: key of the score, `stsb_dev/spearman`.
        lowest: whether a lower score is better.
        patience: dev scores in a row without a new best that end the run; None: never.
        best: the best value, None before the first defined one.
        step: where it was reached.
        waited: dev scores since then, or since the start.
    """

    metric: str
    lowest: bool = False
    patience: int | None = None
    best: float | None = None
    step: int | None = None
    waited: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether so many scores brought no new best that the run is to end."""
        return self.patience is not None and self.waited >= self.patience

    def offer(self, step: int, value: float) -> bool:
        """Take a score into account; true where it is the best so far. The first of equals stays."""
        if math.isnan(value) or not self._better(value):
            self.waited += 1
            return False
        self.best, self.step, self.waited = value, step, 0
        return True

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, as plain data."""
        return {"metric": self.metric, "value": self.best, "step": self.step, "waited": self.waited}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self.best, self.step, self.waited = state["value"], state["step"], state["waited"]

    def _better(self, value: float) -> bool:
        if self.best is None:
            return True
        return value < self.best if self.lowest else value > self.best
