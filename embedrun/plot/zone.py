"""Cosines over the curve of their gradient: how many pairs are in the saturation zone."""

from pathlib import Path

import numpy as np

from embedrun.plot.figure import legend_above, save, subplots

_BINS = 20  # from 0 to 1, so that a zone from 0.9 begins where a bar does


def saturation(cosine: np.ndarray, begins: float, title: str, path: Path) -> None:
    r"""Distribution of the cosines, with the gradient :math:`|d \cos θ / d θ|` and the saturation zone.

    AnglE Figure 1 shows the zones on the cosine as a function of the angle; here they are seen from the
    side of the cosine, so that the pairs of a data set can be drawn into them.

    Args:
        cosine: of each pair, ``(pairs,)``, in [-1, 1], at least one.
        begins: where the zone of ``|cosine|`` begins, > 0 and < 1.
        title: of the plot.
        path: of the PNG.
    """
    figure, (axis,) = subplots(1, 1, (7, 4.8), title)
    share = 100 * float((np.abs(cosine) >= begins).mean())
    zone = f"saturation zone, |cosine| ≥ {begins:g}: {share:.1f} % of {len(cosine):,} pairs"
    shaded = axis.axvspan(begins, 1, facecolor="0.9", edgecolor="0.6", hatch="//", linewidth=0, label=zone)
    axis.axvspan(-1, -begins, facecolor="0.9", edgecolor="0.6", hatch="//", linewidth=0)
    edges = np.arange(-_BINS, _BINS + 1) / _BINS  # (bins + 1,)
    height = np.histogram(cosine, edges)[0] / len(cosine)  # (bins,)
    bars = axis.stairs(height, edges, fill=True, facecolor="0.6", edgecolor="black", label="pairs")
    axis.set(xlabel="cosine", ylabel="share of pairs", xlim=(-1, 1))
    curve = axis.twinx()
    grid = np.cos(np.linspace(0, np.pi, 201))  # (points,): dense where the curve is steep
    (line,) = curve.plot(
        grid, np.sqrt(1 - grid**2), color="black", linestyle="--", label="gradient, |d cos θ / d θ|"
    )
    curve.set(ylabel="gradient, |d cos θ / d θ| (per radian)", ylim=(0, 1.05))
    curve.spines["top"].set_visible(False)
    legend_above(axis, [bars, line, shaded])
    save(figure, path)
