"""Reduced settings: every cell of every table composes in each, and a run trains on its share of rows."""

import json
from pathlib import Path

import pytest

from embedrun.config.compose import Compositions
from embedrun.experiment.plan import plan_evaluate, plan_train
from embedrun.table.preset import load, load_scale, names, scales


@pytest.fixture(scope="module")
def made() -> Compositions:
    return Compositions()


@pytest.mark.slow
@pytest.mark.parametrize("scale", scales())
def test_every_cell_of_every_table_composes_in_it(made, scale):
    reduced = load_scale(scale)
    cells = {
        cell for name in names() for row in load(name).rows for cell in row.cells if cell.not_runnable is None
    }
    assert len(cells) > 100
    for cell in cells:
        overrides = [*cell.overrides, *getattr(reduced, cell.command)]
        config = {**made.config(cell.command, overrides), "scale": scale}
        (plan_train if cell.command == "train" else plan_evaluate)(config)


def test_a_run_trains_on_a_share_of_the_rows_and_says_so(embedrun, options):
    ended = embedrun("train", *options, "training.data_fraction=0.5", "hydra.run.dir=half")
    assert ended.code == 0, ended.err
    assert "24 rows of toy" in ended.err
    assert json.loads(Path("half/results.json").read_text())["counts"]["train_rows"] == 24
