from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.table import Cell, Table
from embedrun.table.cells import Measured, Planned, Runs, find_slots

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


def test_without_runs_every_cell_is_missing_with_the_tables_seeds(table: Table):
    assert states(table, []) == [
        ("first", 42, "missing"),
        ("second", 42, "missing"),
        ("second", 42, "not runnable"),
    ]


def test_a_run_fills_the_cell_of_its_key_and_seed_alone(table: Table):
    assert states(table, [run("x=1", 42), run("x=2", 7)], [42])[:2] == [
        ("first", 42, "finished"),
        ("second", 42, "missing"),
    ]


def test_all_finished_seeds_count_and_what_is_missing_is_asked_for_with_the_usual_ones(table: Table):
    assert states(table, [run("x=1", 2), run("x=1", 1), run("x=1", 3, state="failed")]) == [
        ("first", 1, "finished"),
        ("first", 2, "finished"),
        ("second", 1, "missing"),
        ("second", 2, "missing"),
        ("second", 1, "not runnable"),
        ("second", 2, "not runnable"),
    ]


def test_where_nothing_has_finished_the_default_comes_before_the_tables_seeds(table: Table):
    slots = find_slots(table, Runs([]), plan, None, [5, 6])
    assert [slot.seed for slot in slots[:2]] == [5, 6]


def test_the_newest_of_several_finished_runs_counts(table: Table):
    runs = [run("x=1", 42, "old", when="2026-01-01"), run("x=1", 42, "new", when="2026-01-02")]
    for order in (runs, runs[::-1]):
        slot = find_slots(table, Runs(order), plan)[0]
        assert slot.run is not None
        assert (slot.run.path, slot.others) == (Path("new"), 1)


def test_a_finished_run_counts_before_a_newer_one_that_is_not(table: Table):
    runs = [
        run("x=1", 42, when="2026-01-01"),
        run("x=1", 42, "later", when="2026-01-02", state="interrupted"),
    ]
    slot = find_slots(table, Runs(runs), plan)[0]
    assert slot.state == "finished"
    assert slot.unfinished is not None
    assert slot.unfinished.path == Path("later")


def test_an_unfinished_run_says_its_state(table: Table):
    assert states(table, [run("x=1", 42, state="interrupted")])[0] == ("first", 42, "interrupted")


def test_a_run_on_other_rows_is_passed_over(table: Table):
    runs = Runs([run("x=1", 42, data={"stsb/test": "aa", "own/train": "bb"})], {"stsb/test": "cc"})
    assert find_slots(table, runs, plan)[0].run is None
    same = Runs([run("x=1", 42, data={"stsb/test": "aa"})], {"stsb/test": "aa", "other/test": "dd"})
    assert find_slots(table, same, plan)[0].run is not None


def test_what_a_run_starts_from_has_its_seed(table: Table):
    def needing(cell: Cell) -> Planned:
        return Planned(cell.overrides[-1], cell.overrides, {"base": "base key"})

    runs = Runs([run("base key", 2, "second seed")])
    found = [slot.needs["base"] for slot in find_slots(table, runs, needing, [1, 2])[:2]]
    assert [None if need is None else need.path for need in found] == [None, Path("second seed")]


def test_the_overrides_of_a_run_end_with_its_seed(table: Table):
    assert find_slots(table, Runs([]), plan, [7])[0].overrides == ("x=1", "seed=7")
