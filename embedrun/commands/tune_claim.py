"""A trial that one process runs, and how it ended."""

from dataclasses import dataclass
from typing import Any

from embedrun.files import Lock


@dataclass(frozen=True)
class Ended:
    """How one trial ended.

    Args:
        metric: key of the dev score.
        score: its best value; None where there is none.
        pruned: whether the trial was stopped because it did worse than the others.
        reason: why it failed, or None.
    """

    metric: str | None = None
    score: float | None = None
    pruned: bool = False
    reason: str | None = None


class Claim:
    """A trial that this process runs, until `Study.finish` or the end of the process.

    Args:
        trial: optuna's.
        lock: held; a child that holds it, too, keeps the trial claimed.
        again: whether an earlier process began it.

    Attributes:
        number: of the trial, from 0.
        values: by option.
    """

    def __init__(self, trial: Any, lock: Lock, *, again: bool) -> None:
        self.trial, self.lock, self.again = trial, lock, again
        self.number: int = trial.number
        self.values: dict[str, Any] = dict(trial.params)
        self._known = set(trial.study.trials[self.number].intermediate_values)

    def report(self, step: int, score: float) -> bool:
        """Note a dev score as it comes; true where the trial does worse than the median of the others."""
        if step in self._known:  # by an earlier attempt
            return False
        self._known.add(step)
        self.trial.report(score, step)
        return self.trial.should_prune()

    def is_hopeless(self) -> bool:
        """Whether the dev scores of an earlier attempt say that the trial is not worth going on with."""
        return bool(self._known) and self.trial.should_prune()
