"""Points and curve of a figure.

The curve of a figure: its file, its title, and what happens where it cannot be written.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from table_sheets import entry, row, sheet

from embedrun.plot import write_plot
from embedrun.table import Cell, Column, Figure, Row, Table
from embedrun.table.cells import Measured, Planned, Runs, find_slots
from embedrun.table.figure import Point, draw, points
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


FIGURE = Figure("margin", "a", best=10)
Capture = pytest.CaptureFixture[str]


def figure() -> Table:
    cells = (Cell("train", (), ("A",)),)
    only = Row("first", "", "train", cells, {"A": 80.0}, "", "", (), 10.0, None, {}, None)
    columns = (Column("A", key="a"),)
    return Table("angle/small", "T", "angle", "", "figure", columns, (only,), (1,), 0.5, "", (), FIGURE, None)


def shown(**changed: object):
    return replace(sheet(row("first", entry()), title="T"), **changed)  # type: ignore[arg-type]


@pytest.fixture
def titles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []

    def sweep(*given: object) -> None:
        seen.append(str(given[4]))
        assert isinstance(given[5], Path)
        given[5].write_text("drawn")

    monkeypatch.setattr("embedrun.plot.sweep", sweep)
    return seen


def test_curves_of_other_runs_are_other_files_and_say_what_of(titles: list[str], tmp_path: Path):
    plain = draw(figure(), shown(), tmp_path)
    reduced = draw(figure(), shown(scale="tiny"), tmp_path)
    others = [draw(figure(), shown(overrides=(f"backbone.name=a/{name}",)), tmp_path) for name in "bc"]
    assert plain == tmp_path / "angle_small.png"
    assert reduced == tmp_path / "angle_small_tiny.png"
    assert len({plain, reduced, *others}) == 4
    assert titles == [
        "T",
        "T\nreduced setting tiny: not a reproduction",
        "T\nevery run with backbone.name=a/b",
        "T\nevery run with backbone.name=a/c",
    ]


@pytest.mark.parametrize(("scale", "best"), [("", (10, "the paper's optimum, 10")), ("tiny", None)])
def test_a_reduced_curve_has_no_mark_of_the_paper(monkeypatch, tmp_path: Path, scale, best):
    given: list[object] = []
    monkeypatch.setattr("embedrun.plot.sweep", lambda *all_: given.extend(all_))
    draw(figure(), shown(scale=scale), tmp_path)
    assert given[2] == best


def test_a_title_is_broken_before_it_leaves_the_picture(titles: list[str], tmp_path: Path):
    draw(figure(), shown(overrides=("backbone.name=" + "folder/" * 30,)), tmp_path)
    assert max(map(len, titles[0].splitlines())) <= 75


def test_without_a_number_there_is_no_folder(titles: list[str], tmp_path: Path, capsys: Capture):
    assert draw(figure(), sheet(row("first", entry(mean=None))), tmp_path / "new") is None
    assert not (tmp_path / "new").exists()
    assert "nothing is measured, so no curve is drawn" in capsys.readouterr().err


def test_a_plot_that_fails_leaves_no_empty_folder(tmp_path: Path, capsys: Capture):
    def full(path: Path) -> None:
        raise OSError("no space left")

    assert not write_plot(tmp_path / "new" / "p.png", full)
    assert not (tmp_path / "new").exists()
    assert "p.png' cannot be written (no space left)" in capsys.readouterr().err
