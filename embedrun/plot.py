"""Plots: curves, cosine density by gold score, score distribution, histograms of groups."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_BINS = 6  # AnglE Figure 5 groups STS-B into six bins of gold score
_HISTOGRAM_BINS = 50
_LINES = ("-", "--", ":", "-.")  # told apart without colour


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


def histogram(groups: Mapping[str, np.ndarray], label: str, title: str, path: Path) -> None:
    """Share of the values of each group that falls into each of 50 equal bins, one outline a group.

    Groups of unlike size can be compared, as in RAOE Figure 1: the shares of each add up to 1.

    Args:
        groups: values by the group's name, each ``(values,)``, at least one.
        label: of the values.
        title: of the plot.
        path: of the PNG.
    """
    every = np.concatenate(list(groups.values()))  # (values,)
    low, high = float(every.min()), float(every.max())
    edges = np.linspace(low, high if high > low else low + 1, _HISTOGRAM_BINS + 1)  # (bins + 1,)
    figure, (axis,) = _subplots(1, (7, 4))
    for index, (name, values) in enumerate(groups.items()):
        share = np.histogram(values, edges)[0] / len(values)  # (bins,)
        style = _LINES[index % len(_LINES)]
        words = f"{name} (n={len(values):,}, mean {values.mean():.2f})"
        axis.stairs(share, edges, color="black", linestyle=style, label=words)
    axis.legend(frameon=False)
    axis.set(xlabel=label, ylabel="share of the group", title=title)
    _save(figure, path)


def lengths(splits: Mapping[str, np.ndarray], unit: str, limit: int, path: Path) -> None:
    """Distribution of text lengths, on a logarithmic scale, one violin a split (AnglE Figure 3).

    Args:
        splits: lengths by the split's name, each ``(texts,)``, at least one.
        unit: of the lengths.
        limit: longer texts count as long; a dashed line.
        path: of the PNG.
    """
    figure, (axis,) = _subplots(1, (7, 4))
    values = [np.log10(np.maximum(own, 1)) for own in splits.values()]  # each (texts,)
    drawn = axis.violinplot(values, showmedians=True, showextrema=False)
    drawn["cmedians"].set_color("black")
    for part in drawn["bodies"]:
        part.set(facecolor="0.7", edgecolor="black", alpha=1)
    axis.axhline(np.log10(limit), color="black", linestyle="--", linewidth=1)
    labels = [
        f"{name}\nn={len(own):,}, {100 * float((own > limit).mean()):.1f} % over {limit}"
        for name, own in splits.items()
    ]
    axis.set_xticks(range(1, len(values) + 1), labels)
    axis.set(ylabel=f"log10 of {unit} a text", title="Text lengths")
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
