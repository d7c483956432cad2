"""The rows of the studies have what their trials chose."""

import csv
from functools import reduce
from pathlib import Path

import pytest

from embedrun.config.compose import Compositions
from embedrun.table.preset import load

RESULTS = Path(__file__).parents[2] / "docs/results"
DEV = {"sick": "sickr_dev/spearman", "cut": "stsb_dev/spearman"}
ROWS = [(study, row.id) for study in DEV for row in load(f"study/{study}").rows]


@pytest.mark.parametrize(("study", "row"), ROWS)
def test_a_row_has_the_options_of_its_best_trial(study: str, row: str):
    cell = next(it.cells[0] for it in load(f"study/{study}").rows if it.id == row)
    config = Compositions().config(cell.command, cell.overrides)
    name = config["name"].partition("_")[2]  # of cut_angle, say; RAOE's row is +experiment=study_raoe
    with (RESULTS / study / "trials" / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        trials = list(csv.DictReader(lines))
    assert [trial["state"] for trial in trials] == ["finished"] * 8
    best = max(trials, key=lambda trial: float(trial[DEV[study]]))
    searched = {option: value for option, value in best.items() if "." in option}
    assert searched
    chosen = {option: reduce(dict.__getitem__, option.split("."), config) for option in searched}
    assert {option: float(value) for option, value in searched.items()} == chosen
