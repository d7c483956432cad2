"""A score by the value of an option, beside what a paper prints of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from embedrun.plot.figure import LINES, legend_above, plain, save, subplots

_MARKERS = "osD^vP"
_GREYS = ("0", "0.45", "0.65")

# x, mean, standard deviation or None.
Measured = tuple[float, float, float | None]


def sweep(
    lines: Mapping[str, Sequence[Measured]],
    printed: Sequence[tuple[float, float]],
    best: tuple[float, str] | None,
    labels: tuple[str, str],
    title: str,
    path: Path,
) -> None:
    """Curves of means with a band of one standard deviation to either side.

    Args:
        lines: measured points by the name of their curve, by x; the name is empty where there is one alone.
            A curve without points is left out.
        printed: points that the paper prints.
        best: x of the paper's optimum, a dashed line, and what the legend calls it; None for none.
        labels: of the x and the y axis.
        title: of the plot.
        path: of the PNG.
    """
    figure, (axis,) = subplots(1, 1, (7, 4.5), title)
    for place, (name, points) in enumerate((name, points) for name, points in lines.items() if points):
        x, mean, sd = zip(*points, strict=True)
        color = _GREYS[place % len(_GREYS)]
        axis.plot(
            x,
            mean,
            color=color,
            linestyle=LINES[place % len(LINES)],
            marker=_MARKERS[place % len(_MARKERS)],
            markersize=5,
            label=plain(name) if name else "measured",
        )
        if any(sd):
            low = [value - (spread or 0) for value, spread in zip(mean, sd, strict=True)]
            high = [value + (spread or 0) for value, spread in zip(mean, sd, strict=True)]
            axis.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    if printed:
        x, value = zip(*printed, strict=True)
        axis.plot(x, value, linestyle="none", marker="*", markersize=13, color="black", label="printed")
    if best is not None:
        axis.axvline(best[0], color="black", linestyle="--", linewidth=1, label=plain(best[1]))
    axis.set(xlabel=plain(labels[0]), ylabel=plain(labels[1]))
    legend_above(axis, fontsize="small")
    save(figure, path)
