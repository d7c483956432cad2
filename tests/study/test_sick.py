"""The rows of the study on SICK have what their trials chose."""

import csv
from pathlib import Path

import pytest

from embedrun.table.preset import load

TRIALS = Path(__file__).parents[2] / "docs/results/sick/trials"


ROWS = {
    override.removeprefix("name=sick_"): row.cells[0]
    for row in load("study/sick").rows
    for override in row.cells[0].overrides
    if override.startswith("name=sick_")
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_the_options_of_its_best_trial(name: str):
    with (TRIALS / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        trials = list(csv.DictReader(lines))
    assert [trial["state"] for trial in trials] == ["finished"] * 8
    best = max(trials, key=lambda trial: float(trial["sickr_dev/spearman"]))
    chosen = dict(override.lstrip("+").split("=", 1) for override in ROWS[name].overrides)
    searched = [name for name in best if "." in name]
    assert {name: float(chosen[name]) for name in searched} == {name: float(best[name]) for name in searched}
