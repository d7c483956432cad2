from pathlib import Path
from typing import Any

from embedrun import plot

PNG = b"\x89PNG\r\n\x1a\n"


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
