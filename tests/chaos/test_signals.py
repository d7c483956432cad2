"""A run that is told to end loses nothing and goes on exactly."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import accidents
import forked
import operations
import pytest
import same_run
from small_mixes import STEPS

from embedrun.experiment.scoring import Scorer

pytestmark = pytest.mark.chaos
SAVED = STEPS // 2  # a step with dev score and checkpoint
STEP = SAVED + 3
CODES = {signal.SIGTERM: 143, signal.SIGHUP: 143, signal.SIGINT: 130}
SOON = 20.0  # seconds; a step takes hundredths


@contextmanager
def in_a_step(number: int) -> Iterator[None]:
    with accidents.at_step(STEP, partial(accidents.signal_self, number)):
        yield


@contextmanager
def in_a_save(number: int) -> Iterator[None]:
    """In that of the checkpoint before."""
    armed = []

    def act() -> None:
        if armed:
            armed.clear()
            accidents.signal_self(number)

    in_save = operations.strike("write .tmp-step-N/random.safetensors", act, Path("run/checkpoints"))
    with in_save, accidents.at_step(SAVED, lambda: armed.append(True)):
        yield


@contextmanager
def in_a_dev_score(number: int) -> Iterator[None]:
    """In that of the checkpoint before."""
    score, armed = Scorer.score, []

    def interrupted(self: Scorer, *rest, **more):
        if armed:
            accidents.signal_self(number)
            time.sleep(SOON)
        return score(self, *rest, **more)

    with pytest.MonkeyPatch.context() as patch, accidents.at_step(SAVED, lambda: armed.append(True)):
        patch.setattr(Scorer, "score", interrupted)
        yield


@pytest.mark.parametrize(
    ("when", "number", "step"),
    [
        (in_a_step, signal.SIGTERM, STEP),
        (in_a_step, signal.SIGHUP, STEP),
        (in_a_step, signal.SIGINT, STEP),
        (in_a_save, signal.SIGTERM, SAVED + 1),  # the save ends, and the next step sees it
        (in_a_dev_score, signal.SIGINT, SAVED),  # which is made up for
    ],
)
def test_a_signal_ends_the_run_within_the_step_and_nothing_is_lost(
    undisturbed, tmp_path: Path, when: Callable, number: signal.Signals, step: int
):
    ended = forked.run(tmp_path, *undisturbed.arguments, around=partial(when, number))
    assert ended.code == CODES[number], ended.said
    assert "embedrun resume run continues" in ended.said
    status = same_run.read(tmp_path / "run" / "status.json")
    assert (status["state"], status["checkpoint"]) == ("interrupted", step)
    assert same_run.metrics(tmp_path / "run")[-1]["step"] == step
    assert forked.run(tmp_path, "resume", "run").code == 0
    run = tmp_path / "run"
    assert (same_run.resumed(run), same_run.differences(run, undisturbed.content)) == ([step], [])
