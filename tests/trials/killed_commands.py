"""Commands that are killed at random moments of their whole life and typed again, until they end."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import forked
import operations

_TWICE = 2  # kills of one command, after which it is left to end
_LONG = 120.0  # seconds


@dataclass(frozen=True)
class Trial:
    """What is killed.

    Args:
        typed: the arguments of `embedrun` for the next start in a folder.
        outcome: what the command has come to there: equal, however often it was killed.
    """

    typed: Callable[[Path], tuple[str, ...]]
    outcome: Callable[[Path], object]


@dataclass
class Killed:
    """What has become of a trial.

    Args:
        life: seconds that the command takes when it is left alone.
        kills: how many have met a process at work.
        folders: in each, one command was killed once or twice.
        different: the folders whose outcome is not that of a command that was left alone.
    """

    life: float
    kills: int = 0
    folders: int = 0
    different: list[Path] = field(default_factory=list)


def killed(trial: Trial, folder: Path, *, kills: int, seed: int) -> Killed:
    """Let the command run once, then kill it so often, in folder after folder.

    The moments are spread evenly over its life, one at random in each part, and come in a random order. Every
    second kill comes before a change of a file. Each folder has one or two, and then the command ends there.
    """
    rng = random.Random(seed)
    whole = folder / "whole"
    whole.mkdir()
    began = time.monotonic()
    changes = _end(trial, whole)
    found, outcome = Killed(time.monotonic() - began), trial.outcome(whole)
    moments = [(part + rng.random()) / kills for part in range(kills)]
    rng.shuffle(moments)
    while moments:
        found.folders += 1
        place = folder / f"killed-{found.folders:02}"
        place.mkdir()
        for _ in range(min(_TWICE, len(moments))):
            if not _hit(trial, place, moments[-1], found, changes):
                moments[-1] *= rng.random()  # earlier, in another folder
                break
            moments.pop()
            found.kills += 1
        _end(trial, place)
        if trial.outcome(place) != outcome:
            found.different.append(place)
    return found


def _end(trial: Trial, place: Path) -> int:
    """Type the command and let it end; how many changes of files it has made."""
    counted = place.with_suffix(".changes")
    ended = forked.run(place, *trial.typed(place), around=partial(_struck, 0, place, counted))
    assert ended.code == 0, (place, ended.said)
    return int(counted.read_text())


@contextmanager
def _struck(at: int, within: Path, counted: Path) -> Iterator[None]:
    """Die before this change of a file; 0: live, and write down how many there were."""
    with operations.strike(at, operations.kill, within) as done:
        try:
            yield
        finally:
            counted.write_text(str(len(done)))


def _hit(trial: Trial, place: Path, moment: float, found: Killed, changes: int) -> bool:
    """Type the command and kill it at a moment of its life, 0 to 1; whether it was still at work."""
    at = 1 + int(moment * changes) if found.kills % 2 else 0
    around = partial(_struck, at, place, place.with_suffix(".changes"))
    started = forked.start(place, *trial.typed(place), around=around)
    started.process.join(_LONG if at else moment * found.life)
    started.kill()
    code = started.process.exitcode
    assert code in (0, -9), (place, started.output.read_text(encoding="utf-8"))
    return code == -9
