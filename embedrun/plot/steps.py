"""How a training run went."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun.plot.figure import save, subplots


def curves(metrics: Sequence[Mapping[str, Any]], metric: str, path: Path) -> None:
    """Training loss and dev score by step.

    Args:
        metrics: the rows of `metrics.jsonl`.
        metric: key of the dev score.
        path: of the PNG.
    """
    figure, (top, bottom) = subplots(2, 1, (7, 5.5), "Loss and dev score by step")
    loss = [
        (row["step"], row["value"]) for row in metrics if row["split"] == "train" and row["name"] == "loss"
    ]
    dev = [
        (row["step"], row["value"])
        for row in metrics
        if row["split"] == "dev" and row["name"] == metric and row["value"] is not None
    ]
    top.plot(*zip(*loss, strict=True), color="0.2", linewidth=1)
    top.set(ylabel="training loss")
    if dev:
        bottom.plot(*zip(*dev, strict=True), color="0.2", linewidth=1, marker="o", markersize=3)
        step, best = max((row for row in dev if row[0] > 0), key=lambda row: row[1], default=dev[0])
        bottom.plot(
            step,
            best,
            marker="*",
            markersize=13,
            color="black",
            linestyle="none",
            label=f"best {best:.2f} at {step}",
        )
        bottom.legend(frameon=False, loc="lower right")
    bottom.set(xlabel="step", ylabel=metric)
    save(figure, path)
