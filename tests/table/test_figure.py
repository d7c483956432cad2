from collections.abc import Callable

from embedrun.table import Table
from embedrun.table.cells import Measured, Planned, Runs, find_slots
from embedrun.table.figure import Point, points
from embedrun.table.rows import sheet_of


def test_points_are_by_line_and_by_x(made: Callable[[str], Table]):
    table = made(
        """
        {title: A, paper: arccse, source: B, kind: figure, columns: {Other: c, Dev: dev/spearman},
         figure: {x: margin, y: dev/spearman, best: 2, line: r1, best_line: 0.5},
         rows: [{label: b, x: 2, line: 0.5, overrides: [x=1], published: {Dev: 84.7}},
                {label: a, x: 1, line: 0.5, overrides: [x=2]}, {label: c, x: 1, line: 0.1, overrides: [x=3]}]}
        """
    )
    runs = Runs(
        [
            Measured(path=None, key="x=1", seed=seed, state="finished", scores={"dev/spearman": score})  # type: ignore[arg-type]
            for seed, score in ((1, 80.0), (2, 82.0))
        ]
    )
    slots = find_slots(table, runs, lambda cell: Planned(cell.overrides[-1], cell.overrides))
    assert points(table, sheet_of(table, slots)) == {
        0.1: [Point(1, None, None, None)],
        0.5: [Point(1, None, None, None), Point(2, 81.0, 2**0.5, 84.7)],
    }
