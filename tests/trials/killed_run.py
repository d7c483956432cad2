"""A training run that kills itself at chosen places, and goes on after each."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import accidents
import forked
import operations
import same_run

from embedrun.training import checkpoint

CHECKPOINTS = Path("run/checkpoints")
_CHANGES = Path("changes.txt")


@contextmanager
def struck(at: int | str, within: Path) -> Iterator[None]:
    """Die at the first such change of `operations`; where there is none, write down the names of all."""
    with operations.strike(at, operations.kill, within) as done:
        try:
            yield
        finally:
            _CHANGES.write_text("\n".join(map(operations.nameless, done)), encoding="utf-8")


def changes(folder: Path, *arguments: str, within: Path = CHECKPOINTS) -> list[str]:
    """What a command that is left alone changes, each kind of change once.

    Args:
        folder: where the command runs.
        arguments: of `embedrun`.
        within: the folder whose changes count.
    """
    ended = forked.run(folder, *arguments, around=partial(struck, 0, within))
    assert ended.code == 0, ended.said
    return list(dict.fromkeys((folder / _CHANGES).read_text(encoding="utf-8").splitlines()))


class KilledRun:
    """The run.

    Args:
        folder: holds its directory `run`.
        arguments: of `embedrun`, to start it.
        within: the folder whose changes count.

    Attributes:
        kills: how often it died.
    """

    def __init__(self, folder: Path, arguments: tuple[str, ...], within: Path = CHECKPOINTS) -> None:
        self.path = folder / "run"
        self._folder, self._arguments, self._within = folder, arguments, within
        self.kills = 0

    def at_change(self, change: str) -> None:
        """Start or go on until this kind of change, and no further."""
        self._die(change, partial(struck, change, self._within))

    def at_step(self, step: int) -> None:
        """Start or go on until this step is about to be taken."""
        self._die(str(step), partial(accidents.at_step, step, operations.kill))

    def end(self) -> None:
        """Go on to the end."""
        ended = forked.run(self._folder, *self._next())
        assert ended.code == 0, ended.said

    def resumed(self) -> list[int]:
        """The steps from which it went on, in order."""
        return same_run.resumed(self.path)

    def _die(self, where: str, around: forked.Around) -> None:
        ended = forked.run(self._folder, *self._next(), around=around)
        assert ended.code == -9, (where, ended)
        self.kills += 1
        folder = self._folder / CHECKPOINTS
        for step in checkpoint.published(folder):  # what has its name is whole
            assert checkpoint.verify(checkpoint.path_of(folder, step)) == [], where

    def _next(self) -> tuple[str, ...]:
        begun = (self.path / "config.yaml").is_file()
        return ("resume", "run") if begun else self._arguments
