"""Runs with real configurations and made-up scores, and the cells of real tables that they fill."""

import json
import shutil
from pathlib import Path

import pytest
from cell_runs import compositions, run_of

from embedrun.commands import table_cells
from embedrun.commands.table_cells import Cells, find_cells
from embedrun.errors import ConfigError
from embedrun.table import load
from embedrun.table.cells import Slot
from embedrun.table.scale import Scale

STSB = ("+experiment=angle_stsb",)
SCORES = {"sts/stsb/spearman": 86.0}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        table_cells, "Compositions", compositions
    )  # each choice is composed once for all tests


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


def test_no_runs_fill_nothing():
    slots = find_cells(load("angle/table4"))
    assert {slot.state for slot in slots} == {"missing"}
    assert slots[1].overrides == (
        "+experiment=angle_stsb", "name=angle_stsb_without_ibn", "loss=angle_without_ibn", "seed=42",
    )  # fmt: skip


def test_runs_of_several_folders_are_found_and_broken_ones_passed_over():
    run_of(STSB, SCORES, seed=1)
    shutil.move("outputs", "old")
    run_of(STSB, SCORES, seed=2)
    broken = run_of(STSB, SCORES, seed=3)
    (broken / "config.yaml").write_text("- not a run", encoding="utf-8")
    slots = find_cells(load("angle/table4"), [Path("old"), Path("outputs"), Path("nowhere")])
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
    slots = find_cells(load("raoe/table1"), Path("moved"))
    assert filled(slots)["BERT-base/RAOE-S2"] == [1]
    (slot,) = [slot for slot in slots if slot.row.id == "BERT-base/RAOE-S2"]
    assert {name: None if run is None else run.seed for name, run in slot.needs.items()} == {
        "raoe_s1_bert": 1
    }


def test_what_has_to_be_there_first_is_named_where_it_is_not():
    slots = find_cells(load("angle/retrieval"), seeds=[5])
    assert [dict(slot.needs) for slot in slots] == [
        {"angle_bert": None}, {"simcse_bert": None}, {"sbert_bert": None},
    ]  # fmt: skip


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


def test_runs_on_other_rows_do_not_count_where_the_rows_are_known():
    run_of(STSB, SCORES, data={"stsb/train": "aa"})
    assert filled(find_cells(load("angle/table4"), data={"stsb/train": "bb"})) == {}
    assert filled(find_cells(load("angle/table4"), data={"stsb/train": "aa"}))


def test_speed_is_read_for_a_table_that_shows_it():
    run = run_of(["+experiment=raoe_s1_bert"], {"sts/avg/spearman": 85.0})
    rows = json.loads(json.dumps({"rows_per_second": 512.0, "memory": 10**9}))
    lines = [json.dumps({"step": step, **rows}) for step in (1, 11, 21)]
    (run / "speed.jsonl").write_text("\n".join([*lines, '{"step": 3']), encoding="utf-8")
    (slot,) = [slot for slot in find_cells(load("raoe/table4")) if slot.row.label == "RAOE"]
    assert slot.run is not None
    assert slot.run.speed == {"peak_memory_gb": 1.0, "minutes_per_1000_steps": pytest.approx(1000 / 60)}
