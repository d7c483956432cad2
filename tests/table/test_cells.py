"""Which run stands in which cell, by its identity."""

from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.table import Cell, Table
from embedrun.table.cells import Cells, Measured, Planned, Runs, find_slots, identity, speeds

TABLE = """
title: A table
paper: angle
source: a paper
kind: table
columns: {A: a, B: b}
seeds: [42]
rows:
  - {label: first, overrides: [x=1]}
  - {label: second, parts: {A: [x=2], B: {not_runnable: no data}}}
  - {label: third, kind: quoted, published: [1, 2]}
"""


@pytest.fixture
def table(made: Callable[[str], Table]) -> Table:
    return made(TABLE)


def plan(cell: Cell) -> Planned:
    return Planned(key=cell.overrides[-1], overrides=cell.overrides)


def run(key: str, seed: int, name: str = "run", **more: object) -> Measured:
    return Measured(path=Path(name), key=key, seed=seed, **{"state": "finished", **more})


def states(table: Table, runs: list[Measured], seeds: list[int] | None = None) -> list[tuple]:
    return [(slot.row.label, slot.seed, slot.state) for slot in find_slots(table, Runs(runs), plan, seeds)]


def test_all_finished_seeds_count_and_what_is_missing_is_asked_for_with_the_usual_ones(table: Table):
    assert states(table, [run("x=1", 2), run("x=1", 1), run("x=1", 3, state="failed")]) == [
        ("first", 1, "finished"),
        ("first", 2, "finished"),
        ("second", 1, "missing"),
        ("second", 2, "missing"),
        ("second", 1, "not runnable"),
        ("second", 2, "not runnable"),
    ]


SEEDED = TABLE.replace("B: {not_runnable: no data}", "B: {overrides: [x=3], seeds: [8, 9]}")


def test_a_run_with_seeds_of_its_own_is_asked_for_with_these(made: Callable[[str], Table]):
    table = made(SEEDED)
    wanted = [("first", 42, "missing"), ("second", 42, "missing")]
    assert states(table, []) == [*wanted, ("second", 8, "missing"), ("second", 9, "missing")]
    asked = Cells([]).asked(table)
    assert [slot.seed for slot in find_slots(table, Runs([run("x=3", 8)]), plan, asked)] == [42, 42, 8, 9]
    assert [slot.seed for slot in find_slots(table, Runs([]), plan, [7])] == [7, 7, 7]


def test_the_newest_run_that_counts_serves_and_the_newest_that_does_not_is_named(table: Table):
    made = [
        run("x=1", 42, "other rows", when="2026-01-03", data={"stsb/test": "bb"}),
        run("x=1", 42, "same rows", when="2026-01-02", data={"stsb/test": "aa"}),
        run("x=1", 42, "half of others", when="2026-01-04", state="failed", data={"stsb/test": "bb"}),
    ]
    slot = find_slots(table, Runs(made, lambda one: one.data["stsb/test"] == "aa"), plan)[0]
    assert slot.run is made[1]
    assert slot.unfinished is None
    assert slot.passed_over is made[2]


def nothing(name: str) -> None:
    return None


CONFIG = {
    "schema": 1,
    "backbone": {"name": "some/model"},
    "training": {"lr": 1e-5, "resume": "never"},
    "gpu": {"device": "auto", "threads": None, "precision": "auto"},
    "seed": 1,
    "name": "one",
    "data_dir": None,
}


def changed(**groups: object) -> dict:
    return {**CONFIG, **groups}


def test_seed_name_and_machine_are_no_part_of_it():
    elsewhere = changed(
        seed=2,
        name="other",
        data_dir="/data",
        gpu={"device": "cuda", "threads": 4, "processes": 2, "precision": "auto"},
        training={"lr": 1e-5, "resume": "auto"},
    )
    del elsewhere["schema"]
    assert identity(elsewhere, nothing) == identity(CONFIG, nothing)


def test_what_decides_a_score_is():
    others = [
        changed(training={"lr": 2e-5, "resume": "never"}),
        changed(gpu={**CONFIG["gpu"], "precision": "bf16"}),
        changed(backbone={"name": "other/model"}),
        changed(scale="small"),
    ]
    keys = {identity(config, nothing) for config in [CONFIG, *others]}
    assert len(keys) == 5


def test_a_model_that_is_a_run_counts_as_what_it_refers_to_wherever_it_lies():
    def runs(name: str) -> dict | None:
        return {"run": "abc"} if name.endswith("first/run") else None

    here = changed(backbone={"name": "/here/first/run"})
    there = changed(backbone={"name": "/there/first/run"})
    assert identity(here, runs) == identity(there, runs) != identity(there, nothing)


def line(step: int, rate: float, memory: int | None = None) -> dict:
    return {"step": step, "time": 1.0, "rows_per_second": rate, "memory": memory}


def test_steps_count_by_how_many_a_line_stands_for():
    # 10 steps of 0.1 s and 30 of 0.2 s: 7 s for 40 steps.
    found = speeds([line(1, 5.0), line(11, 100.0), line(41, 50.0, 21_170_000_000)], 10)
    assert found["minutes_per_1000_steps"] == pytest.approx(1000 * 7 / 40 / 60)
    assert found["peak_memory_gb"] == 21.17  # in units of a billion bytes
