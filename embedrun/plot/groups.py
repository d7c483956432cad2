"""Values of several groups side by side."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from embedrun.plot.figure import LINES, save, subplots

_BINS = 50


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
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)  # (bins + 1,)
    figure, (axis,) = subplots(1, 1, (7, 4), title)
    for index, (name, values) in enumerate(groups.items()):
        share = np.histogram(values, edges)[0] / len(values)  # (bins,)
        style = LINES[index % len(LINES)]
        words = f"{name} (n={len(values):,}, mean {values.mean():.2f})"
        axis.stairs(share, edges, color="black", linestyle=style, label=words)
    axis.legend(frameon=False)
    axis.set(xlabel=label, ylabel="share of the group")
    save(figure, path)


def lengths(splits: Mapping[str, np.ndarray], unit: str, limit: int, path: Path) -> None:
    """Distribution of text lengths, on a logarithmic scale, one violin a split (AnglE Figure 3).

    Args:
        splits: lengths by the split's name, each ``(texts,)``, at least one.
        unit: of the lengths.
        limit: longer texts count as long; a dashed line.
        path: of the PNG.
    """
    figure, (axis,) = subplots(1, 1, (7, 4), "Text lengths")
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
    axis.set(ylabel=f"log10 of {unit} a text")
    save(figure, path)
