"""The frame of every plot: axes without clutter, a legend that covers nothing, a PNG file."""

import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from embedrun.console import say


def write_plot(path: Path, drawn: Callable[[Path], None]) -> bool:
    """Draw a plot; one that cannot be written is said, and is no reason to be without the table.

    Args:
        path: of the plot; its folder is made if need be.
        drawn: writes it.

    Returns:
        Whether it was written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn(path)
    except OSError as fault:
        say(f"no plot: {str(path)!r} cannot be written ({fault})")
        with suppress(OSError):  # it is not there, or other plots are in it
            path.parent.rmdir()
        return False
    return True


LINES = ("-", "--", ":", "-.")  # told apart without colour


def subplots(rows: int, columns: int, size: tuple[float, float], title: str) -> tuple[Any, list[Any]]:
    """A figure and its axes, row by row.

    Args:
        rows: of axes; those below each other share their x axis.
        columns: of axes.
        size: width and height in inches.
        title: of the whole figure.
    """
    from matplotlib.figure import Figure  # no pyplot: it keeps figures alive and looks for a display

    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(plain(title), fontsize="large")
    axes = list(figure.subplots(rows, columns, sharex="col", squeeze=False).flat)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def legend_above(axis: Any, handles: list[Any] | None = None, fontsize: str = "medium") -> None:
    """A legend between the title and the axis, one line an entry, where no point or curve can be.

    Args:
        axis: of what it explains.
        handles: what it explains; None: all of the axis that has a label.
        fontsize: by matplotlib's names.
    """
    given = {} if handles is None else {"handles": handles}
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    axis.legend(**given, **place, frameon=False, fontsize=fontsize)


def plain(text: str) -> str:
    """The text with its dollar signs as they are, which matplotlib would take for formulas."""
    return text.replace("$", r"\$")


def save(figure: Any, path: Path) -> None:
    """Write the PNG, which replaces an old one in one step; its folder is made where it is missing."""
    path.parent.mkdir(exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is a box in the plot
            figure.savefig(beside, dpi=120, format="png")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
