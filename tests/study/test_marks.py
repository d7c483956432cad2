"""Marks and tests of a table of finished runs, in every format; the best of several settings by dev score."""

from pathlib import Path

import pytest
from made_runs import made_run

from embedrun.errors import ConfigError
from embedrun.study.claims import Claim, decide
from embedrun.study.drawn import evidence
from embedrun.study.marks import judged
from embedrun.table.cells import Cells
from embedrun.table.formats import latex, markdown, to_html
from embedrun.table.of_paper import sheet_for
from embedrun.table.preset import load

pytestmark = pytest.mark.usefixtures("_alone")

HEAD = "+experiment=quickstart"
NOISE = {"good": 0.5, "fair": 1.5, "poor": 3.0}
LR = {"good": "1e-3", "fair": "2e-3", "poor": "3e-3"}  # tells the runs of a row from others
MINE = f"""\
title: Three
seeds: [1, 2, 3]
shared: {{train: [{HEAD}]}}
columns:
  Test: toy_test/spearman
  p: {{test: Test, against: poor}}
  Dev: toy_dev/spearman
rows:
  - {{label: good, overrides: [training.lr=1e-3]}}
  - {{label: fair, overrides: [training.lr=2e-3]}}
  - {{label: poor, overrides: [training.lr=3e-3]}}
"""


def shown(text: str = MINE):
    Path("mine.yaml").write_text(text)
    table, cells = load("mine.yaml"), Cells()
    slots = cells.find(table)
    return table, slots, judged(sheet_for(table, cells), table, slots, marks=True)


@pytest.fixture
def _runs(_alone: None) -> None:
    for name, noise in NOISE.items():
        for seed in (1, 2, 3):
            made_run(Path("outputs"), [HEAD, f"training.lr={LR[name]}"], seed, noise=noise)


@pytest.mark.usefixtures("_runs")
def test_the_best_is_bold_and_a_dagger_is_holms_verdict_over_the_table():
    table, slots, sheet = shown()
    marks = {(one.row, one.column): (one.best, one.better) for one in sheet.entries}
    assert marks["good", "Test"] == (True, True)
    # All dev scores are 50: all are best as printed, and there are no predictions to test them by.
    assert {marks[row, "Dev"] for row in NOISE} == {(True, False)}
    assert marks["fair", "Test"] == marks["poor", "Test"] == (False, False)
    runs = {row: evidence(table, row, "Test", slots) for row in NOISE}
    (decision,) = decide([Claim("", "good", "fair")], runs)
    assert decision.verdict == "yes"
    # Against a baseline there are two comparisons.
    _, _, sheet = shown(MINE.replace("seeds:", "baseline: poor\nseeds:"))
    assert {one.row for one in sheet.entries if one.better} == {"good", "fair"}
    assert "†: better than poor by 0.3 or more" in sheet.notes[0]
    assert "Holm's correction over 2 comparisons" in sheet.notes[0]
    assert sheet.notes[1] == "Not tested, since no predictions give the score: Dev"


@pytest.mark.usefixtures("_runs")
def test_a_column_has_the_p_value_of_a_difference():
    table, slots, sheet = shown()
    p = {one.row: one.mean for one in sheet.entries if one.column == "p"}
    runs = {row: evidence(table, row, "Test", slots) for row in NOISE}
    decisions = decide([Claim(row, row, "poor") for row in ("good", "fair")], runs)
    assert p == {"good": decisions[0].estimate.p, "fair": decisions[1].estimate.p, "poor": None}


@pytest.mark.usefixtures("_runs")
def test_marks_are_shown_in_every_format():
    _, _, sheet = shown()
    (mean,) = [f"{one.mean:.2f} ± {one.sd:.2f}" for one in sheet.entries if one.better]
    assert f"| **{mean}†** |" in markdown(sheet)
    assert "| **50.00 ± 0.00** |" in markdown(sheet)  # the best, and not tested
    in_latex = mean.replace("±", r"$\pm$")
    assert rf"\textbf{{{in_latex}$^\dagger$}}" in latex(sheet)
    assert f"<b>{mean}<sup>†</sup></b>" in to_html(sheet)
    assert "<script" not in to_html(sheet)


def test_the_best_of_equals_has_no_dagger():
    for lr, noise in (("1e-3", 1.5), ("2e-3", 1.5), ("3e-3", 3.0)):
        for seed in (1, 2, 3):
            # The seeds of the second row are others, so that its mean is another one.
            made_run(Path("outputs"), [HEAD, f"training.lr={lr}"], seed, noise=noise + (lr == "2e-3") * 0.01)
    _, _, sheet = shown()
    assert [one.row for one in sheet.entries if one.best and one.column == "Test"] != []
    assert not any(one.better for one in sheet.entries)


BEST = MINE.replace("[training.lr=1e-3]", "[], best_of: {training.lr: [1e-4, 2e-4]}")


def test_the_best_setting_is_chosen_by_dev_score_never_by_test():
    for lr, noise, dev in (("1e-4", 0.5, 40.0), ("2e-4", 3.0, 41.0)):  # worse on test, better on dev
        for seed in (1, 2, 3):
            made_run(Path("outputs"), [HEAD, f"training.lr={lr}"], seed, noise=noise, dev=dev)
            made_run(Path("outputs"), [HEAD, "training.lr=3e-3"], seed, noise=3.0) if dev == 40 else None
    _, _, sheet = shown(BEST)
    good, _, poor = sheet.rows
    assert good.entries[0].n == 3
    assert good.entries[0].mean == poor.entries[0].mean
    told = "training.lr=2e-4 has the best toy_dev/spearman (training.lr=1e-4 40.00, training.lr=2e-4 41.00)"
    unequal = "It was tried with 2 settings, other rows 1: more trials alone raise the best score"
    assert good.notes == (told, unequal)


def test_nothing_is_chosen_before_each_setting_has_finished():
    made_run(Path("outputs"), [HEAD, "training.lr=1e-4"], 1, noise=0.5)
    _, _, sheet = shown(BEST.replace("[1, 2, 3]", "[1]"))
    assert sheet.rows[0].entries[0].mark == "not run"
    assert sheet.rows[0].notes[0] == "Best of 2 settings by dev score, of which 1 have finished"
    with pytest.raises(ConfigError, match="the choice is by dev score, which rows of kind evaluate"):
        shown(BEST.replace("best_of", "kind: evaluate, best_of"))
