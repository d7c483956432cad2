from pathlib import Path

import numpy as np

from embedrun.plot import sweep

LABELS = ("margin", "score")


def test_a_curve_has_its_band_the_printed_points_and_the_optimum(tmp_path: Path, axes, legend_is_free):
    path = tmp_path / "plot.png"
    sweep({"": [(0, 80.0, 1.0), (10, 82.0, None)]}, [(10, 84.7)], (10, "the optimum"), LABELS, "T", path)
    (axis,) = axes
    curve, printed, best = axis.lines
    assert curve.get_xydata().tolist() == [[0, 80], [10, 82]]
    assert printed.get_xydata().tolist() == [[10, 84.7]]
    assert list(best.get_xdata()) == [10, 10]
    band = axis.collections[0].get_paths()[0].vertices
    assert {tuple(row) for row in np.round(band, 6)} >= {(0.0, 79.0), (0.0, 81.0), (10.0, 82.0)}
    words = [text.get_text() for text in axis.get_legend().get_texts()]
    assert words == ["measured", "printed", "the optimum"]
    assert legend_is_free(axis)
    assert path.stat().st_size > 1000


def test_each_line_is_told_apart_without_colour_and_one_without_points_is_left_out(tmp_path: Path, axes):
    lines = {f"r1 = {name}": [(0.1, 80.0, None), (0.2, 81.0, None)] for name in "abc"}
    sweep({**lines, "empty": []}, [], None, LABELS, "T", tmp_path / "plot.png")
    drawn = axes[0].lines
    assert len({(line.get_linestyle(), line.get_marker()) for line in drawn}) == len(drawn) == 3
    assert axes[0].collections == [] or len(axes[0].collections) == 0


def test_a_dollar_sign_is_no_formula(tmp_path: Path, axes):
    sweep({"$x$": [(0, 1.0, None)]}, [], None, ("$a", "b$"), "$", tmp_path / "plot.png")
    assert axes[0].get_xlabel() == r"\$a"
