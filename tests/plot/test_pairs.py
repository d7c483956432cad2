from pathlib import Path

import numpy as np
import pytest

from embedrun import plot
from embedrun.plot import smooth

PNG = b"\x89PNG\r\n\x1a\n"


def test_density_counts_every_pair_in_one_of_six_groups_and_in_all(tmp_path: Path, axes):
    gold = np.array([0, 1, 2, 3, 4, 5, 6, 6.0])  # edges 0, 1, ... 6: the highest score joins the last group
    plot.density(gold, np.linspace(-0.1, 0.9, 8), "toy", tmp_path / "density.png")
    labels = [label.get_text() for label in axes[0].get_yticklabels()]
    assert labels == [
        "0.0 to 1.0 (n=1)", "1.0 to 2.0 (n=1)", "2.0 to 3.0 (n=1)",
        "3.0 to 4.0 (n=1)", "4.0 to 5.0 (n=1)", "5.0 to 6.0 (n=3)", "all (n=8)",
    ]  # fmt: skip
    assert (tmp_path / "density.png").read_bytes().startswith(PNG)


def test_the_gold_scores_of_the_groups_stand_beside_their_cosines(tmp_path: Path, axes):
    gold = np.array([0.0, 0.0, 3.0])
    plot.density(gold, np.array([0.2, 0.2, 0.9]), "toy", tmp_path / "density.png")
    peaks = []
    for axis in axes:
        strips = [strip.get_paths()[0].vertices for strip in axis.collections]  # (points, 2) each
        peaks.append([strip[strip[:, 1].argmax(), 0] for strip in (strips[0], strips[5])])
    # A fine grid of 256 points: 1 / 255 of the axis is as near as a peak comes.
    assert peaks[0] == pytest.approx([0.2, 0.9], abs=1 / 255)
    assert peaks[1] == pytest.approx([0, 3], abs=3 / 255)
    assert [axis.get_xlabel() for axis in axes] == ["cosine", "gold score"]


def test_equal_gold_scores_are_a_single_group(tmp_path: Path, axes):
    plot.density(np.array([3.0, 3.0]), np.array([0.1, 0.2]), "toy", tmp_path / "density.png")
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["3.0 (n=2)", "all (n=2)"]


def test_distribution_draws_every_pair_and_the_share_of_each_score(tmp_path: Path, axes):
    gold, cosine = np.array([1.0, 1.0, 1.0, 5.0]), np.array([0.11, 0.12, 0.92, 0.93])
    plot.distribution(gold, cosine, "toy", tmp_path / "scores.png")
    points, shares = axes
    assert points.lines[0].get_xydata().tolist() == np.stack([gold, cosine], axis=1).tolist()
    cosines, golds = (patch.get_data() for patch in shares.patches)
    assert cosines.edges.tolist() == [bin / 20 for bin in range(21)]
    assert {place: share for place, share in enumerate(cosines.values) if share} == {2: 0.5, 18: 0.5}
    assert {place: share for place, share in enumerate(golds.values) if share} == {0: 0.75, 19: 0.25}
    words = [text.get_text() for text in shares.get_legend().get_texts()]
    # (0.11 + 0.12 + 0.92 + 0.93) / 4 = 0.52; the gold scores are 0, 0, 0 and 1 of their range.
    assert words == ["cosine (solid line: mean 0.52)", "gold score, rescaled (dashed line: mean 0.25)"]
    assert (tmp_path / "scores.png").read_bytes().startswith(PNG)


def test_the_legend_of_the_shares_covers_nothing(tmp_path: Path, axes, legend_is_free):
    plot.distribution(np.array([0.0, 5.0]), np.array([-0.3, 1.0]), "toy", tmp_path / "scores.png")
    assert legend_is_free(axes[1])


def test_a_cosine_of_one_and_an_error_of_the_last_digit_opens_no_bin_beyond_one(tmp_path: Path, axes):
    cosine = np.array([0.5, 1.0000001192])
    plot.distribution(np.array([0.0, 1.0]), cosine, "toy", tmp_path / "scores.png")
    found = axes[1].patches[0].get_data()
    assert (found.edges[-1], found.values[-1]) == (1, 0.5)


@pytest.mark.parametrize(
    ("gold", "cosine"),
    [([2.0], [0.3]), ([3.0, 3.0, 3.0], [0.1, 0.5, 0.9]), ([0.0, 2.0, 5.0], [0.7] * 3), ([0.0, 1.0], [-1, 1])],
)
def test_awkward_pairs_are_drawn(tmp_path: Path, gold, cosine):
    plot.density(np.array(gold), np.array(cosine, dtype=float), "$x_{", tmp_path / "a.png")
    plot.distribution(np.array(gold), np.array(cosine, dtype=float), "$x_{", tmp_path / "b.png")
    assert all((tmp_path / name).read_bytes().startswith(PNG) for name in ("a.png", "b.png"))


def test_a_density_peaks_where_its_values_lie_at_nine_tenths_of_its_strip():
    grid = np.linspace(0, 1, 101)
    height = smooth(np.array([0.3, 0.3, 0.3]), grid)  # all equal: no spread to divide by
    assert grid[height.argmax()] == pytest.approx(0.3)
    assert height.max() == pytest.approx(0.9)


def test_the_density_of_nothing_is_flat():
    assert smooth(np.array([]), np.linspace(0, 1, 5)).tolist() == [0, 0, 0, 0, 0]
