"""A second Ctrl-C ends a command that the first one has not ended, at once, and the next start goes on."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import accidents
import forked
import pytest
import same_run

from embedrun.experiment.scoring import Kept
from embedrun.runs.directory import Run

pytestmark = [pytest.mark.chaos, pytest.mark.usefixtures("_quick_plots")]
HANGS = Path("hangs")  # is there once the command does
SOON = 2.0 * max(1.0, os.getloadavg()[0] / os.cpu_count())  # seconds
APART = 0.5  # seconds between the two
OPTIONS = ("training.resume=auto", "training.save_every=1", "gpu=cpu", "gpu.threads=1")


def hang() -> NoReturn:
    """Go on with something that no signal but Ctrl-C ends."""
    HANGS.touch()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        time.sleep(0.02)
    raise AssertionError("nobody ended it")


@contextmanager
def in_a_step() -> Iterator[None]:
    """The second of a run hangs, in the first process that gets there."""
    with forked.forked_jobs(), accidents.at_step(2, hang):
        yield


@contextmanager
def when_scored() -> Iterator[None]:
    """An evaluation hangs in what it does once the first Ctrl-C has ended it."""
    save = Kept.save

    def saved(self: Kept, *found) -> NoReturn:
        save(self, *found)
        HANGS.touch()
        time.sleep(60)
        raise AssertionError("nobody ended it")

    with forked.forked_jobs(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kept, "save", saved)
        patch.setattr(Run, "end", lambda *_: time.sleep(60))
        yield


def twice(folder: Path, arguments: tuple[str, ...], around: forked.Around, *, group: bool) -> None:
    """Start a command, and press Ctrl-C twice once it hangs: for it alone, or for all that it has started."""
    (folder / HANGS).unlink(missing_ok=True)
    started = forked.start(folder, *arguments, around=around)
    while not (folder / HANGS).exists():
        assert started.process.is_alive(), started.end()
        time.sleep(0.01)
    press = os.killpg if group else os.kill
    press(started.pid, signal.SIGINT)
    started.process.join(APART)
    assert started.process.is_alive(), "the first ended it"
    press(started.pid, signal.SIGINT)
    asked = time.monotonic()
    ended = started.end()
    assert time.monotonic() - asked < SOON
    assert (ended.code, "Traceback" in ended.said) == (130, False), ended.said
    assert started.left() == []


def content(folder: Path) -> dict[str, object]:
    """Of the run or runs below it."""
    runs = sorted(path.parent for path in folder.rglob("status.json"))
    return {str(run.parent.relative_to(folder)) + str(n): same_run.content(run) for n, run in enumerate(runs)}


@pytest.mark.parametrize(
    ("words", "group"),
    [
        (("train", "hydra.run.dir=run"), True),
        (("train", "-m", "seed=1,2", "hydra.sweep.dir=sweep"), False),
        (("tune", "training.lr=choice(1e-3,1e-2)", "training.evaluate_every=1", "--trials", "2"), False),
    ],
    ids=["train in a terminal", "sweep", "tune"],
)
def test_training_goes_on_to_the_same_bytes(options, tmp_path, words: tuple[str, ...], group: bool):
    forked.warm_up()
    arguments = (words[0], *options, *OPTIONS, *words[1:])
    whole, folder = tmp_path / "whole", tmp_path / "twice"
    whole.mkdir()
    folder.mkdir()
    assert forked.run(whole, *arguments, around=forked.forked_jobs).code == 0
    twice(folder, arguments, in_a_step, group=group)
    ended = forked.run(folder, *arguments, around=forked.forked_jobs)
    assert ended.code == 0, ended.said
    assert content(folder) == content(whole)


def test_an_evaluation_goes_on_from_what_is_scored(tiny, tmp_path):
    forked.warm_up()
    toy = ("dataset.train_rows=48", "dataset.dev_rows=16", "dataset.test_rows=16", "gpu=cpu", "gpu.threads=1")
    two = ("evaluation=heldout", "dataset=toy", "+evaluation.tasks.dev={name: heldout, split: dev}", *toy)
    for name in ("whole", "twice"):
        (tmp_path / name).mkdir()
    arguments = ("evaluate", f"model='{tiny.path}'", *two, "hydra.run.dir=run")
    assert forked.run(tmp_path / "whole", *arguments).code == 0
    twice(tmp_path / "twice", arguments, when_scored, group=True)
    assert len(list((tmp_path / "twice/run/.parts").glob("*.part"))) == 1
    ended = forked.run(tmp_path / "twice", "resume", "run")
    assert ended.code == 0, ended.said
    assert content(tmp_path / "twice") == content(tmp_path / "whole")
