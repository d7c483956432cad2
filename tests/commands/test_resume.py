"""A run that was stopped goes on, by `embedrun resume` or by the same command once more.

`training.resume=auto`: the same command once more goes on with what it finds.
"""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.cli import main
from embedrun.experiment import training
from embedrun.experiment.scoring import Kept
from embedrun.training.step import Stepper

SMALL = ("dataset.train_rows=48", "dataset.dev_rows=16", "dataset.test_rows=16", "gpu=cpu", "gpu.threads=1")
# Two pieces: the test split and the dev split of the toy data.
TWO = ("evaluation=heldout", "dataset=toy", "+evaluation.tasks.dev={name: heldout, split: dev}", *SMALL)


@pytest.fixture(scope="module")
def interrupted_once(tiny, tmp_path_factory) -> Path:
    """An evaluation that ended with Ctrl-C after its first piece."""
    folder = tmp_path_factory.mktemp("interrupted")
    save = Kept.save

    def once(self: Kept, *piece) -> None:
        save(self, *piece)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setattr(Kept, "save", once)
        assert main(["evaluate", f"model='{tiny.path}'", *TWO, "hydra.run.dir=part"]) == 130
    return folder / "part"


@pytest.fixture
def interrupted(interrupted_once) -> Path:
    """A copy of it, in `part` of the test's own folder."""
    shutil.copytree(interrupted_once, "part")
    assert json.loads(Path("part/status.json").read_text())["state"] == "interrupted"
    return Path("part")


def scores(folder: Path | str) -> dict:
    found = json.loads((Path(folder) / "results.json").read_text())
    return {key: found[key] for key in ("main", "scores", "intervals", "counts")}


def test_a_resumed_evaluation_ends_as_an_uninterrupted_one_and_scores_only_the_rest(
    embedrun, tiny, interrupted, monkeypatch
):
    saved = []
    save = Kept.save
    monkeypatch.setattr(Kept, "save", lambda self, *found: (saved.append(found[0]), save(self, *found))[1])
    ended = embedrun("resume", interrupted)
    assert ended.code == 0, ended.err
    assert saved == ["dev"]
    status = json.loads((interrupted / "status.json").read_text())
    assert status["state"] == "finished"
    assert {"started", "resumed", "ended"} <= status.keys()
    assert embedrun("evaluate", f"model='{tiny.path}'", *TWO, "hydra.run.dir=whole").code == 0
    assert scores(interrupted) == scores("whole")
    assert sorted(path.name for path in interrupted.iterdir()) == sorted(
        path.name for path in Path("whole").iterdir()
    )
    assert not (interrupted / ".parts").exists()


AUTO = "training.resume=auto"


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def states() -> list[tuple[str, int]]:
    """State and attempts of every run."""
    found = [read(path / "status.json") for path in Path("outputs/quickstart").iterdir()]
    return [(one["state"], one["attempts"]) for one in found]


@pytest.fixture
def interrupted_early(embedrun, options, monkeypatch) -> Callable[..., None]:
    """A run that is interrupted before its first step."""

    def run(*more: str) -> None:
        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Stepper, "take", stop)
            assert embedrun("train", *options, *more).code == 130

    return run


def test_the_same_command_goes_on_with_the_run_that_did_not_finish_and_then_begins_another(
    embedrun, options, interrupted_early
):
    interrupted_early(AUTO)
    assert states() == [("interrupted", 1)]
    assert embedrun("train", *options, AUTO).code == 0
    assert states() == [("finished", 2)]
    assert embedrun("train", *options, AUTO).code == 0
    assert sorted(states()) == [("finished", 1), ("finished", 2)]


def test_in_a_directory_that_the_user_names_the_run_there_goes_on_and_one_that_has_finished_is_left(
    embedrun, options, interrupted_early
):
    place = "hydra.run.dir=mine"
    interrupted_early(AUTO, place)
    assert embedrun("train", *options, AUTO, place).code == 0
    assert read(Path("mine/status.json"))["attempts"] == 2
    before = {path: path.read_bytes() for path in Path("mine").rglob("*") if path.is_file()}
    ended = embedrun("train", *options, AUTO, place)
    assert (ended.code, "mine: has finished; its scores are in mine/results.json" in ended.err) == (0, True)
    assert {path: path.read_bytes() for path in Path("mine").rglob("*") if path.is_file()} == before
    Path("mine/results.json").unlink()
    ended = embedrun("train", *options, AUTO, place)
    assert (ended.code, "mine/results.json: has no main score, though mine says" in ended.err) == (3, True)


def test_a_run_killed_before_it_had_begun_begins_in_the_same_directory(embedrun, options, monkeypatch):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    place = "hydra.run.dir=mine"
    with monkeypatch.context() as patch:
        patch.setattr(training, "describe", stop)
        assert embedrun("train", *options, AUTO, place).code == 130
    assert not Path("mine/config.yaml").exists()
    assert embedrun("train", *options, place).code == 2  # only where that is asked for
    assert embedrun("train", *options, AUTO, place).code == 0
    assert read(Path("mine/status.json"))["attempts"] == 1
