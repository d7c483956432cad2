"""Every plot is drawn, and says what it shows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from embedrun import plot
from embedrun.plot import history, sweep


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes of what is drawn, to look at."""
    seen: list[Any] = []
    original = Figure.subplots

    def subplots(self: Figure, *given: Any, **more: Any) -> Any:
        drawn = original(self, *given, **more)
        seen.extend(drawn.flat)
        return drawn

    monkeypatch.setattr(Figure, "subplots", subplots)
    return seen


PNG = b"\x89PNG\r\n\x1a\n"


def test_a_figure_for_a_paper_stands_beside_that_of_the_page(tmp_path: Path):
    assert plot.paths(tmp_path / "curves", "png") == [tmp_path / "curves.png"]
    png, pdf = plot.paths(tmp_path / "curves", "pdf")
    for path in (png, pdf, tmp_path / "curves.svg"):
        plot.curves([metric(1, "train", "loss", 3.0)], None, path)
    assert png.read_bytes().startswith(PNG)
    assert b"/Type3" not in pdf.read_bytes()
    assert b"<svg" in (tmp_path / "curves.svg").read_bytes()


def metric(step: int, split: str, name: str, value: float | None) -> dict[str, Any]:
    return {"step": step, "epoch": 0.0, "split": split, "name": name, "value": value}


def test_curves_show_loss_and_dev_score_and_mark_the_best_trained_step(tmp_path: Path, axes):
    metrics = [
        metric(0, "dev", "d/spearman", 99.0),  # untrained: drawn, never the best
        metric(1, "train", "loss", 3.0),
        metric(1, "train", "lr", 1e-3),
        metric(2, "train", "loss", 2.0),
        metric(2, "dev", "d/spearman", 40.0),
        metric(3, "dev", "d/spearman", None),  # undefined
        metric(4, "dev", "d/spearman", 50.0),
        metric(4, "dev", "other", 60.0),
    ]
    plot.curves(metrics, "d/spearman", tmp_path / "plots" / "curves.png")
    top, bottom = axes
    assert top.lines[0].get_xydata().tolist() == [[1, 3], [2, 2]]
    assert bottom.lines[0].get_xydata().tolist() == [[0, 99], [2, 40], [4, 50]]
    assert bottom.lines[1].get_xydata().tolist() == [[4, 50]]
    assert bottom.get_legend().get_texts()[0].get_text() == "best 50.00 at 4"
    assert (tmp_path / "plots" / "curves.png").read_bytes().startswith(PNG)


def test_density_counts_every_pair_in_one_of_six_groups_and_in_all(tmp_path: Path, axes):
    gold = np.array([0, 1, 2, 3, 4, 5, 6, 6.0])  # edges 0, 1, ... 6: the highest score joins the last group
    plot.density(gold, np.linspace(-0.1, 0.9, 8), "toy", tmp_path / "density.png")
    labels = [label.get_text() for label in axes[0].get_yticklabels()]
    assert labels == [
        "0.0 to 1.0 (n=1)", "1.0 to 2.0 (n=1)", "2.0 to 3.0 (n=1)",
        "3.0 to 4.0 (n=1)", "4.0 to 5.0 (n=1)", "5.0 to 6.0 (n=3)", "all (n=8)",
    ]  # fmt: skip
    assert (tmp_path / "density.png").read_bytes().startswith(PNG)


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


def test_a_histogram_shows_the_share_of_each_group(tmp_path: Path, axes):
    groups = {"many": np.array([0.0, 0.0, 0.0, 1.0]), "few": np.array([1.0])}
    plot.histogram(groups, "cosine", "toy", tmp_path / "histogram.png")
    many, few = (patch.get_data() for patch in axes[0].patches)
    assert (many.values[0], many.values[-1], many.values.sum()) == (0.75, 0.25, 1)
    assert (few.values[0], few.values[-1], few.values.sum()) == (0, 1, 1)
    assert (many.edges[0], many.edges[-1], len(many.values)) == (0, 1, 50)
    words = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert words == ["many (n=4, mean 0.25)", "few (n=1, mean 1.00)"]
    assert (tmp_path / "histogram.png").read_bytes().startswith(PNG)


def test_lengths_are_one_violin_a_split_on_a_logarithmic_scale(tmp_path: Path, axes):
    splits = {"train": np.array([1, 10, 100, 1000]), "dev": np.array([600, 700]), "test": np.array([0, 1])}
    plot.lengths(splits, "words", 512, tmp_path / "lengths.png")
    labels = [label.get_text() for label in axes[0].get_xticklabels()]
    assert labels == [
        "train\nn=4, 25.0 % over 512",
        "dev\nn=2, 100.0 % over 512",
        "test\nn=2, 0.0 % over 512",
    ]
    heights = [path.vertices[:, 1] for path in (body.get_paths()[0] for body in axes[0].collections[:3])]
    assert (heights[0].min(), heights[0].max()) == pytest.approx((0, 3))
    assert heights[2].max() == 0  # an empty text counts as one of length 1
    assert axes[0].lines[0].get_ydata()[0] == pytest.approx(np.log10(512))
    assert (tmp_path / "lengths.png").read_bytes().startswith(PNG)


SIX = [f"sentence {number}" for number in range(6)]


def test_each_sentence_has_points_of_its_own_shape_and_grey(tmp_path: Path, axes):
    points = np.arange(24.0).reshape(6, 2, 2)
    plot.dropout_map(points, SIX, "toy", tmp_path / "map.png")
    (axis,) = axes
    assert [line.get_xydata().tolist() for line in axis.lines] == points.tolist()
    assert len({line.get_marker() for line in axis.lines}) == 6
    assert [text.get_text() for text in axis.get_legend().get_texts()][1] == "b: sentence 1"
    assert (tmp_path / "map.png").read_bytes().startswith(PNG)


def test_saturation_draws_the_shares_the_gradient_and_both_ends_of_the_zone(tmp_path: Path, axes):
    cosine = np.array([-0.95, 0.0, 0.9, 0.91])  # the last two share a bar, and three are in the zone
    plot.saturation(cosine, 0.9, "toy", tmp_path / "zone.png")
    (axis,) = axes
    words = [text.get_text() for text in axis.get_legend().get_texts()]
    assert words[2] == "saturation zone, |cosine| ≥ 0.9: 75.0 % of 4 pairs"
    upper, lower, bars = axis.patches
    assert (upper.get_x(), upper.get_width()) == pytest.approx((0.9, 0.1))
    assert (lower.get_x(), lower.get_width()) == pytest.approx((-1, 0.1))
    shares = bars.get_data()
    assert {shares.edges[place]: share for place, share in enumerate(shares.values) if share} == {
        -0.95: 0.25,
        0.0: 0.25,
        0.9: 0.5,
    }
    (curve,) = [other for other in axis.figure.axes if other is not axis]
    x, y = curve.lines[0].get_data()
    # Half the largest gradient where the cosine is √3/2, which is an angle of 30 degrees.
    assert np.interp(-np.sqrt(3) / 2, x[::-1], y[::-1]) == pytest.approx(0.5, abs=1e-3)
    assert (tmp_path / "zone.png").read_bytes().startswith(PNG)


METRIC = "toy_dev/spearman"


def drawn(axis) -> dict[str, list[list[float]]]:
    """The points of an axis by what the legend calls them."""
    return {line.get_label(): line.get_xydata().tolist() for line in axis.lines}


@pytest.mark.parametrize(("lowest", "best"), [(False, [3, 5, 5, 5]), (True, [3, 3, 1, 1])])
def test_the_best_so_far_never_gets_worse_and_no_pruned_trial_is_it(tmp_path: Path, axes, lowest, best):
    points = [(0, 3.0, False), (1, 5.0, False), (2, 9.0, True), (4, 1.0, False), (7, -9.0, True)]
    history(points, METRIC, "Study s", tmp_path / "plots" / "history.png", lowest=lowest)
    lines = drawn(axes[0])
    assert lines["finished"] == [[0, 3], [1, 5], [4, 1]]
    assert lines["pruned, at its last dev score"] == [[2, 9], [7, -9]]
    assert lines["best so far"] == [[x, y] for x, y in zip([0, 1, 4, 7], best, strict=True)]
    assert (tmp_path / "plots" / "history.png").read_bytes().startswith(PNG)


LABELS = ("margin", "score")


def test_a_curve_has_its_band_the_printed_points_and_the_optimum(tmp_path: Path, axes):
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
    assert path.stat().st_size > 1000


def test_claims_stand_below_the_heading_of_their_group_with_what_a_paper_prints(tmp_path: Path, axes):
    groups = {"Terms: AnglE": "Terms", "Labels: SimCSE": "Labels", "MSE": "", "Terms: RAOE": "Terms"}
    bars = {name: (0.1, (-0.1, 0.3)) for name in groups}
    more = {"printed": {"Terms: RAOE": 0.8}, "each": {"Terms: RAOE": [0.0, 0.2]}, "least": 0.3}
    plot.forest(bars, "points", tmp_path / "claims.png", groups=groups, **more)
    shown = [label.get_text() for label in axes[0].get_yticklabels()]
    assert shown == ["MSE", "Terms", "AnglE", "RAOE", "Labels", "SimCSE"]
    drawn = [line.get_xydata().tolist() for line in axes[0].lines]
    assert [[0.0, 3.0], [0.2, 3.0]] in drawn  # each run, on RAOE's line
    assert drawn[-1] == [[0.8, 3.0]]
    assert [patch.get_width() for patch in axes[0].patches] == [0.6]
