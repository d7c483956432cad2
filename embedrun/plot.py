"""Every plot: of one run, of groups of pairs, of a sweep, of a search."""

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, cycle
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from embedrun.console import clean, decimals, say
from embedrun.files import Plain, whole_file

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write_plot(path: Path, drawn: Callable[[Path], None]) -> bool:
    """Draw a plot, and say whether it was written; a failure is only a warning, since the table remains."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn(path)
    except OSError as fault:
        say(f"no plot: {str(path)!r} cannot be written ({fault})")
        return False
    return True


LINES = ("-", "--", ":", "-.")  # told apart without colour


def subplots(rows: int, columns: int, size: tuple[float, float], title: str) -> "tuple[Figure, list[Axes]]":
    """A figure and its axes, row by row; `size` is width and height in inches."""
    from matplotlib.figure import Figure  # no pyplot: it keeps figures alive and looks for a display

    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(plain(title), fontsize="large")
    axes = list(figure.subplots(rows, columns, sharex="col", squeeze=False).flat)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def legend_above(axis: "Axes", handles: "list[Artist] | None" = None, fontsize: str = "medium") -> None:
    """A legend between the title and the axis, one line an entry, where no point or curve can be."""
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    axis.legend(handles=handles, **place, frameon=False, fontsize=fontsize)


def plain(text: str) -> str:
    """The text without control characters, and its dollar signs escaped, which would begin formulas."""
    return clean(text).replace("$", r"\$")


def paths(stem: Path, format: str) -> list[Path]:
    """Where a figure is drawn: as PNG, which the report page shows, and as `format`, if that is another."""
    return [stem.with_name(f"{stem.name}.{ending}") for ending in dict.fromkeys(("png", format))]


def save(figure: "Figure", path: Path) -> None:
    """Write the figure, in the format of the name's ending, whole; its folder is made where it is missing."""
    from matplotlib import rc_context

    path.parent.mkdir(exist_ok=True)
    name = f".{path.name}.{os.getpid()}"  # a resumed run removes what a kill left under such a name
    with (
        whole_file(path, aside=name, sync=False) as aside,
        warnings.catch_warnings(),
        rc_context({"pdf.fonttype": 42}),  # publishers refuse the default, Type 3
    ):
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is a box in the plot
        figure.savefig(aside, dpi=120, format=path.suffix[1:])


def curves(metrics: Sequence[Plain], metric: str | None, path: Path) -> None:
    """Training loss and dev score by step, from the rows of `metrics.jsonl` and the key of that, if any."""
    figure, (top, bottom) = subplots(2, 1, (7, 5.5), "Loss and dev score by step")
    values = {(row["split"], row["name"]): [] for row in metrics}
    for row in metrics:
        if row["value"] is not None:
            values[row["split"], row["name"]].append((row["step"], row["value"]))
    top.plot(*zip(*values.get(("train", "loss"), []), strict=True), color="0.2", linewidth=1)
    top.set(ylabel="training loss")
    if dev := values.get(("dev", metric)):
        bottom.plot(*zip(*dev, strict=True), color="0.2", linewidth=1, marker="o", markersize=3)
        step, best = max((point for point in dev if point[0] > 0), key=lambda point: point[1], default=dev[0])
        bottom.plot(step, best, label=f"best {best:.2f} at {step}", **_STAR)
        bottom.legend(frameon=False, loc="lower right")
    bottom.set(xlabel="step", ylabel=plain(metric or "no dev score"))
    save(figure, path)


_RATINGS = 5  # the best of STS: a mean of whole ratings from 0
_STRIPS = _RATINGS + 1  # AnglE Figure 5 has six groups of gold score
_BINS = 20  # from 0 to 1, of cosines and of rescaled gold scores; a zone from 0.9 begins where a bar does
_HEIGHT = 0.9  # of a strip; strips are 1 apart

Grouping = Literal["floor", "nearest"]


def density(gold: np.ndarray, cosine: np.ndarray, title: str, path: Path, by: Grouping = "floor") -> None:
    """Densities of the cosines and, beside them, of the gold scores: by group of gold score, and in all.

    One strip a group, each scaled to the same height, as AnglE Figure 5a and 5b: a good model's left side
    looks like the right one. Groups as `rating_groups` makes them. Gold scores and cosines are ``(pairs,)``,
    at least one.
    """
    panels({"": cosine}, gold, title, path, by)


def panels(
    cosines: Mapping[str, np.ndarray], gold: np.ndarray, title: str, path: Path, by: Grouping = "floor"
) -> None:
    """The same with a panel for each of several models by name, before that of the gold scores."""
    spans, group = rating_groups(gold, by)  # group: (pairs,)
    masks = [group == index for index in range(len(spans))] + [np.full(len(gold), True)]  # each (pairs,)
    labels = [f"{span} (n={mask.sum():,})" for span, mask in zip([*spans, "all"], masks, strict=True)]
    low, high = float(gold.min()), float(gold.max())
    figure, axes = subplots(1, len(cosines) + 1, (max(10, 4 + 3 * len(cosines)), 4.8), title)
    every = np.concatenate(list(cosines.values()))  # (models x pairs,)
    span = min(0.0, float(every.min())), max(1.0, float(every.max()))
    for axis, (name, cosine) in zip(axes, cosines.items(), strict=False):
        _strips(axis, cosine, masks, span)
        axis.set_yticks(range(len(masks)), labels if axis is axes[0] else [])
        axis.set(xlabel="cosine", title=plain(name))
    axes[0].set(ylabel="group of gold score (n: pairs)")
    _strips(axes[-1], gold, masks, (low, high) if high > low else (low - 0.5, low + 0.5))
    axes[-1].set_yticks(range(len(masks)), [])
    axes[-1].set(xlabel="gold score")
    save(figure, path)


def rating_groups(gold: np.ndarray, by: Grouping = "floor") -> tuple[list[str], np.ndarray]:
    """The groups of gold scores in words, and the group of each, ``(pairs,)``, int64; `gold` is ``(pairs,)``.

    On the scale of STS, 0 to 5, there are six, as AnglE Section 4.5 speaks of "the 0-1 range" and "the 4-5
    range": by `floor`, [0, 1) to [4, 5), and 5 alone; or by the `nearest` whole rating, halves upwards. That
    is the scale where the lowest score is below 1 and the highest above 4 and at most 5. Any other range is
    cut into six groups of equal width; equal gold scores are a single group.
    """
    low, high = float(gold.min()), float(gold.max())
    if 0 <= low < 1 and _RATINGS - 1 < high <= _RATINGS:
        group = np.floor(gold + (0.5 if by == "nearest" else 0)).astype(np.int64)  # (pairs,)
        if by == "nearest":
            return [f"nearest to {rating}" for rating in range(_STRIPS)], group
        return [*(f"{rating} to {rating + 1}" for rating in range(_RATINGS)), str(_RATINGS)], group
    if low == high:
        return [f"{low:.1f}"], np.zeros(len(gold), dtype=np.int64)
    edges = np.linspace(low, high, _STRIPS + 1)  # (groups + 1,)
    group = np.clip(np.searchsorted(edges, gold, side="right") - 1, 0, _STRIPS - 1)  # (pairs,)
    return [f"{edges[index]:.1f} to {edges[index + 1]:.1f}" for index in range(_STRIPS)], group


def distribution(gold: np.ndarray, cosine: np.ndarray, title: str, path: Path) -> None:
    """Cosine of every pair against its gold score, and how often each cosine and each gold score occurs.

    Both are ``(pairs,)``, at least one.
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


def _shares(axis: "Axes", values: np.ndarray, edges: np.ndarray, name: str, style: str) -> None:
    share = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)  # (bins,)
    mean, shade = float(values.mean()), "0.5" if style == "solid" else "black"
    fill = {"fill": True, "facecolor": "0.8"} if style == "solid" else {}
    words = f"{name} ({style} line: mean {mean:.2f})"
    axis.stairs(share, edges, linestyle=style, edgecolor=shade, label=words, **fill)
    axis.axvline(mean, color=shade, linestyle=style)


def _strips(axis: "Axes", values: np.ndarray, masks: list[np.ndarray], span: tuple[float, float]) -> None:
    grid = np.linspace(*span, 256)  # (points,)
    for index, mask in enumerate(masks):
        top = index + smooth(values[mask], grid)  # (points,)
        # The more alike the pairs, the darker; all pairs are white.
        shade = "white" if index == len(masks) - 1 else str(0.85 - 0.12 * index)
        order = len(masks) - index
        axis.fill_between(grid, index, top, color=shade, edgecolor="black", linewidth=0.8, zorder=order)
    axis.set_ylim(-0.1, len(masks))


def smooth(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """A Gaussian density estimate scaled to a height of 0.9, ``(points,)``; flat where there are no values.

    `values` are ``(values,)``; `grid` is where it is estimated, ``(points,)``.
    """
    if len(values) == 0:
        return np.zeros_like(grid)
    width = max(1.06 * float(values.std()) * len(values) ** -0.2, 0.01)  # Silverman's rule
    estimate = np.exp(-0.5 * ((grid[:, None] - values[None, :]) / width) ** 2).sum(1)  # (points,)
    return _HEIGHT * estimate / max(float(estimate.max()), 1e-12)


_BINS_OF_GROUPS = 50


def histogram(groups: Mapping[str, np.ndarray], label: str, title: str, path: Path) -> None:
    """Share of the values of each group that falls into each of 50 equal bins, one outline a group.

    Groups of different size can be compared, as in RAOE Figure 1: the shares of each add up to 1. The values
    of each are ``(values,)``, at least one.
    """
    edges = np.histogram_bin_edges(np.concatenate(list(groups.values())), _BINS_OF_GROUPS)  # (bins + 1,)
    figure, (axis,) = subplots(1, 1, (7, 4), title)
    for (name, values), style in zip(groups.items(), cycle(LINES), strict=False):
        share = np.histogram(values, edges)[0] / len(values)  # (bins,)
        words = plain(f"{name} (n={len(values):,}, mean {values.mean():.2f})")
        axis.stairs(share, edges, color="black", linestyle=style, label=words)
    axis.legend(frameon=False)
    axis.set(xlabel=plain(label), ylabel="share of the group")
    save(figure, path)


def lengths(splits: Mapping[str, np.ndarray], unit: str, limit: int, path: Path) -> None:
    """Distribution of text lengths, on a logarithmic scale, one violin a split (AnglE Figure 3).

    `splits` has the lengths by the split's name, each ``(texts,)``, at least one, in `unit`; above `limit`, a
    dashed line, texts count as long.
    """
    figure, (axis,) = subplots(1, 1, (7, 4), "Text lengths")
    values = [np.log10(np.maximum(counts, 1)) for counts in splits.values()]  # each (texts,)
    drawn = axis.violinplot(values, showmedians=True, showextrema=False)
    drawn["cmedians"].set_color("black")
    for part in drawn["bodies"]:  # type: ignore[attr-defined]  # a list of them
        part.set(facecolor="0.7", edgecolor="black", alpha=1)
    axis.axhline(np.log10(limit), color="black", linestyle="--", linewidth=1)
    labels = [
        f"{plain(name)}\nn={len(counts):,}, {100 * float((counts > limit).mean()):.1f} % over {limit}"
        for name, counts in splits.items()
    ]
    axis.set_xticks(range(1, len(values) + 1), labels)
    axis.set(ylabel=f"log10 of {plain(unit)} a text")
    save(figure, path)


# Shape and grey together tell six sentences apart.
_KINDS = (("o", "white"), ("^", "0.55"), ("s", "black"), ("D", "0.8"), ("v", "0.3"), ("P", "white"))
_LONGEST = 55  # characters of a sentence in the legend: so many of the widest Latin ones fit
_POINTS = {"linestyle": "none", "markersize": 6, "markeredgecolor": "black", "markeredgewidth": 0.7}
_STAR = {"linestyle": "none", "marker": "*", "markersize": 14, "color": "black"}


def dropout_map(points: np.ndarray, sentences: Sequence[str], title: str, path: Path) -> None:
    """Dropout samples of at most six related sentences in the plane (ArcCSE Figure 1).

    `points` are from t-SNE, ``(sentences, draws, 2)``.
    """
    if len(sentences) > len(_KINDS):
        raise ValueError(f"dropout_map: at most {len(_KINDS)} sentences, got {len(sentences)}")
    figure, (axis,) = subplots(1, 1, (8, 6.5), title)
    for letter, place, sentence, (marker, fill) in zip("abcdef", points, sentences, _KINDS, strict=False):
        name = f"{letter}: {plain(_short(' '.join(sentence.split()), _LONGEST))}"
        axis.plot(place[:, 0], place[:, 1], marker=marker, markerfacecolor=fill, label=name, **_POINTS)
    legend_above(axis, fontsize="small")
    axis.set(xlabel="t-SNE, first axis (no unit)", ylabel="t-SNE, second axis (no unit)")
    save(figure, path)


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def saturation(cosine: np.ndarray, begins: float, title: str, path: Path) -> None:
    r"""Distribution of the cosines, with the gradient :math:`|d \cos θ / d θ|` and the saturation zone.

    AnglE Figure 1 shows the zones on the cosine as a function of the angle; here they are seen from the
    side of the cosine, so that the pairs of a data set can be drawn into them. Cosines are ``(pairs,)``, in
    [-1, 1], at least one; the zone of ``|cosine|`` begins at `begins`, > 0 and < 1.
    """
    figure, (axis,) = subplots(1, 1, (7, 4.8), title)
    share = 100 * float((np.abs(cosine) >= begins).mean())
    zone = f"saturation zone, |cosine| ≥ {begins:g}: {share:.1f} % of {len(cosine):,} pairs"
    hatched = {"facecolor": "0.9", "edgecolor": "0.6", "hatch": "//", "linewidth": 0}
    shaded = axis.axvspan(begins, 1, label=zone, **hatched)
    axis.axvspan(-1, -begins, **hatched)
    edges = np.arange(-_BINS, _BINS + 1) / _BINS  # (bins + 1,)
    height = np.histogram(cosine, edges)[0] / len(cosine)  # (bins,)
    bars = axis.stairs(height, edges, fill=True, facecolor="0.6", edgecolor="black", label="pairs")
    axis.set(xlabel="cosine", ylabel="share of pairs", xlim=(-1, 1))
    curve, name = axis.twinx(), "gradient, |d cos θ / d θ|"
    grid = np.cos(np.linspace(0, np.pi, 201))  # (points,): dense where the curve is steep
    (line,) = curve.plot(grid, np.sqrt(1 - grid**2), color="black", linestyle="--", label=name)
    curve.set(ylabel=f"{name} (per radian)", ylim=(0, 1.05))
    curve.spines["top"].set_visible(False)
    legend_above(axis, [bars, line, shaded])
    save(figure, path)


# Trial or value, score, and whether the trial was pruned.
Point = tuple[float | str, float, bool]

_LONGEST_CHOICE = 24  # characters of a choice below the axis
_SIDE_BY_SIDE = 4  # choices whose names have room beside each other


def history(points: Sequence[Point], metric: str, title: str, path: Path, *, lowest: bool = False) -> None:
    """The score of each trial and the best so far; `points` are in the order of the trials' numbers."""
    figure, (axis,) = subplots(1, 1, (7, 4.2), title)
    _scatter(axis, points)
    finished = [(number, score) for number, score, pruned in points if not pruned]
    if finished:
        numbers, scores = zip(*finished, strict=True)
        best = [*accumulate(scores, min if lowest else max)]
        x, y = [*numbers, points[-1][0]], [*best, best[-1]]
        axis.plot(x, y, drawstyle="steps-post", color="black", label="best so far")
    _roomy(axis, metric)
    axis.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]  # of MaxNLocator
    axis.set(xlabel="trial", ylabel=plain(metric))
    legend_above(axis)
    save(figure, path)


def against(
    points: Sequence[Point],
    best: tuple[float | str, float],
    labels: tuple[str, str],
    path: Path,
    *,
    log: bool = False,
    order: Sequence[str] | None = None,
) -> None:
    """The score of each trial by the value of one option.

    `best` is value and score of the best trial; `labels` are the name of the option and the key of the score.
    `order` has the values of a choice as they stand on the axis; None: the values are numbers.
    """
    figure, (axis,) = subplots(1, 1, (7, 4.2), labels[0])
    place: dict[float | str, int] = {value: number for number, value in enumerate(order or ())}
    _scatter(axis, [(place.get(value, value), score, pruned) for value, score, pruned in points])
    axis.plot(place.get(best[0], best[0]), best[1], label=f"best: {best[1]:.2f}", **_STAR)
    _roomy(axis, labels[1])
    if order is not None:
        axis.set_xticks(range(len(order)), [plain(_short(text, _LONGEST_CHOICE)) for text in order])
        axis.set_xlim(-0.5, len(order) - 0.5)
        if len(order) > _SIDE_BY_SIDE:
            axis.tick_params("x", labelrotation=30)
    elif log:
        axis.set_xscale("log")
    axis.set(xlabel=plain(labels[0]), ylabel=plain(labels[1]))
    legend_above(axis)
    save(figure, path)


def forest(
    bars: Mapping[str, tuple[float, tuple[float, float]]],
    label: str,
    path: Path,
    *,
    beside: float = 0.0,
    least: float = 0.0,
    each: Mapping[str, Sequence[float]] = MappingProxyType({}),
    printed: Mapping[str, float] = MappingProxyType({}),
    groups: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Numbers with their intervals, one below the other, by name; a line stands at `beside`.

    By the same names, `each` are the values that a number is the mean of, `printed` numbers of a paper, and
    `groups` headings, each above its names. Numbers within `least` of the line are on gray.
    """
    lines: list[str] = []  # headings and names, from the top
    place: dict[str, int] = {}
    for heading in sorted({groups.get(name, ""): None for name in bars}, key=bool):  # those without one first
        lines += [heading] if heading else []
        for name in bars:
            if groups.get(name, "") == heading:
                place[name] = len(lines)
                lines.append(name.removeprefix(f"{heading}: "))
    figure, (axis,) = subplots(1, 1, (8, 1.3 + 0.3 * len(lines)), "")
    for name, (mean, (low, high)) in bars.items():
        axis.plot([low, high], [place[name]] * 2, color="tab:blue")
        axis.plot(each.get(name, []), [place[name]] * len(each.get(name, [])), "|", color="tab:blue")
        axis.plot(mean, place[name], "o", color="tab:blue")
    axis.axvline(beside, color="gray", linewidth=0.8)
    if least:
        axis.axvspan(beside - least, beside + least, color="0.92", label=f"below {least:g}: decides nothing")
    if printed:
        values, rows = list(printed.values()), [place[name] for name in printed]
        axis.plot(values, rows, "D", color="black", fillstyle="none", label="printed in the paper")
    if least or printed:
        legend_above(axis, fontsize="small")
    axis.set_yticks(range(len(lines)), [plain(line) for line in lines], fontsize="small")
    for line, tick in zip(lines, axis.get_yticklabels(), strict=True):
        tick.set_fontweight("bold" if line in groups.values() else "normal")
    axis.invert_yaxis()
    axis.set_xlabel(plain(label))
    save(figure, path)


def learning_curve(
    points: Sequence[tuple[int, float]],
    line: Sequence[tuple[float, float, float, float]],
    labels: tuple[str, str],
    path: Path,
) -> None:
    """Scores by training rows, and a fitted line of (rows, score, low, high) with its band."""
    figure, (axis,) = subplots(1, 1, (7, 4.5), "")
    axis.plot(*zip(*points, strict=True), "o", color="black", markersize=4, label="runs")
    if line:
        x, mean, low, high = zip(*line, strict=True)
        axis.plot(x, mean, color="tab:blue", label="power law")
        axis.fill_between(x, low, high, color="tab:blue", alpha=0.15, linewidth=0, label="95 % prediction")
    axis.set(xlabel=plain(labels[0]), ylabel=plain(labels[1]), xscale="log")
    legend_above(axis, fontsize="small")
    save(figure, path)


def by_level(
    lines: Mapping[str, Sequence[float]], levels: Sequence[str], labels: tuple[str, str], path: Path
) -> None:
    """A line for each name over the same levels, from left to right; `labels` are those of both axes."""
    figure, (axis,) = subplots(1, 1, (7, 4.2), "")
    for name, values in lines.items():
        axis.plot(range(len(values)), values, marker="o", label=plain(name))
    axis.set_xticks(range(len(levels)), levels)
    axis.set(xlabel=plain(labels[0]), ylabel=plain(labels[1]))
    legend_above(axis, fontsize="small")
    save(figure, path)


def _roomy(axis: "Axes", key: str) -> None:
    """Have the y axis show one point of a score × 100 or more: scores that are almost equal look so."""
    low, high = axis.get_ylim()
    height = 1.0 if decimals(key) == 2 else 0.0
    if high - low < height:
        axis.set_ylim((low + high - height) / 2, (low + high + height) / 2)


_APART = 0.12  # between scores at one choice; choices are 1 apart


def _scatter(axis: "Axes", points: Sequence[Point]) -> None:
    for label, is_pruned, marker, fill in (
        ("finished", False, "o", "0.7"),
        ("pruned, at its last dev score", True, "v", "white"),
    ):
        shown = [(x, score) for x, score, pruned in points if pruned is is_pruned]
        if shown:
            axis.plot(*zip(*shown, strict=True), marker=marker, markerfacecolor=fill, label=label, **_POINTS)


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

    `lines` has the measured points by the name of their curve, which is empty where there is one alone;
    `printed` are points that the paper prints, `best` is x of its optimum and what the legend calls it;
    `labels` are those of the axes.
    """
    figure, (axis,) = subplots(1, 1, (7, 4.5), title)
    looks = zip(cycle(_GREYS), cycle(LINES), cycle(_MARKERS), strict=False)
    drawn = [(name or "measured", points) for name, points in lines.items() if points]
    for (name, points), (color, style, marker) in zip(drawn, looks, strict=False):
        x, mean, sd = zip(*points, strict=True)
        look = {"color": color, "linestyle": style, "marker": marker, "markersize": 5}
        axis.plot(x, mean, label=plain(name), **look)
        if any(sd):
            spread = np.array([value or 0 for value in sd])  # (points,)
            low, high = np.array(mean) - spread, np.array(mean) + spread  # (points,) each
            axis.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    if printed:
        axis.plot(*zip(*printed, strict=True), label="printed", **_STAR)
    if best is not None:
        axis.axvline(best[0], color="black", linestyle="--", linewidth=1, label=plain(best[1]))
    axis.set(xlabel=plain(labels[0]), ylabel=plain(labels[1]))
    legend_above(axis, fontsize="small")
    save(figure, path)
