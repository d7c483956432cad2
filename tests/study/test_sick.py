"""The rows of the study on SICK have what their trials chose."""

import csv
from pathlib import Path

import pytest

from embedrun.table.preset import load

TRIALS = Path(__file__).parents[2] / "docs/results/sick/trials"


@pytest.mark.parametrize("file", sorted(TRIALS.glob("*.csv")), ids=lambda file: file.stem)
def test_a_row_has_the_options_of_its_best_trial(file: Path):
    with file.open(encoding="utf-8", newline="") as lines:
        trials = list(csv.DictReader(lines))
    assert [trial["state"] for trial in trials] == ["finished"] * 8
    best = max(trials, key=lambda trial: float(trial["sickr_dev/spearman"]))
    (cell,) = [
        row.cells[0] for row in load("study/sick").rows if f"name=sick_{file.stem}" in row.cells[0].overrides
    ]
    chosen = dict(override.lstrip("+").split("=", 1) for override in cell.overrides)
    searched = [name for name in best if "." in name]
    assert {name: float(chosen[name]) for name in searched} == {name: float(best[name]) for name in searched}
