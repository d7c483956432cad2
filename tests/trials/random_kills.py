"""Training runs in interpreters of their own, killed at random moments of their whole life."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import same_run
from small_mixes import EVERY, STEPS, Mix

from embedrun.training import checkpoint

_ROOT = Path(__file__).resolve().parents[2]
_LOOK = 0.01  # seconds between two looks at how far a run has come


@dataclass(frozen=True)
class Life:
    """How long the parts of an uninterrupted run took.

    Args:
        begin: seconds until its first step: imports, loading, scores of the untrained model.
        train: seconds of all steps with their dev scores and checkpoints.
        end: seconds after the last step: final scores, model, plots.
    """

    begin: float
    train: float
    end: float


@dataclass(frozen=True)
class Moment:
    """When to kill a process.

    Args:
        step: that must have been logged first; None: none must.
        delay: seconds after that, or after its start.
    """

    step: int | None
    delay: float


@dataclass
class Chain:
    """One run after all its kills.

    Args:
        folder: holds its directory `run`.
        whole: what an uninterrupted run has come to.
        kills: how often it was killed.
        late: how often a kill came after the end, or long after its step, and was drawn again.
        unsound: faults of checkpoints that had their name when the process was killed.
    """

    folder: Path
    whole: dict[str, object]
    life: Life
    kills: int = 0
    late: int = 0
    unsound: list[str] = field(default_factory=list)

    @property
    def run(self) -> Path:
        """Its directory."""
        return self.folder / "run"

    def resumed(self) -> list[int]:
        """The steps from which it went on, in order."""
        return same_run.resumed(self.run)


def chain(mix: Mix, folder: Path, *, kills: int, seed: int) -> Chain:
    """Train a mix uninterrupted, and once more with so many kills; both by `embedrun` as a person starts it.

    Args:
        mix: to train.
        folder: is made.
        kills: as many land while the run is going on.
        seed: of their moments.
    """
    (folder / "whole").mkdir(parents=True)
    (folder / "killed").mkdir()
    life = _uninterrupted(mix, folder / "whole")
    found = Chain(folder / "killed", same_run.content(folder / "whole" / "run"), life)
    rng = random.Random(f"{mix.name} {seed}")
    for moment in _moments(life, kills, rng):
        _kill_once(mix, found, moment, rng)
    _go_on(mix, found.folder, lambda *_: False)
    return found


def _uninterrupted(mix: Mix, folder: Path) -> Life:
    times = {}

    def look(seconds: float, _: subprocess.Popen) -> bool:
        step = _step(folder / "run")
        for mark in (1, STEPS):
            if step >= mark:
                times.setdefault(mark, seconds)
        return False

    whole = _go_on(mix, folder, look)
    return Life(times[1], times[STEPS] - times[1], whole - times[STEPS])


def _moments(life: Life, kills: int, rng: random.Random) -> list[Moment]:
    """Half of them while it trains, a quarter before and a quarter after that, each at random in its part.

    Those that need a step are in the order of their steps, those before any stand between them at random.
    """
    quarter = kills // 4
    early = [Moment(None, rng.uniform(0, life.begin)) for _ in range(quarter)]
    steps = sorted(rng.randrange(STEPS) for _ in range(kills - 2 * quarter))
    late = [Moment(step, rng.uniform(0, life.train / STEPS)) for step in steps]
    late += [Moment(STEPS, delay) for delay in sorted(rng.uniform(0, life.end) for _ in range(quarter))]
    turns = [early] * len(early) + [late] * len(late)
    rng.shuffle(turns)
    return [turn.pop(0) for turn in turns]


def _kill_once(mix: Mix, found: Chain, moment: Moment, rng: random.Random) -> None:
    """One real kill; where the run ended first or went far beyond, it is put back and killed earlier."""
    aside = found.folder / "before"
    shutil.rmtree(aside, ignore_errors=True)
    found.run.mkdir(exist_ok=True)  # empty before the first attempt, as a kill may leave it
    shutil.copytree(found.run, aside)
    while not _killed(mix, found, moment):
        found.late += 1
        shutil.rmtree(found.run)
        shutil.copytree(aside, found.run)
        moment = Moment(moment.step, rng.uniform(0, moment.delay))
    found.kills += 1
    checkpoints = found.run / "checkpoints"
    for step in checkpoint.published(checkpoints):
        found.unsound += checkpoint.verify(checkpoint.path_of(checkpoints, step))


def _killed(mix: Mix, found: Chain, moment: Moment) -> bool:
    begun, resumed = (found.run / "config.yaml").is_file(), len(same_run.resumed(found.run))
    # A run that was killed when all was written resumes nothing: it is only marked as finished.
    written = (found.run / "results.json").is_file()

    def look(seconds: float, process: subprocess.Popen) -> bool:
        if moment.step is None or written:
            is_time = seconds >= moment.delay
        else:
            # Until it says where it goes on, the metrics are those of the attempt before.
            is_on = len(same_run.resumed(found.run)) > resumed or not begun
            is_time = is_on and _step(found.run) >= moment.step
            time.sleep(moment.delay if is_time else 0)
        if is_time:
            process.send_signal(signal.SIGKILL)
        return is_time

    _go_on(mix, found.folder, look)
    status = found.run / "status.json"
    if status.exists() and same_run.read(status)["state"] == "finished":
        return False
    # On a machine that stalls, one kill that comes seconds late would leave no steps to the ones after it.
    return moment.step is None or written or _step(found.run) <= moment.step + 2 * EVERY


def _go_on(mix: Mix, folder: Path, look: Callable[[float, subprocess.Popen], bool]) -> float:
    """Start or resume the run; seconds until its end. `look` is asked now and then, until it says true."""
    begun = (folder / "run" / "config.yaml").is_file()
    arguments = ("resume", "run") if begun else mix.training()
    path = os.pathsep.join(part for part in (str(_ROOT), os.environ.get("PYTHONPATH")) if part)
    started = time.monotonic()
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "embedrun", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            stdout=output,
            stderr=output,
        )
        while process.poll() is None and not look(time.monotonic() - started, process):
            time.sleep(_LOOK)
        process.wait()
    assert process.returncode in (0, -signal.SIGKILL), (folder / "output.txt").read_text()
    return time.monotonic() - started


def _step(run: Path) -> int:
    """The last step in the metrics."""
    try:
        with (run / "metrics.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            lines = file.read().rpartition(b"\n")[0].splitlines()
        return json.loads(lines[-1])["step"]
    except (FileNotFoundError, IndexError):
        return -1
