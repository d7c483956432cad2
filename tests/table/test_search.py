"""Runs with real configurations and made-up scores, and the cells of real tables that they fill."""

from dataclasses import replace
from pathlib import Path

import pytest
from cell_runs import compositions, run_of

from embedrun.errors import ConfigError
from embedrun.table import cells as table_cells
from embedrun.table import load
from embedrun.table.cells import Cells, Slot
from embedrun.table.preset import Table
from embedrun.table.sheet import sheet_of

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

STSB = ("+experiment=angle_stsb",)
SCORES = {"sts/stsb/spearman": 86.0}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cells, "Compositions", compositions)  # each choice composed once


def find_cells(table: Table, *folders: Path, seeds: list[int] | None = None, **options) -> list[Slot]:
    return Cells(folders or (Path("outputs"),), **options).find(table, seeds)


def rows_of(name: str, *ids: str) -> Table:
    """A table with these of its rows alone."""
    table = load(name)
    return replace(table, rows=[row for row in table.rows if row.id in ids])


def filled(slots: list[Slot]) -> dict[str, list[int]]:
    """Seeds of the finished runs by row."""
    found: dict[str, list[int]] = {}
    for slot in slots:
        if slot.run is not None:
            found.setdefault(slot.row.id, []).append(slot.seed)
    return found


def test_a_run_of_the_same_configuration_fills_every_row_that_has_it_whatever_its_name():
    run_of([*STSB, "name=mine", "data_dir=/elsewhere", "gpu.device=cpu", "gpu.threads=2"], SCORES, seed=7)
    run_of([*STSB, "training.lr=1e-3"], SCORES)
    found = filled(find_cells(load("angle/table4")))
    assert found == {"Objective/AnglE-BERT-all": [7], "Pooling Strategy/cls": [7]}


def test_a_run_of_other_code_fills_no_cell_and_the_row_says_so():
    path = run_of([*STSB, "loss=angle_without_ibn", "name=x"], SCORES)
    (path / "environment.json").write_text('{"data": {"code loss angle": "of then", "code loss gone": "c"}}')
    table = load("angle/table4")
    slots = find_cells(table)
    assert filled(slots) == {}
    (row,) = [row for row in sheet_of(table, slots).rows if row.id == "Objective/w/o ibn"]
    assert f"Not counted: the code of angle has changed since {path}" in row.notes


def test_an_evaluation_counts_if_it_scored_the_experiments_run_with_its_seed():
    first = run_of(["+experiment=simcse_bert"], {}, seed=1)
    other = run_of(["+experiment=simcse_bert", "training.lr=1"], {}, seed=2)
    row = load("angle/retrieval").find("SimCSE (supervised)")[0].cells[0].overrides
    scores = {"retrieval/flickr30k/strict_accuracy": 10.0}
    for seed, path in ((1, first), (2, other), (3, first)):
        run_of(row, scores, command="evaluate", seed=seed, starts_from={"simcse_bert": path})
    slots = find_cells(load("angle/retrieval"))
    assert filled(slots) == {"SimCSE (supervised)": [1]}


def test_an_override_leaves_alone_what_a_row_starts_from_and_reaches_the_run_that_comes_first():
    second = rows_of("raoe/table1", "BERT-base/RAOE-S2")
    (slot,) = Cells([], extra=["backbone.name=a/b"]).find(second, [1])
    assert slot.overrides == ("+experiment=raoe_s2_bert", "seed=1")
    assert slot.needs["raoe_s1_bert"].overrides == (
        "+experiment=raoe_s1_bert", "backbone.name=a/b", "seed=1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("table", "override", "said"),
    [
        ("raoe/table9", "dataset.path=DIR", r"RAOE \(E\+N\+C\) and RAOE \(E\+C\) would be one run"),
        ("angle/retrieval", "model=a/b", "model=a/b: no row of angle/retrieval takes it"),
    ],
)
def test_an_override_that_replaces_what_tells_rows_apart_is_refused(table: str, override: str, said: str):
    with pytest.raises(ConfigError, match=said):
        find_cells(load(table), extra=[override])


def test_a_run_does_not_count_if_one_that_it_starts_from_does_not():
    first = run_of(["+experiment=raoe_s1_bert"], {}, data={"nli_scored/train": "then"})
    run_of(["+experiment=raoe_s2_bert"], {}, starts_from={"raoe_s1_bert": first})
    table = rows_of("raoe/table1", "BERT-base/RAOE-S1", "BERT-base/RAOE-S2")

    def counting(mark: str) -> dict[str, list[int]]:
        return filled(
            find_cells(table, seeds=[42], counts=lambda run: run.data.get("nli_scored/train", mark) == mark)
        )

    assert counting("then") == {"BERT-base/RAOE-S1": [42], "BERT-base/RAOE-S2": [42]}
    assert counting("now") == {}
