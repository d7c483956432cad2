"""A run as the model of another command: by its name, or by one of its checkpoints."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

ROWS = ("dataset.train_rows=48", "dataset.dev_rows=16", "dataset.test_rows=16")
ON_ITS_TEST_ROWS = ("evaluation=heldout", "dataset=toy", *ROWS)


@pytest.fixture
def first(tiny) -> Path:
    """A copy of the finished run, below the outputs of this folder."""
    return shutil.copytree(tiny.path, Path("outputs") / "quickstart" / "run")


def results(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text())


def only(name: str) -> Path:
    (found,) = (Path("outputs") / name).iterdir()
    return found


def test_an_evaluation_of_a_name_gives_the_scores_of_its_run(embedrun, first):
    ended = embedrun("evaluate", "model=run:quickstart", *ON_ITS_TEST_ROWS)
    assert ended.code == 0, ended.err
    found, own = results(only("evaluate"))["scores"], results(first)["scores"]
    assert {key: own[key] for key in found} == pytest.approx(found, abs=1e-3)


def test_an_evaluation_of_the_best_checkpoint_gives_the_scores_of_its_run(embedrun, first):
    best = results(first)["counts"]["best_step"]
    step = first / "checkpoints" / f"step-{best:08d}"
    ended = embedrun("evaluate", f"model={step}", *ON_ITS_TEST_ROWS)
    assert ended.code == 0, ended.err
    found, own = results(only("evaluate"))["scores"], results(first)["scores"]
    assert {key: own[key] for key in found} == pytest.approx(found, abs=1e-3)


def test_a_second_stage_begins_where_the_first_ended(embedrun, first, options):
    shape = [one for one in options if "scratch" not in one]
    ended = embedrun("train", *shape, "backbone.name=run:quickstart", "backbone.scratch=null", "name=second")
    assert ended.code == 0, ended.err
    begun, left = results(only("second"))["baseline"], results(first)["scores"]
    assert {key: left[key] for key in begun} == pytest.approx(begun, abs=1e-3)
    written = yaml.safe_load((only("second") / "config.yaml").read_text())
    assert written["backbone"]["name"] == str(first.resolve())  # for a resumed run to find again


def test_texts_are_encoded_by_the_run_of_a_name(embedrun, first):
    Path("texts.txt").write_text("a dog\n")
    for model, output in (("run:quickstart", "named.npy"), (str(first), "placed.npy")):
        ended = embedrun("encode", model, "texts.txt", "-o", output)
        assert ended.code == 0, ended.err
    np.testing.assert_array_equal(np.load("named.npy"), np.load("placed.npy"))


def test_a_checkpoint_and_a_name_are_priced_as_the_model_of_their_run(embedrun, first):
    step = next((first / "checkpoints").glob("step-*"))
    found = []
    for name in (first, step, "run:quickstart"):
        checked = embedrun(
            "check", "+experiment=quickstart", f"backbone.name={name}", "backbone.scratch=null"
        )
        assert checked.code == 0, checked.err
        found.append([line for line in checked.out.splitlines() if line.startswith(("parameters", "memory"))])
    assert found[0] == found[1] == found[2]
    assert "not known" not in found[0][0]


def test_a_run_is_exported_by_its_name(embedrun, first):
    ended = embedrun("export", "run:quickstart", "exported")
    assert ended.code == 0, ended.err
    assert (Path("exported") / "config.json").is_file()
