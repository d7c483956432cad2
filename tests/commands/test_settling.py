"""The models of a run that goes on are those that it began with, whatever has finished since."""

import json
from pathlib import Path

import pytest

from embedrun.runs.directory import Run, config_hash
from embedrun.runs.search import ASKED, settled_as_begun, settled_for

PLAIN = {"name": "second", "seed": 1, "tracking": {"log_every": 1}, "backbone": {"name": "run:first"}}


def first(name: str, ended: str) -> str:
    """A finished run of the first stage; returns what stands for it in a configuration."""
    folder = Path("outputs/first", name)
    (folder / "model").mkdir(parents=True)
    (folder / "status.json").write_text(json.dumps({"state": "finished", "ended": ended}))
    return str(folder.resolve())


def second(started: str = "2026-01-01", state: str = "interrupted", directory: str | None = None) -> Run:
    """A run of the second stage, begun now."""
    config = settled_for(PLAIN, None)
    run = Run.create("second", config, directory=directory)
    run.known[ASKED] = config_hash(PLAIN)
    run.start(config, [], {})
    run.status(started=started)
    run.end(state)
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


def test_what_changes_no_result_is_as_the_user_gives_it_now(begun):
    second()
    first("b", "2026-01-02")
    found = settled_as_begun({**PLAIN, "tracking": {"log_every": 5}}, None)
    assert (backbone(found), found["tracking"]) == (begun, {"log_every": 5})


def test_a_run_of_another_configuration_or_one_that_has_finished_or_is_in_use_is_not_meant(begun):
    run = second()
    later = first("b", "2026-01-02")
    assert backbone(settled_as_begun({**PLAIN, "seed": 2}, None)) == later
    holder = Run(run.path)
    assert backbone(settled_as_begun(PLAIN, None)) == later
    holder.end("finished")
    assert backbone(settled_as_begun(PLAIN, None)) == later


def test_the_newest_is_meant_and_a_finished_one_in_a_directory_that_the_user_names(begun):
    second("2026-01-03")
    middle = first("b", "2026-01-02")
    second("2026-01-02")
    second(state="finished", directory="mine")
    first("c", "2026-01-03")
    assert backbone(settled_as_begun(PLAIN, None)) == begun
    assert backbone(settled_as_begun(PLAIN, "mine")) == middle


def test_a_run_that_never_began_and_one_of_an_older_version_say_nothing(begun):
    killed, older = second(), second()
    (killed.path / "config.yaml").unlink()
    status = json.loads((older.path / "status.json").read_text())
    (older.path / "status.json").write_text(json.dumps({k: v for k, v in status.items() if k != ASKED}))
    later = first("b", "2026-01-02")
    assert backbone(settled_as_begun(PLAIN, None)) == later
    assert backbone(settled_for(PLAIN, older.path)) == later
