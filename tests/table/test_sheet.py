"""One row: what is printed, what was measured, what there is to say.

What stands in a sheet, cell by cell, with made-up runs.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from embedrun.table import Cell, Table
from embedrun.table.cells import Measured, Planned, Runs, find_slots
from embedrun.table.preset import Scale
from embedrun.table.sheet import Counted, Entry, Sheet, sheet_of, statistic

HEAD = "title: A table\npaper: angle\nsource: a paper, Table 1\nkind: table\ntolerance: 0.5\n"
ONE = (
    HEAD
    + """
columns: {A: a}
rows:
  - {label: first, overrides: [x=1], published: [80.0]}
  - {label: second, overrides: [x=2], note: doubtful, unspecified: [the batch; here 32], published: [70]}
"""
)


def plan(cell: Cell) -> Planned:
    return Planned(cell.overrides[-1], cell.overrides)


def run(key: str, scores: Mapping[str, float], seed: int = 42, **more: Any) -> Measured:
    return Measured(
        **{"path": Path(f"run-{key}-{seed}"), "state": "finished", **more}, key=key, seed=seed, scores=scores
    )


def sheet(table: Table, *runs: Measured, seeds: list[int] | None = None, **more: Any) -> Sheet:
    return sheet_of(table, find_slots(table, Runs(runs), plan, seeds), **more)


def entry(sheet: Sheet, row: str, column: str) -> Entry:
    (found,) = [one for one in sheet.entries if (one.row, one.column) == (row, column)]
    return found


Made = Callable[[str], Table]


def test_mean_and_deviation_are_over_the_seeds_with_n_minus_one(made: Made):
    runs = [run("x=1", {"a": score}, seed) for seed, score in ((1, 79.0), (2, 80.0), (3, 82.0))]
    one = entry(sheet(made(ONE), *runs), "first", "A")
    assert (one.n, one.mean, one.difference) == (3, pytest.approx(80 + 1 / 3), pytest.approx(1 / 3))
    # (-4/3)² + (-1/3)² + (5/3)² = 42/9; by 2: 7/3.
    assert one.sd == pytest.approx((7 / 3) ** 0.5)


@pytest.mark.parametrize(
    ("score", "mark"), [(80.5, "within"), (79.5, "within"), (80.51, "off"), (79.49, "off")]
)
def test_the_tolerance_counts_as_within(made: Made, score: float, mark: str):
    assert entry(sheet(made(ONE), run("x=1", {"a": score})), "first", "A").mark == mark


def test_what_has_not_run_is_not_invented(made: Made):
    one = entry(sheet(made(ONE)), "first", "A")
    assert (one.paper, one.mean, one.sd, one.n, one.wanted, one.difference) == (80.0, None, None, 0, 1, None)
    assert one.mark == "not run"


def test_a_finished_run_without_the_score_is_not_measured_and_says_so(made: Made):
    one = entry(sheet(made(ONE), run("x=1", {"b": 1.0})), "first", "A")
    assert (one.mark, one.note) == ("not measured", "A: a run has no such number")


def test_seeds_that_are_lacking_are_said(made: Made):
    one = entry(sheet(made(ONE), run("x=1", {"a": 80.0}, 1), seeds=[1, 2, 3]), "first", "A")
    assert (one.n, one.wanted, one.note) == (1, 3, "A: 1 of 3 seeds")


def test_the_clean_score_stands_beside_one_that_it_differs_from(made: Made):
    runs = [run("x=1", {"a": 80.0, "a_clean": 78.0}), run("x=2", {"a": 70.0, "a_clean": 70.0})]
    found = sheet(made(ONE), *runs)
    assert entry(found, "first", "A").clean == 78.0
    assert entry(found, "second", "A").clean is None


def test_the_newest_of_two_runs_counting_is_said(made: Made):
    old = run("x=1", {"a": 10.0}, path=Path("old"), when="2026-01-01")
    new = run("x=1", {"a": 80.0}, path=Path("new"), when="2026-01-02")
    found = sheet(made(ONE), old, new)
    assert found.rows[0].entries[0].mean == 80.0
    assert found.rows[0].notes == (
        "Of several finished runs of one configuration and seed, the newest counts",
    )
    assert [one.directory for one in found.rows[0].origins] == ["new"]


def test_runs_on_different_rows_are_said(made: Made):
    runs = [
        run("x=1", {"a": 80.0}, data={"sts/test": "aa"}),
        run("x=2", {"a": 70.0}, data={"sts/test": "bb"}),
    ]
    assert sheet(made(ONE), *runs).notes == ("The runs have read different rows of sts/test",)


def test_the_scores_before_training_are_folded_as_those_after(made: Made):
    columns = "columns: {A: a, B: b, both: {mean: [A, B]}}\n"
    table = made(f"{HEAD}{columns}rows:\n  - {{label: first, overrides: [x=1], published: [1, 2, 3]}}\n")
    runs = [
        run("x=1", {"a": 80.0, "b": 90.0}, seed, baseline={"a": before, "b": before + 10})
        for seed, before in ((1, 70.0), (2, 72.0))
    ]
    found = sheet(table, *runs, run("x=2", {"a": 1.0}))
    assert [one.before for one in found.entries] == [71.0, 81.0, 76.0]  # (70 + 72) / 2, 10 more, their mean
    assert entry(sheet(made(ONE), run("x=1", {"a": 80.0})), "first", "A").before is None


def test_a_reduced_run_is_never_within(made: Made):
    found = sheet(made(ONE), run("x=1", {"a": 80.0}), scale=Scale("small", "a tenth"))
    assert (found.scale, found.scale_title) == ("small", "a tenth")
    one = entry(found, "first", "A")
    assert (one.mark, one.mean, one.difference, one.paper) == ("reduced", 80.0, None, None)


def test_a_run_with_other_options_is_compared_with_nothing_and_says_so(made: Made):
    found = sheet(made(ONE), run("x=1", {"a": 80.0}), extra=["backbone=tiny", "gpu.threads=2"])
    one = entry(found, "first", "A")
    assert (one.mark, one.mean, one.difference) == ("measured", 80.0, None)
    assert found.notes == ("Run with backbone=tiny: compared with nothing",)


PARTS = (
    HEAD
    + """
columns: {A: a, B: b, Both: {mean: [A, B]}, Gain: {difference: [A, B]}, Size: {printed: true}}
rows:
  - {label: parts, parts: {A: [x=1], B: [x=2]}, published: [80, 60, 70, 20, 110M]}
  - {label: half, parts: {A: [x=3], B: {not_runnable: no data}}, published: {Both: 1}}
  - {label: other, kind: quoted, source: another paper, published: [1, 2, null, null, "-"]}
"""
)


def test_a_mean_and_a_difference_are_made_of_seeds_that_all_parts_have(made: Made):
    runs = [run("x=1", {"a": 80.0}, 1), run("x=1", {"a": 82.0}, 2), run("x=2", {"b": 60.0}, 1)]
    found = sheet(made(PARTS), *runs)
    assert (entry(found, "parts", "Both").mean, entry(found, "parts", "Both").n) == (70.0, 1)
    assert entry(found, "parts", "Gain").difference == 0.0
    assert entry(found, "parts", "A").n == 2


def test_a_mean_without_a_seed_that_all_parts_have_is_said(made: Made):
    found = sheet(made(PARTS), run("x=1", {"a": 80.0}, 1), run("x=2", {"b": 60.0}, 2))
    assert entry(found, "parts", "Both").note == "Both: no seed has all of its parts"


def test_what_cannot_be_run_says_why_and_so_does_what_is_made_of_it(made: Made):
    found = sheet(made(PARTS), run("x=3", {"a": 80.0}))
    for heading in ("B", "Both", "Gain"):
        one = entry(found, "half", heading)
        assert (one.mark, one.note) == ("not reproducible", "not reproducible: no data")
    assert entry(found, "half", "A").mark == "measured"


def test_a_quoted_row_has_its_source_and_no_run(made: Made):
    found = sheet(made(PARTS))
    assert [one.mark for one in found.rows[2].entries] == ["quoted", "quoted", "", "", "in words"]
    assert found.rows[2].notes == ("Numbers of another paper",)
    assert {one.wanted for one in found.rows[2].entries} == {0}


def test_speed_is_measured_and_compared_with_nothing(made: Made):
    rows = "rows: [{label: r, overrides: [x=1], published: [18]}]"
    text = f"{HEAD}columns: {{Time: {{speed: minutes_per_1000_steps}}}}\n{rows}"
    found = sheet(made(text), run("x=1", {}, speed={"minutes_per_1000_steps": 18.1}))
    one = entry(found, "r", "Time")
    assert (one.mean, one.mark, one.difference) == (18.1, "not compared", None)


STATISTICS = """
{title: A, paper: raoe, source: B, kind: statistics, tolerance: 5,
 columns: {Pairs: {statistic: true}, Mean: {statistic: true}},
 statistics: {command: embedrun make output=DIR tokenizer=BERT, file: f.json},
 rows: [{label: All, kind: statistics, keys: {Pairs: [a/pairs, b/pairs]}, published: [12, null]},
        {label: One, kind: statistics, keys: {Pairs: a/pairs, Mean: a/mean}}]}
"""


def test_statistics_are_added_up_from_a_file(made: Made):
    numbers = {"a": {"pairs": 4, "mean": 0.25}, "b": {"pairs": 6}}
    found = sheet(made(STATISTICS), counted=Counted(numbers, "a file"))
    assert (entry(found, "All", "Pairs").mean, entry(found, "All", "Pairs").mark) == (10, "within")
    assert entry(found, "One", "Mean").mean == 0.25
    assert [column.digits for column in found.columns] == [0, 4]
    assert found.rows[0].notes == ("Counted in a file",)


def test_statistics_that_are_not_there_name_their_command_and_what_is_lacking(made: Made):
    found = sheet(made(STATISTICS), counted=Counted({"a": {"pairs": True}}, lacks="no data"))
    assert {one.mark for one in found.entries} == {"not run", ""}
    assert found.rows[0].notes == ("no data",)
    assert found.commands == (
        "embedrun make output=DIR tokenizer=BERT",
        "embedrun table angle/small --data-dir DIR --tokenizer BERT",
    )


def test_statistics_are_of_data_which_no_setting_reduces(made: Made):
    numbers = {"a": {"pairs": 4}, "b": {"pairs": 6}}
    scale = Scale("small", "a tenth")
    found = sheet(made(STATISTICS), counted=Counted(numbers), scale=scale, extra=["training.max_steps=2"])
    one = entry(found, "All", "Pairs")
    assert (one.mark, one.difference, one.scale) == ("within", -2, "")
    assert (found.scale, found.overrides, found.notes) == ("", (), ())


def test_a_mean_has_the_seeds_that_all_its_runs_are_asked_for_with(made: Made):
    table = made(
        HEAD
        + """
columns: {A: a, B: b, Both: {mean: [A, B]}}
rows:
  - {label: one, parts: {A: [x=1], B: {overrides: [x=2], seeds: [42, 43]}}}
"""
    )
    empty = sheet(table)
    assert [entry(empty, "one", column).wanted for column in "AB"] == [1, 2]
    assert entry(empty, "one", "Both").wanted == 1
    assert empty.commands == ("embedrun reproduce angle/small",)
    runs = [run("x=1", {"a": 1.0}), run("x=2", {"b": 3.0}), run("x=2", {"b": 9.0}, 43)]
    full = sheet(table, *runs)
    assert [entry(full, "one", column).mean for column in ("A", "B", "Both")] == [1, 6, 2]


def test_what_makes_the_data_of_a_row_is_run_before_it_as_long_as_the_row_is_missing(made: Made):
    table = made(ONE.replace("note: doubtful", "before: 'embedrun generate output=a'"))
    first, second = sheet(table).commands
    assert (first, second.partition("  #")[0]) == (
        "embedrun generate output=a",
        "embedrun reproduce angle/small",
    )
    assert sheet(table, run("x=2", {"a": 1.0})).commands == ("embedrun reproduce angle/small --only first",)


def test_what_is_missing_has_a_command_a_row_or_one_for_all(made: Made):
    assert sheet(made(ONE)).commands == ("embedrun reproduce angle/small  # one row: --only first",)
    assert sheet(made(ONE), run("x=1", {"a": 1.0})).commands == (
        "embedrun reproduce angle/small --only second",
    )
    both = [run("x=1", {"a": 1.0}), run("x=2", {"a": 1.0})]
    assert sheet(made(ONE), *both).commands == ()


@pytest.mark.parametrize(
    ("found", "number"),
    [
        ({"a": {"b": 3}, "c": 4}, 7.0),
        ({"a": {"b": 3}}, None),
        ({"a": {"b": "3"}, "c": 4}, None),
        ({"a": {"b": True}, "c": 4}, None),
        ({"a": 3, "c": 4}, None),
        ({"a": {"b": math.inf}, "c": 4}, None),
    ],
)
def test_a_statistic_is_the_sum_of_its_paths_or_nothing(
    made: Callable[[str], Table], found: dict, number: float | None
):
    table = made(
        "{title: A, paper: raoe, source: B, kind: statistics,"
        " columns: {N: {statistic: true}, M: {statistic: true}},"
        " statistics: {command: c, file: f.json}, rows: [{label: r, kind: statistics, keys: {N: [a/b, c]}}]}"
    )
    assert statistic(table.rows[0], "N", found) == number
    assert statistic(table.rows[0], "M", found) is None
