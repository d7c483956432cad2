import warnings
from pathlib import Path

import numpy as np
import pytest

from embedrun import plot

PNG = b"\x89PNG\r\n\x1a\n"
SIX = [f"sentence {number}" for number in range(6)]


def test_each_sentence_has_points_of_its_own_shape_and_grey(tmp_path: Path, axes):
    points = np.arange(24.0).reshape(6, 2, 2)
    plot.dropout_map(points, SIX, "toy", tmp_path / "map.png")
    (axis,) = axes
    assert [line.get_xydata().tolist() for line in axis.lines] == points.tolist()
    assert len({line.get_marker() for line in axis.lines}) == 6
    assert [text.get_text() for text in axis.get_legend().get_texts()][1] == "b: sentence 1"
    assert (tmp_path / "map.png").read_bytes().startswith(PNG)


def test_the_legend_covers_nothing_and_stays_in_the_picture_however_long_the_sentences(
    tmp_path: Path, axes, legend_is_free
):
    long = ["W" * 200, "m " * 100]
    plot.dropout_map(np.arange(12.0).reshape(2, 3, 2) - 1000, long, "toy", tmp_path / "map.png")
    assert legend_is_free(axes[0])
    words = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert [word[-3:] for word in words] == ["...", "..."]


def test_no_sentence_is_read_as_a_formula_or_left_out_of_the_legend(tmp_path: Path, axes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of letters that the font lacks, too
        plot.dropout_map(np.zeros((3, 2, 2)), ["_a $x_{", "a\nb", "東京"], "$y", tmp_path / "map.png")
    words = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert words == [r"a: _a \$x_{", "b: a b", "c: 東京"]


def test_more_sentences_than_can_be_told_apart_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="at most 6 sentences, got 7"):
        plot.dropout_map(np.zeros((7, 2, 2)), [*SIX, "one more"], "toy", tmp_path / "map.png")
