"""Runs with real configurations and made-up scores, and the cells of real tables that they fill."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cell_runs import compositions, run_of

from embedrun.errors import ConfigError
from embedrun.table import cells as table_cells
from embedrun.table import load
from embedrun.table.cells import Cells, Slot
from embedrun.table.preset import Scale, Table
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
    return replace(table, rows=tuple(row for row in table.rows if row.id in ids))


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


def test_a_run_of_another_loss_fills_its_own_row():
    run_of([*STSB, "loss=angle_without_ibn", "name=x"], SCORES)
    run_of([*STSB, "loss=cosent"], {}, state="interrupted")
    slots = find_cells(load("angle/table4"))
    assert filled(slots) == {"Objective/w/o ibn": [42]}
    assert [slot.row.label for slot in slots if slot.state == "interrupted"] == ["only cosine"]


def test_a_run_of_other_code_fills_no_cell_and_the_row_says_so():
    path = run_of([*STSB, "loss=angle_without_ibn", "name=x"], SCORES)
    (path / "environment.json").write_text('{"data": {"code loss angle": "of then", "code loss gone": "c"}}')
    table = load("angle/table4")
    slots = find_cells(table)
    assert filled(slots) == {}
    (row,) = [row for row in sheet_of(table, slots).rows if row.id == "Objective/w/o ibn"]
    assert f"Not counted: the code of angle has changed since {path}" in row.notes


def test_runs_of_several_folders_are_found_and_broken_ones_passed_over():
    run_of(STSB, SCORES, seed=1)
    shutil.move("outputs", "old")
    run_of(STSB, SCORES, seed=2)
    broken = run_of(STSB, SCORES, seed=3)
    (broken / "config.yaml").write_text("- not a run", encoding="utf-8")
    slots = find_cells(load("angle/table4"), Path("old"), Path("outputs"), Path("nowhere"))
    assert filled(slots)["Pooling Strategy/cls"] == [1, 2]


def test_an_evaluation_counts_if_it_scored_the_experiments_run_with_its_seed():
    first = run_of(["+experiment=simcse_bert"], {}, seed=1)
    other = run_of(["+experiment=simcse_bert", "training.lr=1"], {}, seed=2)
    row = load("angle/retrieval").find("SimCSE (supervised)")[0].cells[0].overrides
    scores = {"retrieval/flickr30k/strict_accuracy": 10.0}
    for seed, path in ((1, first), (2, other), (3, first)):
        run_of(row, scores, command="evaluate", seed=seed, starts_from={"simcse_bert": path})
    slots = find_cells(load("angle/retrieval"))
    assert filled(slots) == {"SimCSE (supervised)": [1]}


def test_a_moved_folder_of_runs_is_found_again():
    first = run_of(["+experiment=raoe_s1_bert"], {}, seed=1)
    run_of(
        ["+experiment=raoe_s2_bert"], {"sts/avg/spearman": 1.0}, seed=1, starts_from={"raoe_s1_bert": first}
    )
    shutil.move("outputs", "moved")
    (slot,) = slots = find_cells(rows_of("raoe/table1", "BERT-base/RAOE-S2"), Path("moved"))
    assert filled(slots) == {"BERT-base/RAOE-S2": [1]}
    assert {name: need.state for name, need in slot.needs.items()} == {"raoe_s1_bert": "finished"}


def test_a_reduced_setting_has_runs_of_its_own():
    scale = Scale("tiny", "t", train=("training.max_steps=5",), seeds=(9,))
    run_of([*STSB, "training.max_steps=5"], SCORES, seed=1)  # a run of so few steps, but not of the setting
    run_of([*STSB, "training.max_steps=5"], SCORES, seed=2, scale="tiny")
    assert filled(find_cells(load("angle/table4"), scale=scale))["Pooling Strategy/cls"] == [2]
    assert filled(find_cells(load("angle/table4"))) == {}
    assert Cells(scale=scale).scales() == ["tiny"]
    assert find_cells(load("angle/isp"), Path("none"), scale=scale)[0].seed == 9


def test_extra_overrides_are_of_the_rows_that_have_the_option():
    extra = ["backbone.name=/a/model", "training.max_steps=7"]
    cells = Cells(extra=extra)
    train, evaluate = load("angle/table4").rows[0].cells[0], load("angle/retrieval").rows[0].cells[0]
    assert cells.overrides(train)[-2:] == tuple(extra)
    assert cells.overrides(evaluate) == evaluate.overrides
    run_of([*STSB, *extra], SCORES)
    assert filled(find_cells(load("angle/table4"), extra=extra))["Pooling Strategy/cls"] == [42]


def test_an_override_leaves_alone_what_a_row_starts_from_and_reaches_the_run_that_comes_first():
    second = rows_of("raoe/table1", "BERT-base/RAOE-S2")
    (slot,) = Cells([], extra=["backbone.name=a/b"]).find(second, [1])
    assert slot.overrides == ("+experiment=raoe_s2_bert", "seed=1")
    assert slot.needs["raoe_s1_bert"].overrides == (
        "+experiment=raoe_s1_bert", "backbone.name=a/b", "seed=1",
    )  # fmt: skip


def test_what_an_evaluation_measures_does_not_reach_the_run_that_it_scores():
    extra = ["training.max_steps=7", "data_dir=D", "evaluation.batch_tokens=8", "name=own"]
    (slot, *_) = Cells([], extra=extra).find(load("angle/retrieval"), [1])
    (need,) = slot.needs.values()
    assert slot.overrides[-4:-1] == ("data_dir=D", "evaluation.batch_tokens=8", "name=own")
    assert need.overrides[1:] == ("training.max_steps=7", "data_dir=D", "seed=1")


@pytest.mark.parametrize(
    ("table", "override", "said"),
    [
        (
            "raoe/table1",
            "model=/my/copy",
            "jina-embeddings-v3 and bilingual-embedding-large would be one run",
        ),
        ("raoe/table9", "dataset.path=DIR", r"RAOE \(E\+N\+C\) and RAOE \(E\+C\) would be one run"),
        ("angle/retrieval", "model=a/b", "model=a/b: no row of angle/retrieval takes it"),
    ],
)
def test_an_override_that_replaces_what_tells_rows_apart_is_refused(table: str, override: str, said: str):
    with pytest.raises(ConfigError, match=said):
        find_cells(load(table), extra=[override])


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("training.max_step=7", "training.max_step: unknown key; did you mean 'training.max_steps'"),
        ("model=a/b", "model: unknown key"),
        ("hydra.callbacks.x._target_=os.system", "hydra.callbacks"),
        ("pooling=mena", "no such choice; did you mean 'mean'"),
    ],
)
def test_an_override_that_fits_no_row_is_refused(override: str, said: str):
    with pytest.raises(ConfigError) as refused:
        find_cells(load("angle/table4"), extra=[override])
    assert said in str(refused.value)


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


def test_speed_is_read_for_a_table_that_shows_it():
    run = run_of(["+experiment=raoe_s1_bert", "training.micro_batch_size=null"], {"sts/avg/spearman": 85.0})
    rows = json.loads(json.dumps({"rows_per_second": 512.0, "memory": 10**9}))
    lines = [json.dumps({"step": step, **rows}) for step in (1, 11, 21)]
    (run / "speed.jsonl").write_text("\n".join([*lines, '{"step": 3']), encoding="utf-8")
    (slot,) = [slot for slot in find_cells(load("raoe/table4")) if slot.row.label == "RAOE"]
    assert slot.run is not None
    assert slot.run.speed == {"peak_memory_gb": 1.0, "minutes_per_1000_steps": pytest.approx(1000 / 60)}
