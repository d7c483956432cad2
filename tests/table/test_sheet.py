"""One row: what is printed, what was measured, what there is to say.

What stands in a sheet, cell by cell, with made-up runs.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from embedrun.table import Cell, Table
from embedrun.table.cells import Measured, Planned, Runs, find_slots
from embedrun.table.preset import Scale
from embedrun.table.sheet import Counted, Entry, Sheet, sheet_of

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


def test_the_clean_score_stands_beside_one_that_it_differs_from(made: Made):
    runs = [run("x=1", {"a": 80.0, "a_clean": 78.0}), run("x=2", {"a": 70.0, "a_clean": 70.0})]
    found = sheet(made(ONE), *runs)
    assert entry(found, "first", "A").clean == 78.0
    assert entry(found, "second", "A").clean is None


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
    assert [(one.mean, one.mark) for one in found.rows[0].entries] == [(10, "within"), (None, "")]
    assert entry(found, "One", "Mean").mean == 0.25
    assert [column.digits for column in found.columns] == [0, 4]
    assert found.rows[0].notes == ("Counted in a file",)


def test_what_is_missing_has_a_command_a_row_or_one_for_all(made: Made):
    assert sheet(made(ONE)).commands == ("embedrun reproduce angle/small  # one row: --only first",)
    assert sheet(made(ONE), run("x=1", {"a": 1.0})).commands == (
        "embedrun reproduce angle/small --only second",
    )
    both = [run("x=1", {"a": 1.0}), run("x=2", {"a": 1.0})]
    assert sheet(made(ONE), *both).commands == ()


def test_what_makes_the_data_of_a_row_is_run_before_it_as_long_as_the_row_is_missing(made: Made):
    table = made(ONE.replace("note: doubtful", "before: 'embedrun generate output=a'"))
    first, second = sheet(table).commands
    assert (first, second.partition("  #")[0]) == (
        "embedrun generate output=a",
        "embedrun reproduce angle/small",
    )
    assert sheet(table, run("x=2", {"a": 1.0})).commands == ("embedrun reproduce angle/small --only first",)
