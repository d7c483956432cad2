"""Which earlier runs of a job count: those on the rows of now, with the models of now."""

from pathlib import Path
from typing import Any

import pytest

from embedrun.config.compose import Request, composed
from embedrun.experiment.data import Fingerprints, digest
from embedrun.launch.before import before
from embedrun.runs.directory import Run

ROWS = {"toy/test": "of other rows"}


@pytest.fixture
def model() -> Path:
    """A folder that passes for a model."""
    folder = Path("m")
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text("weights")
    (folder / "vocab.txt").write_text("[UNK]\nword\n")
    return folder


@pytest.fixture
def config(model: Path) -> dict[str, Any]:
    wanted = (f"model={model}", "evaluation=heldout", "dataset=toy", "dataset.test_rows=4")
    return composed(Request("evaluate", wanted)).config


def begun(config: dict[str, Any], data: dict[str, str], *, directory: str | None = None) -> Run:
    run = Run.create(config["name"], config, directory=directory)
    run.start(config, [], {"data": data})
    return run


def test_a_score_of_other_weights_does_not_count(config, model):
    run = begun(config, {"model m": digest(model)})
    run.end("finished")
    assert before("evaluate", config, None, Fingerprints()).finished == run.path
    (model / "model.safetensors").write_text("trained further")
    assert before("evaluate", config, None, Fingerprints()).finished is None


def test_a_run_that_has_not_noted_its_model_counts(config):
    run = begun(config, {})
    run.end("finished")
    assert before("evaluate", config, None, Fingerprints()).finished == run.path


def test_an_unfinished_run_on_other_rows_is_not_gone_on_with(config):
    begun(config, ROWS).release()
    assert before("evaluate", config, None, Fingerprints()).unfinished is None
    own = begun(config, {})
    own.release()
    assert before("evaluate", config, None, Fingerprints()).unfinished == own.path


def test_in_a_named_directory_what_has_changed_is_said(config):
    begun(config, ROWS | {"model m": "of another"}, directory="a").release()
    fault = before("evaluate", config, "a", Fingerprints()).fault
    assert fault == "a began on other rows of toy/test and files of m; name another directory"


def test_a_named_directory_that_a_killed_run_left_makes_room_unless_other_files_are_in_it(config):
    run = Run.create(config["name"], config, directory="named")
    run.release()
    (run.path / "notes.txt").write_text("mine")
    fault = before("evaluate", config, "named", Fingerprints()).fault
    assert fault == "named holds files of no run; name another directory"
    (run.path / "notes.txt").unlink()
    assert before("evaluate", config, "named", Fingerprints()).fault is None
    assert not run.path.exists()
