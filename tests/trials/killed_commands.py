"""Commands that are killed at random moments of their whole life and typed again, until they end."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import forked
import operations

_TWICE = 2  # kills of one command, after which it is left to end
_LONG = 120.0  # seconds
_LOOK = 0.01  # seconds between two looks at processes


@dataclass(frozen=True)
class Trial:
    """What is killed.

    Args:
        typed: the arguments of `embedrun` for the next start in a folder.
        outcome: what the command has come to there: equal, however often it was killed.
        finished: what it has computed so far and is not to compute again: by name, with what would tell.
        lay: what is there before the first start.
        around: entered in its process first.
        jobs: of the processes that it starts, which die with it or, at half of the kills, do not: "end" where
            they end by themselves and are waited for, "live" where it goes on beside them; "" of none.
        by_change: whether every second kill comes before a random change of a file, not at a random time.
    """

    typed: Callable[[Path], tuple[str, ...]]
    outcome: Callable[[Path], object]
    finished: Callable[[Path], Mapping[str, object]] = lambda _: {}
    lay: Callable[[Path], object] = lambda _: None
    around: forked.Around = nullcontext
    jobs: str = ""
    by_change: bool = False


@dataclass
class Killed:
    """What has become of a trial.

    Args:
        life: seconds that the command takes when it is left alone.
        kills: how many have met a process at work.
        folders: in each, one command was killed once or twice.
        late: kills that found a process that had ended, and were drawn again.
        kept: how much had been computed when a process was killed, over all kills.
        lost: what of that was lost, or computed again.
        different: the folders whose outcome is not that of a command that was left alone.
    """

    life: float
    kills: int = 0
    folders: int = 0
    late: int = 0
    kept: int = 0
    lost: list[str] = field(default_factory=list)
    different: list[Path] = field(default_factory=list)


def killed(trial: Trial, folder: Path, *, kills: int, seed: int) -> Killed:
    """Let the command run once, then kill it so often, in folder after folder.

    The moments are spread evenly over its life, one at random in each part, and come in a random order. Each
    folder has one or two kills, and then the command ends there.
    """
    rng = random.Random(seed)
    whole = _folder(trial, folder / "whole")
    began = time.monotonic()
    changes = _end(trial, whole)
    found, outcome = Killed(time.monotonic() - began), trial.outcome(whole)
    moments = [(part + rng.random()) / kills for part in range(kills)]
    rng.shuffle(moments)
    while moments:
        found.folders += 1
        place = _folder(trial, folder / f"killed-{found.folders:02}")
        for _ in range(min(_TWICE, len(moments))):
            before = trial.finished(place)
            hit = _hit(trial, place, moments[-1], found, changes)
            _compare(before, trial.finished(place), found)
            if not hit:
                found.late += 1
                moments[-1] *= rng.random()  # earlier, in another folder
                break
            moments.pop()
            found.kills += 1
        before = trial.finished(place)
        found.kept += len(before)
        _end(trial, place)
        _compare(before, trial.finished(place), found)
        if trial.outcome(place) != outcome:
            found.different.append(place)
    return found


def _folder(trial: Trial, place: Path) -> Path:
    place.mkdir(parents=True)
    trial.lay(place)
    return place


def _end(trial: Trial, place: Path) -> int:
    """Type the command and let it end; how many changes of files it has made."""
    counted = place.with_suffix(".changes")
    ended = forked.run(place, *trial.typed(place), around=partial(_struck, trial, 0, place, counted))
    assert ended.code == 0, (place, ended.said)
    return int(counted.read_text())


@contextmanager
def _struck(trial: Trial, at: int, within: Path, counted: Path) -> Iterator[None]:
    """Die before this change of a file; 0: live, and write down how many there were."""
    with trial.around(), operations.strike(at, operations.kill, within) as done:
        try:
            yield
        finally:
            counted.write_text(str(len(done)))


def _hit(trial: Trial, place: Path, moment: float, found: Killed, changes: int) -> bool:
    """Type the command and kill it at a moment of its life, 0 to 1; whether it was still at work."""
    at = 1 + int(moment * changes) if trial.by_change and found.kills % 2 else 0
    around = partial(_struck, trial, at, place, place.with_suffix(".changes"))
    started = forked.start(place, *trial.typed(place), around=around)
    started.process.join(_LONG if at else moment * found.life)
    started.kill(jobs=bool(trial.jobs) and found.kills % 4 < 2)
    until = time.monotonic() + _LONG
    while trial.jobs == "end" and started.left():
        assert time.monotonic() < until, started.left()
        time.sleep(_LOOK)
    code = started.process.exitcode
    assert code in (0, -9), (place, started.output.read_text(encoding="utf-8"))
    return code == -9


def _compare(before: Mapping[str, object], now: Mapping[str, object], found: Killed) -> None:
    found.lost += [name for name, mark in before.items() if now.get(name) != mark]
