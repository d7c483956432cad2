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
