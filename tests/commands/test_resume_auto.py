"""`training.resume=auto`: the same command once more goes on with what it finds."""

import fcntl
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from embedrun.experiment import training
from embedrun.runs import search
from embedrun.runs.directory import Run
from embedrun.training.step import Stepper

AUTO = "training.resume=auto"


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def states() -> list[tuple[str, int]]:
    """State and attempts of every run."""
    found = [read(path / "status.json") for path in Path("outputs/quickstart").iterdir()]
    return [(one["state"], one["attempts"]) for one in found]


@pytest.fixture
def interrupted(embedrun, options, monkeypatch) -> Callable[..., None]:
    """A run that is interrupted before its first step."""

    def run(*more: str, small: Sequence[str] = options) -> None:
        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Stepper, "take", stop)
            assert embedrun("train", *small, *more).code == 130

    return run


def test_the_same_command_goes_on_with_the_run_that_did_not_finish_and_then_begins_another(
    embedrun, options, interrupted
):
    interrupted(AUTO)
    assert states() == [("interrupted", 1)]
    assert embedrun("train", *options, AUTO).code == 0
    assert states() == [("finished", 2)]
    assert embedrun("train", *options, AUTO).code == 0
    assert sorted(states()) == [("finished", 1), ("finished", 2)]


def test_a_run_with_links_in_it_is_refused_before_rows_are_read(embedrun, options, interrupted, monkeypatch):
    interrupted(AUTO)
    (run,) = Path("outputs/quickstart").iterdir()
    shutil.move(run / "run.log", "canary")
    (run / "run.log").symlink_to(Path("canary").resolve())
    before = Path("canary").read_bytes()
    monkeypatch.setattr(training, "Session", None)
    ended = embedrun("train", *options, AUTO)
    assert ended.code == 2
    assert f"{run}/run.log is a link to {Path('canary').resolve()}; embedrun writes through no" in ended.err
    assert Path("canary").read_bytes() == before
    assert states() == [("interrupted", 1)]


CONFIG = {"seed": 1, "tracking": {"log_every": 1}, "training": {"lr": 0.1, "resume": "never"}}


def unfinished_run(started: str = "2026-01-01", state: str = "interrupted") -> Path:
    run = Run.create("toy", CONFIG)
    run.start(CONFIG, [], {})
    run.status(started=started)
    run.end(state)
    return run.path


def test_a_run_of_another_configuration_or_one_that_has_finished_is_not_taken():
    path = unfinished_run()
    assert search.unfinished("toy", CONFIG, None) == path
    assert search.unfinished("toy", {**CONFIG, "seed": 2}, None) is None
    assert search.unfinished("other", CONFIG, None) is None
    Run(path).end("finished")
    assert search.unfinished("toy", CONFIG, None) is None


@pytest.mark.parametrize("state", ["running", "failed", "interrupted"])
def test_killed_failed_and_interrupted_runs_are_taken_and_left_as_they_are(state):
    path = unfinished_run(state=state)
    before = (path / "status.json").read_bytes()
    assert search.unfinished("toy", CONFIG, None) == path
    assert (path / "status.json").read_bytes() == before


def test_what_changes_no_result_may_differ():
    path = unfinished_run()
    again = {**CONFIG, "tracking": {"log_every": 5}, "training": {"lr": 0.1, "resume": "auto"}, "name": "x"}
    assert search.unfinished("toy", again, None) == path


def test_the_newest_is_taken_that_nobody_writes_into():
    second, newest, first = (unfinished_run(day) for day in ("2026-01-02", "2026-01-03", "2026-01-01"))
    holder = Run(newest)
    assert search.unfinished("toy", CONFIG, None) == second
    holder.release()
    assert search.unfinished("toy", CONFIG, None) == newest
    assert first.exists()


def test_in_a_directory_that_the_user_names_the_run_there_goes_on_and_one_that_has_finished_is_left(
    embedrun, options, interrupted
):
    place = "hydra.run.dir=mine"
    interrupted(AUTO, place)
    assert embedrun("train", *options, AUTO, place).code == 0
    assert read(Path("mine/status.json"))["attempts"] == 2
    before = {path: path.read_bytes() for path in Path("mine").rglob("*") if path.is_file()}
    ended = embedrun("train", *options, AUTO, place)
    assert (ended.code, "mine: has finished; its scores are in mine/results.json" in ended.err) == (0, True)
    assert {path: path.read_bytes() for path in Path("mine").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("finished", [False, True])
def test_a_named_directory_with_a_run_of_another_configuration_is_refused(
    embedrun, options, interrupted, finished
):
    place = "hydra.run.dir=mine"
    interrupted(place)
    if finished:
        assert embedrun("resume", "mine").code == 0
    ended = embedrun("train", *options, AUTO, place, "training.lr=0.5", "seed=7")
    assert ended.code == 2
    assert "seed: 42 -> 7 since mine began" in ended.err
    assert "training.lr: " in ended.err
    assert " -> 0.5 since mine began" in ended.err
    assert "training.resume" not in ended.err


@pytest.mark.parametrize("place", [None, "mine"])
def test_a_second_stage_goes_on_with_its_first_stage_whatever_has_finished_since(
    embedrun, tiny, options, interrupted, place
):
    first = shutil.copytree(tiny.path, "outputs/first/a")
    small = [one for one in options if "scratch" not in one]
    named = ["backbone.name=run:first", "backbone.scratch=null", "name=second"]
    named += [] if place is None else [f"hydra.run.dir={place}"]
    interrupted(AUTO, *named, small=small)
    shutil.copytree(first, "outputs/first/b")
    status = {**read(Path("outputs/first/b/status.json")), "ended": "2999-01-01"}
    Path("outputs/first/b/status.json").write_text(json.dumps(status))
    ended = embedrun("train", *small, AUTO, *named)
    assert ended.code == 0, ended.err
    (folder,) = Path("outputs/second").iterdir() if place is None else [Path(place)]
    assert read(folder / "status.json")["attempts"] == 2
    assert f"name: {Path(first).resolve()}\n" in (folder / "config.yaml").read_text()


def test_a_named_directory_in_use_is_refused(embedrun, options, interrupted):
    interrupted("hydra.run.dir=mine")
    holder = Run(Path("mine"))
    ended = embedrun("train", *options, AUTO, "hydra.run.dir=mine")
    assert (ended.code, "another process is writing into it" in ended.err) == (8, True)
    holder.release()


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


def test_a_folder_of_somebody_else_is_refused(embedrun, options):
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("precious")
    ended = embedrun("train", *options, AUTO, "hydra.run.dir=mine")
    assert (ended.code, "hydra.run.dir: mine exists" in ended.err) == (2, True)


def test_folders_that_are_no_run_are_passed_over():
    path = unfinished_run()
    (path / "status.json").write_text("[")
    assert search.unfinished("toy", CONFIG, None) is None


def test_one_that_others_only_look_at_is_free():
    path = unfinished_run()
    with (path / ".lock").open() as looked_at:
        fcntl.flock(looked_at, fcntl.LOCK_SH)
        assert search.unfinished("toy", CONFIG, None) == path
    (path / ".lock").unlink()
    assert search.unfinished("toy", CONFIG, None) == path
    assert not (path / ".lock").exists()


@pytest.mark.parametrize("place", ["mine", None])
def test_a_run_killed_when_all_was_written_has_finished(embedrun, options, interrupted, place):
    named = [] if place is None else [f"hydra.run.dir={place}"]
    interrupted(AUTO, *named)
    (folder,) = [Path(place)] if place else Path("outputs/quickstart").iterdir()
    shutil.rmtree(folder / ".parts")  # which goes before the status says so
    main = {"name": "toy_test/spearman", "value": 1.0}
    (folder / "results.json").write_text(json.dumps({"main": main}))
    ended = embedrun("train", *options, AUTO, *named)
    assert (ended.code, f"{folder}: has finished; its scores are in" in ended.err) == (0, True)
    assert read(folder / "status.json")["state"] == "finished"
    assert read(folder / "results.json") == {"main": main}
