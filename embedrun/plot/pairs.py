"""Cosines of pairs against their gold scores."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from embedrun.plot.figure import legend_above, save, subplots

_STRIPS = 6  # AnglE Figure 5 groups STS-B into six bins of gold score
_BINS = 20  # from 0 to 1, of cosines and of rescaled gold scores
_HEIGHT = 0.9  # of a strip; strips are 1 apart


def density(gold: np.ndarray, cosine: np.ndarray, title: str, path: Path) -> None:
    """Densities of the cosines and, beside them, of the gold scores: by group of gold score, and in all.

    One strip a group, each scaled to the same height, as AnglE Figure 5a and 5b: a good model's left side
    looks like the right one. The six groups are equally wide; equal gold scores make a single group.

    Args:
        gold: human score of each pair, ``(pairs,)``, at least one.
        cosine: of each pair, ``(pairs,)``.
        title: of the plot.
        path: of the PNG.
    """
    low, high = float(gold.min()), float(gold.max())
    edges = np.linspace(low, high, (_STRIPS if high > low else 1) + 1)  # (groups + 1,)
    last = len(edges) - 2
    group = np.clip(np.searchsorted(edges, gold, side="right") - 1, 0, last)  # (pairs,)
    masks = [group == index for index in range(last + 1)] + [np.full(len(gold), True)]  # each (pairs,)
    spans = [f"{edges[index]:.1f} to {edges[index + 1]:.1f}" for index in range(last + 1)]
    labels = [*(spans if high > low else [f"{low:.1f}"]), "all"]
    labels = [f"{label} (n={mask.sum():,})" for label, mask in zip(labels, masks, strict=True)]
    figure, (left, right) = subplots(1, 2, (10, 4.8), title)
    _strips(left, cosine, masks, (min(0.0, float(cosine.min())), max(1.0, float(cosine.max()))))
    _strips(right, gold, masks, (low, high) if high > low else (low - 0.5, low + 0.5))
    left.set_yticks(range(len(masks)), labels)
    left.set(xlabel="cosine", ylabel="group of gold score (n: pairs)")
    right.set_yticks(range(len(masks)), [])
    right.set(xlabel="gold score")
    save(figure, path)


def distribution(gold: np.ndarray, cosine: np.ndarray, title: str, path: Path) -> None:
    """Cosine of every pair against its gold score, and how often each cosine and each gold score occurs.

    Args:
        gold: human score of each pair, ``(pairs,)``, at least one.
        cosine: of each pair, ``(pairs,)``.
        title: of the plot.
        path: of the PNG.
    """
    figure, (left, right) = subplots(1, 2, (10, 4.3), title)
    left.plot(gold, cosine, linestyle="none", marker=".", markersize=3, color="0.2", alpha=0.4)
    left.set(xlabel="gold score", ylabel="cosine")
    low, high = float(gold.min()), float(gold.max())
    # Rounded, so that a cosine of 1 with an error of the last digit opens no bin beyond 1.
    ends = np.round(_BINS * np.array([cosine.min(), cosine.max()]), 3)  # (2,)
    edges = np.arange(min(0, math.floor(ends[0])), max(_BINS, math.ceil(ends[1])) + 1) / _BINS  # (bins + 1,)
    _shares(right, cosine, edges, "cosine", "solid")
    if high > low:
        _shares(right, (gold - low) / (high - low), edges, "gold score, rescaled", "dashed")
    legend_above(right)
    right.set(xlabel="cosine, or gold score rescaled to 0 to 1", ylabel=f"share of pairs (n={len(gold):,})")
    save(figure, path)


def _shares(axis: Any, values: np.ndarray, edges: np.ndarray, name: str, style: str) -> None:
    """The share of the values in each bin, solid bars or a dashed outline, and their mean as a line."""
    share = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)  # (bins,)
    mean, shade = float(values.mean()), "0.5" if style == "solid" else "black"
    fill = {"fill": True, "facecolor": "0.8"} if style == "solid" else {}
    words = f"{name} ({style} line: mean {mean:.2f})"
    axis.stairs(share, edges, linestyle=style, edgecolor=shade, label=words, **fill)
    axis.axvline(mean, color=shade, linestyle=style)


def _strips(axis: Any, values: np.ndarray, masks: list[np.ndarray], span: tuple[float, float]) -> None:
    """A density for each mask, one above the other; the last is of all values."""
    grid = np.linspace(*span, 256)  # (points,)
    for index, mask in enumerate(masks):
        height = smooth(values[mask], grid)  # (points,)
        # The more alike the pairs, the darker; all pairs are white.
        shade = "white" if index == len(masks) - 1 else str(0.85 - 0.12 * index)
        axis.fill_between(
            grid,
            index,
            index + height,
            color=shade,
            edgecolor="black",
            linewidth=0.8,
            zorder=len(masks) - index,
        )
    axis.set_ylim(-0.1, len(masks))


def smooth(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """A Gaussian density estimate scaled to a height of 0.9, ``(points,)``; flat where there is nothing.

    Args:
        values: ``(values,)``.
        grid: where it is estimated, ``(points,)``.
    """
    if len(values) == 0:
        return np.zeros_like(grid)
    width = max(1.06 * float(values.std()) * len(values) ** -0.2, 0.01)  # Silverman's rule
    estimate = np.exp(-0.5 * ((grid[:, None] - values[None, :]) / width) ** 2).sum(1)  # (points,)
    return _HEIGHT * estimate / max(float(estimate.max()), 1e-12)
