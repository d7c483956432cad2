"""Which run is meant: the models of a run that goes on, and a run as the model of another command.

The models of a run that goes on are those that it began with, whatever has finished since.

A run as the model of another command: by its name, or by one of its checkpoints.
"""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from embedrun.runs.directory import Run, config_hash
from embedrun.runs.search import ASKED, settled_as_begun, settled_for, unfinished

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")


CONFIG = {"seed": 1, "tracking": {"log_every": 1}, "training": {"lr": 0.1, "resume": "never"}}


def unfinished_run(ended: str = "2026-01-01", state: str = "interrupted") -> Path:
    run = Run.create("toy", CONFIG)
    run.start(CONFIG, [], {})
    run.end(state)
    (run.path / "status.json").write_text(json.dumps({**run.known, "ended": ended}))
    return run.path


def test_a_run_of_another_configuration_or_one_that_has_finished_is_not_taken():
    path = unfinished_run()
    assert unfinished("toy", CONFIG, None) == path
    assert unfinished("toy", {**CONFIG, "seed": 2}, None) is None
    assert unfinished("other", CONFIG, None) is None
    Run(path).end("finished")
    assert unfinished("toy", CONFIG, None) is None


def test_the_newest_is_taken_that_nobody_writes_into():
    second, newest, _ = (unfinished_run(day) for day in ("2026-01-02", "2026-01-03", "2026-01-01"))
    holder = Run(newest)
    assert unfinished("toy", CONFIG, None) == second
    holder.release()
    assert unfinished("toy", CONFIG, None) == newest


PLAIN = {"name": "second", "seed": 1, "tracking": {"log_every": 1}, "backbone": {"name": "run:first"}}


def first(name: str, ended: str) -> str:
    """A finished run of the first stage; returns what stands for it in a configuration."""
    folder = Path("outputs/first", name)
    (folder / "model").mkdir(parents=True)
    (folder / "status.json").write_text(json.dumps({"state": "finished", "ended": ended}))
    return str(folder.resolve())


def second(ended: str = "2026-01-01", state: str = "interrupted", directory: str | None = None) -> Run:
    """A run of the second stage, begun now."""
    config = settled_for(PLAIN, None)
    run = Run.create("second", config, directory=directory)
    run.known[ASKED] = config_hash(PLAIN)
    run.start(config, [], {})
    run.end(state)
    (run.path / "status.json").write_text(json.dumps({**run.known, "ended": ended}))
    return run


def backbone(config: dict) -> str:
    return config["backbone"]["name"]


@pytest.fixture
def begun() -> str:
    """What a run began with, before another run of the first stage finished."""
    return first("a", "2026-01-01")


@pytest.mark.parametrize("directory", [None, "mine"])
def test_a_run_that_goes_on_keeps_its_model(begun, directory):
    run = second(directory=directory)
    later = first("b", "2026-01-02")
    assert backbone(settled_as_begun(PLAIN, directory)) == backbone(settled_for(PLAIN, run.path)) == begun
    assert backbone(settled_for(PLAIN, None)) == later


@pytest.mark.parametrize("directory", [None, "mine"])
def test_what_a_branch_stands_for_is_asked_once_and_not_at_all_for_a_run_that_goes_on(directory):
    plain, asked = {**PLAIN, "dataset": {"revision": None}}, []

    def pin(options, began):
        asked.extend([] if began else ["the hub"])
        return {"revision": (began or {"revision": "new"})["revision"]}

    assert settled_as_begun(plain, directory, pin)["dataset"] == {"revision": "new"}
    assert asked == ["the hub"]
    run = Run.create("second", plain, directory=directory)
    run.known[ASKED] = config_hash(plain)
    run.start({**plain, "dataset": {"revision": "old"}}, [], {})
    run.end("interrupted")
    assert settled_as_begun(plain, directory, pin)["dataset"] == {"revision": "old"}
    assert asked == ["the hub"]


ROWS = ("dataset.train_rows=48", "dataset.dev_rows=16", "dataset.test_rows=16")
ON_ITS_TEST_ROWS = ("evaluation=heldout", "dataset=toy", *ROWS)


@pytest.fixture
def first_stage(tiny) -> Path:
    """A copy of the finished run, below the outputs of this folder."""
    return shutil.copytree(tiny.path, Path("outputs") / "quickstart" / "run")


def results(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text())


def only(name: str) -> Path:
    (found,) = (Path("outputs") / name).iterdir()
    return found


def test_an_evaluation_of_a_name_gives_the_scores_of_its_run(embedrun, first_stage):
    ended = embedrun("evaluate", "model=run:quickstart", *ON_ITS_TEST_ROWS)
    assert ended.code == 0, ended.err
    found, own = results(only("evaluate"))["scores"], results(first_stage)["scores"]
    assert {key: own[key] for key in found} == pytest.approx(found, abs=1e-3)


def test_a_second_stage_begins_where_the_first_ended(embedrun, first_stage, options):
    shape = [one for one in options if "scratch" not in one]
    ended = embedrun("train", *shape, "backbone.name=run:quickstart", "backbone.scratch=null", "name=second")
    assert ended.code == 0, ended.err
    begun, left = results(only("second"))["baseline"], results(first_stage)["scores"]
    assert {key: left[key] for key in begun} == pytest.approx(begun, abs=1e-3)
    written = yaml.safe_load((only("second") / "config.yaml").read_text())
    assert written["backbone"]["name"] == str(first_stage.resolve())  # for a resumed run to find again
