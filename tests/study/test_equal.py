"""Tables whose trainings all use the same amount."""

import json
from pathlib import Path

import pytest
from made_jobs import in_this_process

from embedrun.errors import ConfigError
from embedrun.launch import launcher
from embedrun.study.equal import equalled
from embedrun.table.cells import Measured, Slot
from embedrun.table.preset import Cell, Column, Row, Table

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

SHORT = (
    "+experiment=quickstart, dataset.train_rows=64, dataset.test_rows=200, training.batch_size=8, "
    "training.evaluate_every=null"
)
TABLE = f"""
columns: {{Toy: toy_test/spearman}}
shared: {{train: [{SHORT}]}}
seeds: [1]
rows:
  - {{label: short, overrides: [training.max_steps=2]}}
  - {{label: long, overrides: [training.max_steps=5], published: [60]}}
"""


def test_the_row_that_uses_most_is_cut_and_the_least_stays_as_it_is(embedrun, monkeypatch):
    monkeypatch.setattr(launcher, "run_in_child", in_this_process)
    Path("mine.yaml").write_text(TABLE)
    ended = embedrun("reproduce", "mine.yaml", "--equal", "rows")
    assert ended.code == 0, ended.err
    assert "1. 2 of 5 steps" in ended.out
    assert "Equal rows for every training of a column: 16" in ended.out
    assert "60" not in ended.out  # the paper's number is of five steps
    used = [json.loads(path.read_text())["amounts"] for path in Path("outputs").rglob("results.json")]
    # The row of two steps is the cut one, too: it is not run again.
    assert sorted(one["rows"] for one in used) == [16, 40]
    # 6 operations for each token and weight of the linear layers: those of the tiny BERT's two layers.
    assert {one["flops"] / one["tokens"] for one in used} == {6 * 2 * (4 * 128 * 129 + 512 * 129 + 128 * 513)}


def spends(folder: Path, name: str, tokens: int | None, steps: int) -> Measured:
    (folder / name).mkdir()
    results = {"amounts": {"tokens": tokens}, "counts": {"steps": steps}}
    (folder / name / "results.json").write_text(json.dumps(results))
    return Measured(folder / name, name, 1, "finished")


def test_steps_are_cut_by_the_mean_over_seeds_and_runs_of_other_columns_are_not_compared(tmp_path):
    def cell(label: str, heading: str = "A") -> Cell:
        return Cell("train", (label,), (heading,))

    rows = [
        Row("one", cells=(cell("a"),)),
        Row("two", cells=(cell("b"), cell("c", "B")), note="as printed"),
    ]
    table = Table(name="mine.yaml", rows=rows, columns=(Column("A", "x"), Column("B", "y")))
    slots = [
        Slot(rows[0], cell("a"), 1, run=spends(tmp_path, "a", 900, 100)),
        Slot(rows[0], cell("a"), 2, run=spends(tmp_path, "a2", 1100, 100)),
        Slot(rows[1], cell("b"), 1, run=spends(tmp_path, "b", 3000, 80)),
        Slot(rows[1], cell("c", "B"), 1, run=spends(tmp_path, "c", 7, 10)),
    ]
    one, two = equalled(table, slots, "tokens").rows
    assert one.cells == (cell("a"),)
    # 80 steps x 1000 / 3000 tokens = 26.7
    assert [some.overrides for some in two.cells] == [("b", "training.max_steps=27"), ("c",)]
    assert two.note == "as printed; 27 of 80 steps"
    slots.append(Slot(rows[0], cell("a"), 3, run=spends(tmp_path, "a3", None, 100)))
    with pytest.raises(ConfigError, match=r"--equal tokens: one: .* does not tell its tokens"):
        equalled(table, slots, "tokens")
