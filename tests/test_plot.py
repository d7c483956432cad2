from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedrun import plot

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes of what is drawn, to look at."""
    seen: list[Any] = []
    original = plot._subplots

    def subplots(count: int, size: tuple[float, float]) -> tuple[Any, Any]:
        figure, drawn = original(count, size)
        seen.extend(drawn)
        return figure, drawn

    monkeypatch.setattr(plot, "_subplots", subplots)
    return seen


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


def test_curves_without_any_score_are_still_drawn(tmp_path: Path):
    plot.curves([metric(1, "train", "loss", 3.0)], "d/spearman", tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(PNG)


def test_density_counts_every_pair_in_one_of_six_groups(tmp_path: Path, axes):
    gold = np.array([0, 1, 2, 3, 4, 5, 6, 6.0])  # edges 0, 1, ... 6: the highest score joins the last group
    plot.density(gold, np.linspace(-0.1, 0.9, 8), "toy", tmp_path / "density.png")
    labels = [label.get_text() for label in axes[0].get_yticklabels()]
    assert labels == [
        "0.0 to 1.0 (n=1)", "1.0 to 2.0 (n=1)", "2.0 to 3.0 (n=1)",
        "3.0 to 4.0 (n=1)", "4.0 to 5.0 (n=1)", "5.0 to 6.0 (n=3)",
    ]  # fmt: skip
    assert (tmp_path / "density.png").read_bytes().startswith(PNG)


def test_distribution_draws_every_pair(tmp_path: Path, axes):
    plot.distribution(np.array([0.0, 5.0]), np.array([0.1, 0.9]), "toy", tmp_path / "scores.png")
    assert axes[0].lines[0].get_xydata().tolist() == [[0, 0.1], [5, 0.9]]
    assert (tmp_path / "scores.png").read_bytes().startswith(PNG)


def test_a_density_peaks_where_its_values_lie_at_nine_tenths_of_its_strip():
    grid = np.linspace(0, 1, 101)
    height = plot._smooth(np.array([0.3, 0.3, 0.3]), grid)  # all equal: no spread to divide by
    assert grid[height.argmax()] == pytest.approx(0.3)
    assert height.max() == pytest.approx(0.9)


def test_the_density_of_nothing_is_flat():
    assert plot._smooth(np.array([]), np.linspace(0, 1, 5)).tolist() == [0, 0, 0, 0, 0]


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


def test_a_histogram_of_one_value_is_drawn(tmp_path: Path):
    plot.histogram({"one": np.array([0.5, 0.5])}, "cosine", "toy", tmp_path / "histogram.png")
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
