"""The plots of a run directory: curves, cosine density by gold score, score distribution."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_BINS = 6  # AnglE Figure 5 groups STS-B into six bins of gold score


def curves(metrics: Sequence[Mapping[str, Any]], metric: str, path: Path) -> None:
    """Training loss and dev score by step.

    Args:
        metrics: the rows of `metrics.jsonl`.
        metric: key of the dev score.
        path: of the PNG.
    """
    figure, (top, bottom) = _subplots(2, (7, 5.5))
    loss = [
        (row["step"], row["value"]) for row in metrics if row["split"] == "train" and row["name"] == "loss"
    ]
    dev = [
        (row["step"], row["value"])
        for row in metrics
        if row["split"] == "dev" and row["name"] == metric and row["value"] is not None
    ]
    top.plot(*zip(*loss, strict=True), color="0.2", linewidth=1)
    top.set(ylabel="training loss", title="Loss and dev score by step")
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
    _save(figure, path)


def density(gold: np.ndarray, cosine: np.ndarray, title: str, path: Path) -> None:
    """Density of the cosines of six groups of gold score, one strip each (AnglE Figure 5a).

    Args:
        gold: human score of each pair, ``(pairs,)``.
        cosine: of each pair, ``(pairs,)``.
        title: of the plot.
        path: of the PNG.
    """
    low, high = float(gold.min()), float(gold.max())
    edges = np.linspace(low, high, _BINS + 1)  # (bins + 1,)
    group = np.clip(np.searchsorted(edges, gold, side="right") - 1, 0, _BINS - 1)  # (pairs,)
    grid = np.linspace(min(0.0, float(cosine.min())), 1.0, 256)  # (points,)
    figure, (axis,) = _subplots(1, (7, 4.5))
    for index in range(_BINS):
        height = _smooth(cosine[group == index], grid)
        shade = str(0.85 - 0.12 * index)
        axis.fill_between(
            grid, index, index + height, color=shade, edgecolor="black", linewidth=0.8, zorder=_BINS - index
        )
    labels = [
        f"{edges[index]:.1f} to {edges[index + 1]:.1f} (n={int((group == index).sum())})"
        for index in range(_BINS)
    ]
    axis.set_yticks(range(_BINS), labels)
    axis.set(xlabel="cosine", ylabel="gold score", title=title)
    _save(figure, path)


def distribution(gold: np.ndarray, cosine: np.ndarray, title: str, path: Path) -> None:
    """Cosine of every pair against its gold score.

    Args:
        gold: human score of each pair, ``(pairs,)``.
        cosine: of each pair, ``(pairs,)``.
        title: of the plot.
        path: of the PNG.
    """
    figure, (axis,) = _subplots(1, (5.5, 4.5))
    axis.plot(gold, cosine, linestyle="none", marker=".", markersize=3, color="0.2", alpha=0.4)
    axis.set(xlabel="gold score", ylabel="cosine", title=title)
    _save(figure, path)


def _smooth(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """A Gaussian density estimate scaled to a height of 0.9, ``(points,)``; flat where there is nothing."""
    if len(values) == 0:
        return np.zeros_like(grid)
    width = max(1.06 * float(values.std()) * len(values) ** -0.2, 0.01)  # Silverman's rule
    estimate = np.exp(-0.5 * ((grid[:, None] - values[None, :]) / width) ** 2).sum(1)  # (points,)
    return 0.9 * estimate / max(float(estimate.max()), 1e-12)


def _subplots(count: int, size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # no pyplot: it keeps figures alive and looks for a display

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(count, 1, sharex=count > 1, squeeze=False)[:, 0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)
