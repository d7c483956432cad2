"""A search for the best options: scores by trial, and by the value of one option."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedrun.plot.figure import legend_above, plain, save, subplots

# Trial or value, score, and whether the trial was pruned.
Point = tuple[Any, float, bool]

_LONGEST = 24  # characters of a choice below the axis
_SIDE_BY_SIDE = 4  # choices whose names have room beside each other


def history(points: Sequence[Point], metric: str, title: str, path: Path, *, lowest: bool = False) -> None:
    """The score of each trial and the best so far.

    Args:
        points: number of the trial, score, pruned or not; in the order of the numbers.
        metric: key of the score.
        title: of the plot.
        path: of the PNG.
        lowest: whether a lower score is better.
    """
    figure, (axis,) = subplots(1, 1, (7, 4.2), title)
    _scatter(axis, points)
    finished = [(number, score) for number, score, pruned in points if not pruned]
    if finished:
        best = [
            (min if lowest else max)(score for _, score in finished[: place + 1])
            for place in range(len(finished))
        ]
        last = points[-1][0]
        numbers = [number for number, _ in finished]
        axis.plot(
            [*numbers, last], [*best, best[-1]], drawstyle="steps-post", color="black", label="best so far"
        )
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set(xlabel="trial", ylabel=plain(metric))
    legend_above(axis)
    save(figure, path)


def against(
    points: Sequence[Point],
    best: tuple[Any, float],
    labels: tuple[str, str],
    path: Path,
    *,
    log: bool = False,
    order: Sequence[str] | None = None,
) -> None:
    """The score of each trial by the value of one option.

    Args:
        points: value, score, pruned or not.
        best: value and score of the best trial.
        labels: name of the option, key of the score.
        path: of the PNG.
        log: whether the values stand on a logarithmic axis.
        order: the values of a choice as they stand on the axis; None: the values are numbers.
    """
    figure, (axis,) = subplots(1, 1, (7, 4.2), labels[0])
    place = {value: number for number, value in enumerate(order or ())}
    _scatter(axis, [(place.get(value, value), score, pruned) for value, score, pruned in points])
    axis.plot(
        place.get(best[0], best[0]),
        best[1],
        linestyle="none",
        marker="*",
        markersize=15,
        color="black",
        label=f"best: {best[1]:.2f}",
    )
    if order is not None:
        texts = [text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..." for text in order]
        axis.set_xticks(range(len(order)), [plain(text) for text in texts])
        axis.set_xlim(-0.5, len(order) - 0.5)
        if len(order) > _SIDE_BY_SIDE:
            axis.tick_params("x", labelrotation=30)
    elif log:
        axis.set_xscale("log")
    axis.set(xlabel=plain(labels[0]), ylabel=plain(labels[1]))
    legend_above(axis)
    save(figure, path)


def _scatter(axis: Any, points: Sequence[Point]) -> None:
    for label, own, fill in (("finished", False, "0.7"), ("pruned, at its last dev score", True, "white")):
        shown = [(x, score) for x, score, pruned in points if pruned is own]
        if shown:
            axis.plot(
                *zip(*shown, strict=True),
                linestyle="none",
                marker="v" if own else "o",
                markersize=6,
                markerfacecolor=fill,
                markeredgecolor="black",
                markeredgewidth=0.7,
                label=label,
            )
