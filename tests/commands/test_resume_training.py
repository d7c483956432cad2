"""A training run that was stopped anywhere ends as one that was not."""

import contextlib
import io
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from embedrun.cli import main
from embedrun.experiment import scoring, training
from embedrun.experiment.scoring import Kept
from embedrun.runs.directory import Run
from embedrun.training.step import Stepper

STEPS = ("training.max_steps=6", "training.evaluate_every=2", "tracking.log_every=1")
TAKE = Stepper.take


class Killed(BaseException):
    """As if by kill -9."""


def die(*_: object, **__: object) -> None:
    raise Killed


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture
def killed(monkeypatch, embedrun) -> Callable[..., None]:
    """Run a command that dies in the call of a function, or after it; what it does not write stays so."""

    def run(where: object, name: str, *command: str | Path, after: bool = False) -> None:
        original = getattr(where, name)

        def call(*arguments, **options):
            if after:
                original(*arguments, **options)
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(where, name, call)
            patch.setattr(Run, "end", lambda self, *_: self.release())
            with pytest.raises(Killed):
                embedrun(*command)

    return run


def at_step(patch: pytest.MonkeyPatch, step: int, do: Callable[[], object]) -> None:
    """Do something when that step is about to be taken."""

    def take(self: Stepper, number: int, *rest, **options):
        if number == step:
            do()
        return TAKE(self, number, *rest, **options)

    patch.setattr(Stepper, "take", take)


def quietly(folder: Path, *arguments: str) -> int:
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        return main(arguments)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, options) -> Path:
    """A run that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole")
    assert quietly(folder, "train", *options, *STEPS, "hydra.run.dir=run") == 0
    return folder / "run"


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory, options) -> Path:
    """A run that got SIGTERM in step 5; it has checkpoints of the steps 4 and 5."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patch:
        at_step(patch, 5, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert quietly(folder, "train", *options, *STEPS, "hydra.run.dir=run") == 143
    return folder / "run"


@pytest.fixture
def stopped(stopped_once) -> Path:
    """A copy of it, in `run` of the test's own folder."""
    shutil.copytree(stopped_once, "run")
    return Path("run")


def result(run: Path) -> dict[str, object]:
    """What two equal runs have in common."""
    results = read(run / "results.json")
    del results["seconds"]
    del (
        results["amounts"]["minutes"],
        results["amounts"]["energy_kwh"],
    )  # the rest, too, is that of a whole run
    last = run / "checkpoints" / "step-00000006"
    files = ["metrics.jsonl", "model/model.safetensors", "contamination.json", "config.yaml"]
    return {
        "results": results,
        "bytes": {name: (run / name).read_bytes() for name in files},
        "checkpoint": {path.name: path.read_bytes() for path in last.iterdir()},
        "predictions": {
            path.name: pq.read_table(path).to_pydict() for path in (run / "predictions").iterdir()
        },
        "files": sorted(path.name for path in run.iterdir()),
        "state": read(run / "status.json")["state"],
    }


def test_a_run_killed_at_every_stage_one_after_the_other_ends_as_one_that_was_not(
    killed, embedrun, options, whole, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # where nothing is scored yet
    killed(training, "build", "train", *options, *STEPS, "hydra.run.dir=run")
    killed(Kept, "save", "resume", "run", after=True)  # of the test set, untrained
    for step in (1, 4):
        with monkeypatch.context() as patch:
            patch.setattr(Run, "end", lambda self, *_: self.release())
            at_step(patch, step, die)
            with pytest.raises(Killed):
                embedrun("resume", "run")
    killed(Kept, "save", "resume", "run", after=True)  # of the test set, trained
    killed(training, "write_predictions", "resume", "run")  # model/ has its name
    killed(Run, "results", "resume", "run")
    killed(scoring, "report", "resume", "run")  # results.json is there
    assert read(Path("run/status.json"))["state"] == "running"
    ended = embedrun("resume", "run")
    assert (ended.code, "has finished" in ended.err) == (0, True)
    assert result(Path("run")) == result(whole)
    assert read(Path("run/status.json"))["attempts"] == 8
    stages = read(Path("run/results.json"))["seconds"]
    assert set(stages) == {"load", "baseline", "train", "evaluate"}


def test_a_signal_saves_within_the_step_says_how_to_go_on_and_the_end_is_the_same(embedrun, stopped, whole):
    status = read(stopped / "status.json")
    assert (status["state"], status["checkpoint"], status["attempts"]) == ("interrupted", 5, 1)
    before = (stopped / "speed.jsonl").read_text().splitlines()
    ended = embedrun("resume", stopped)
    assert ended.code == 0, ended.err
    assert "resuming from run/checkpoints/step-00000005" in ended.err
    assert result(stopped) == result(whole)
    assert (stopped / "speed.jsonl").read_text().splitlines()[: len(before)] == before
    (once,) = read(stopped / "environment.json")["resumed"]
    assert (once["step"], once["differences"]) == (5, [])


def test_a_signal_while_scoring_ends_the_run_at_once_with_its_own_code(embedrun, options, monkeypatch):
    def save(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)

    monkeypatch.setattr(Kept, "save", save)
    ended = embedrun("train", *options, "hydra.run.dir=run")
    assert ended.code == 130
    assert "embedrun resume run continues from what is done, with the same options" in ended.err
    assert read(Path("run/status.json"))["state"] == "interrupted"


def test_a_torn_last_line_and_what_came_after_the_checkpoint_are_taken_back(embedrun, stopped, whole):
    with (stopped / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "split": "train"}\n{"ste')
    assert embedrun("resume", stopped).code == 0
    assert result(stopped) == result(whole)


def test_a_damaged_checkpoint_is_set_aside_and_the_run_goes_on_from_the_one_before(embedrun, stopped, whole):
    path = stopped / "checkpoints" / "step-00000005" / "optimizer.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    ended = embedrun("resume", stopped)
    assert ended.code == 0
    assert "warning: run/checkpoints/step-00000005 is damaged" in ended.err
    assert (stopped / "checkpoints" / "corrupt-step-00000005").is_dir()
    assert result(stopped) == result(whole)


def test_without_a_whole_checkpoint_nothing_is_started_afresh(embedrun, stopped):
    for path in (stopped / "checkpoints").glob("step-*/model.safetensors"):
        path.unlink()
    before = (stopped / "metrics.jsonl").read_bytes()
    for _ in range(2):
        ended = embedrun("resume", stopped)
        assert ended.code == 7
        assert "no checkpoint to resume from" in ended.err
        assert "or start a new run (training.resume=never)" in ended.err
        assert "embedrun resume" not in ended.err
    shutil.rmtree(stopped / "checkpoints")
    assert embedrun("resume", stopped).code == 7
    assert (stopped / "metrics.jsonl").read_bytes() == before
    assert read(stopped / "status.json")["state"] == "failed"


def test_when_the_best_checkpoint_is_lost_that_is_said_and_recorded(embedrun, stopped):
    state = read(stopped / "checkpoints" / "step-00000005" / "state.json")
    (stopped / "checkpoints" / f"step-{state['best']['step']:08d}" / "model.safetensors").unlink()
    ended = embedrun("resume", stopped)
    assert ended.code == 0, ended.err
    assert "it was the best so far" in ended.err
    assert read(stopped / "results.json")["notes"]["exact_resume"] is False
    assert read(stopped / "status.json")["exact_resume"] is False


def test_a_run_whose_configuration_was_edited_does_not_go_on(embedrun, stopped):
    path = stopped / "config.yaml"
    text = path.read_text()
    path.write_text(text.replace("max_steps: 6", "max_steps: 8"))
    before = {one: one.read_bytes() for one in stopped.rglob("*") if one.is_file()}
    ended = embedrun("resume", stopped)
    assert ended.code == 2
    assert "training.max_steps: 6 -> 8 since run began; change it back" in ended.err
    assert {one: one.read_bytes() for one in stopped.rglob("*") if one.is_file()} == before
    path.write_text(text.replace("log_every: 1", "log_every: 5"))  # changes no result
    assert embedrun("resume", stopped).code == 0


def test_other_data_and_other_code_are_refused(embedrun, stopped):
    path = stopped / "environment.json"
    text = path.read_text().replace('"toy/train": "', '"toy/train": "0')
    path.write_text(text.replace('"code loss angle": "', '"code loss angle": "0'))
    ended = embedrun("resume", stopped)
    assert ended.code == 2
    assert "the rows of toy/train have changed since run began" in ended.err
    assert "the code of angle has changed since run began; start a new run" in ended.err


def test_a_directory_in_use_is_refused_and_no_byte_changes(embedrun, stopped):
    holder = Run(stopped)
    before = {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}
    ended = embedrun("resume", stopped)
    assert ended.code == 8
    assert "run: in use by another process" in ended.err
    assert {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()} == before
    holder.release()


def test_a_batch_whose_loss_is_not_finite_is_written_down(embedrun, options, monkeypatch):
    import torch

    def spoil(self, *rest, **more):
        for weight in self.trained.parameters():
            torch.nn.init.constant_(weight, float("nan"))
        return TAKE(self, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "take", spoil)
        ended = embedrun("train", *options, *STEPS, "hydra.run.dir=run")
    assert ended.code == 4
    bad = read(Path("run/bad_batch.json"))
    assert (bad["step"], bad["values"]["loss"]) == (1, "nan")
    ((first, *rest),) = bad["rows"]
    assert len({first, *rest}) == 16
    assert all(0 <= row < 48 for row in (first, *rest))
    # What was the matter is gone, such as a faulty device: the run goes on, and the file is of the past.
    assert embedrun("resume", "run").code == 0
    assert not Path("run/bad_batch.json").exists()


@pytest.mark.parametrize("code", [5, 6])
def test_a_failed_run_is_resumable(embedrun, options, monkeypatch, whole, code):
    faults = {5: OSError(28, "No space left on device"), 6: MemoryError()}

    def fail() -> None:
        raise faults[code]

    with monkeypatch.context() as patch:
        at_step(patch, 4, fail)
        ended = embedrun("train", *options, *STEPS, "hydra.run.dir=run")
    assert ended.code == code
    assert "embedrun resume run continues" in ended.err
    assert read(Path("run/status.json"))["state"] == "failed"
    assert embedrun("resume", "run").code == 0
    assert result(Path("run")) == result(whole)
