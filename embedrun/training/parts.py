"""How many rows of a batch are encoded at a time."""

import logging
from dataclasses import dataclass

from embedrun.config import TrainingConfig
from embedrun.console import say
from embedrun.training.out_of_memory import no_room

_log = logging.getLogger("embedrun")


class Unrepeatable(Exception):  # noqa: N818 - no failure: the step is begun again
    """What was drawn from torch's random state since the step began cannot be drawn again."""


@dataclass
class Parts:
    """The parts of the batches of a run, which halve where memory runs out.

    Args:
        size: rows encoded at a time, >= 1; None: all that this process has of a batch.
        seeded: whether dropout follows the seed of each text, so that a part drops what the batch would.
    """

    size: int | None
    seeded: bool

    def of(self, rows: int) -> list[slice]:
        """The parts of a batch of so many rows."""
        size = self.size or rows
        return [slice(begin, min(begin + size, rows)) for begin in range(0, rows, size)]

    def halve(self, rows: int) -> None:
        """Make do with less memory than a batch of so many rows took; one line says so.

        Raises:
            Unrepeatable: if dropout was torch's own until now. It follows seeds for the rest of the run.
            RunFailed: if no less than one row was encoded at a time (exit 6).
        """
        size = min(self.size or rows, rows)
        if size == 1:
            raise no_room(size)
        self.size = size // 2
        drawn = not self.seeded
        self.seeded = True
        self._tell(
            "out of memory",
            ". Dropout follows a seed of each text from here on (training.seeded_dropout)" if drawn else "",
        )
        if drawn:
            raise Unrepeatable

    def lower(self, size: int) -> None:
        """Encode no more rows at a time than another process can; one line says so where that is a change.

        Args:
            size: what all processes can encode at a time.
        """
        if self.size is None or size < self.size:
            self.size = size
            self._tell("out of memory in another process")

    def _tell(self, what: str, more: str = "") -> None:
        warning = (
            f"{what}: from here on {self.size} rows are encoded at a time, twice each, for the same "
            f"gradient; with training.micro_batch_size={self.size} the next run does so from the start{more}"
        )
        _log.warning("%s", warning)
        say(f"warning: {warning}")


def seeded(training: TrainingConfig, *, processes: int) -> bool:
    """Whether dropout follows seeds: parts of a batch, wherever they are, must drop what the whole does."""
    if training.seeded_dropout is None:
        return training.micro_batch_size is not None or processes > 1
    return training.seeded_dropout
