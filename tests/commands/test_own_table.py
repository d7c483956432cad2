"""A table of one's own, from the file to the numbers."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from made_jobs import in_this_process
from made_runs import made_run

from embedrun import plot
from embedrun.launch import launcher

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

MINE = """\
title: Losses on toy pairs
seeds: [1]
shared:
  train: [+experiment=quickstart, training.max_steps=4, dataset.train_rows=64, dataset.test_rows=60]
columns:
  Test: toy_test/spearman
  Dev: toy_dev/spearman
  Gap: {difference: [Dev, Test]}
rows:
  - {label: AnglE, overrides: [name=mine_angle]}
  - {label: mine, overrides: [loss=of_mine, name=mine_cosent], published: {Test: 40.1}}
"""


@pytest.fixture
def presets(monkeypatch) -> Path:
    monkeypatch.setattr(launcher, "run_in_child", in_this_process)
    folder = Path("own/loss")
    folder.mkdir(parents=True)
    (folder / "of_mine.yaml").write_text("terms:\n  cosent: {weight: 1.0, temperature: 0.1}\n")
    Path("mine.yaml").write_text(MINE)
    return folder.parent


def test_a_file_is_reproduced_and_tabled_with_presets_of_its_own(embedrun, presets: Path):
    words = ("mine.yaml", "--config-dir", str(presets))
    ended = embedrun("reproduce", *words)
    assert ended.code == 0, ended.err
    assert "### mine.yaml: Losses on toy pairs" in ended.out
    again = embedrun("reproduce", *words)
    assert again.err.count("finished before") == 2
    (path,) = Path("outputs/mine_cosent").rglob("results.json")
    score = json.loads(path.read_text())["scores"]["toy_test/spearman"]
    assert f" {score:.2f} " in embedrun("table", *words).out
    assert "temperature: 0.1" in path.with_name("config.yaml").read_text()


def test_finished_runs_become_a_table_that_finds_them_again(embedrun):
    for lr, noise in (("1e-3", 0.5), ("2e-3", 3.0)):
        for seed in (1, 2, 3):
            made_run(Path("outputs"), ["+experiment=quickstart", f"training.lr={lr}"], seed, noise=noise)
    assert embedrun("table", "--new", "new.yaml", "--from", "outputs").code == 0
    assert "shared:\n  train:\n  - +experiment=quickstart\ncolumns:" in Path("new.yaml").read_text()
    shown = embedrun("table", "new.yaml", "--marks").out
    (best,) = [line for line in shown.splitlines() if line.startswith("| training.lr=0.001 ")]
    assert "†**" in best
    assert best.split("|")[-2].strip() == "3"
    latex = embedrun("table", "new.yaml", "--marks", "--format", "latex").out
    Path("paper.tex").write_text(latex)
    assert embedrun("table", "new.yaml", "--check", "paper.tex").code == 0
    Path("paper.tex").write_text(latex.replace(r"$^\dagger$", ""))
    assert embedrun("table", "new.yaml", "--check", "paper.tex").code == 0  # it uses no daggers
    Path("paper.tex").write_text(latex.replace(r"\textbf", "", 1))
    ended = embedrun("table", "new.yaml", "--check", "paper.tex")
    assert ended.code == 1
    assert "is to have bold type" in ended.err
    again = embedrun("table", "--new", "new.yaml", "--from", "outputs")
    assert again.code == 2
    assert "'new.yaml' exists" in again.err
    assert "go together" in embedrun("table", "--new", "other.yaml").err


def test_the_cosines_of_each_row_are_plotted_beside_gold(embedrun, monkeypatch):
    for lr, noise in (("1e-3", 0.5), ("2e-3", 3.0)):
        made_run(Path("outputs"), ["+experiment=quickstart", f"training.lr={lr}"], 1, noise=noise)
    assert embedrun("table", "--new", "new.yaml", "--from", "outputs").code == 0
    with Path("new.yaml").open("a") as file:
        file.write("panels: toy_test\n")
    drawn = {}
    monkeypatch.setattr(plot, "panels", lambda cosines, gold, title, path: drawn.update(cosines, gold=gold))
    assert embedrun("table", "new.yaml").code == 0
    labels = ["training.lr=0.001", "training.lr=0.002"]
    assert sorted(drawn) == ["gold", *labels]
    near, far = (np.abs(drawn[label] - drawn["gold"]).mean() for label in labels)
    assert near < far
    (first, second) = sorted(Path("outputs").rglob("toy_test.parquet"))
    pq.write_table(pq.read_table(second).slice(1), second)
    drawn.clear()
    said = embedrun("table", "new.yaml").err
    assert "has other rows than the first panel, so it is left out" in said
    assert len(drawn) == 2
    first.unlink()
    second.unlink()
    said = embedrun("table", "new.yaml").err
    assert said.count("is not there, so training.lr=") == 2
    assert "nothing is measured, so no panel is drawn" in said


def test_what_is_wrong_with_a_file_is_said_together(embedrun, presets: Path):
    faulty = (
        MINE.replace("[Dev, Test]", "[Dev, Tst]")
        .replace("label: mine", "label: AnglE")
        .replace("{Test: 40.1}", "[1, 2]")
    )
    Path("mine.yaml").write_text(faulty)
    ended = embedrun("table", "mine.yaml")
    assert ended.code == 2
    assert (
        "mine.yaml: columns.Gap: no column 'Tst'; did you mean 'Test'? (there are: Test, Dev, Gap)"
        in ended.err
    )
    assert "mine.yaml: rows: 2 rows are 'AnglE'" in ended.err
    assert "mine.yaml: rows[1].published: 2 numbers for 3 columns; null is none" in ended.err
    assert "nowhere.yaml: no such file" in embedrun("reproduce", "nowhere.yaml").err
