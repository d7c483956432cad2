"""Which of the trained checkpoints is the best."""

import math
from dataclasses import dataclass


@dataclass
class Selection:
    """The best dev score so far; higher is better.

    An undefined score (NaN) is never the best. Where every score is undefined, or there is no dev
    split, the last checkpoint is kept. The untrained model takes no part.

    Args:
        metric: key of the score, `stsb_dev/spearman`.
        best: the best value, None before the first defined one.
        step: where it was reached.
    """

    metric: str
    best: float | None = None
    step: int | None = None

    def offer(self, step: int, value: float) -> bool:
        """Take a score into account; true where it is the best so far. The first of equals stays."""
        if math.isnan(value) or (self.best is not None and value <= self.best):
            return False
        self.best, self.step = value, step
        return True
