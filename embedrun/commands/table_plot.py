"""The curve of a figure of a paper: measured points, printed ones, and the paper's optimum."""

import hashlib
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from embedrun.console import clean, say
from embedrun.table.figure import points
from embedrun.table.preset import Figure, Table
from embedrun.table.sheet import Sheet

_TITLE = 75  # characters a line


def draw(table: Table, sheet: Sheet, folder: Path) -> Path | None:
    """The curve of a figure; None where nothing was measured, or where it cannot be written.

    Args:
        table: of kind figure.
        sheet: of that table.
        folder: of the plot; is made if need be.
    """
    from embedrun.plot.sweep import sweep

    figure = table.figure
    if figure is None or not any(entry.mean is not None for entry in sheet.entries):
        say(f"{table.name}: nothing is measured, so no curve is drawn")
        return None
    found = points(table, sheet)
    lines = {
        "" if line is None else f"{figure.line} = {line:g}": [
            (point.x, point.mean, point.sd) for point in own if point.mean is not None
        ]
        for line, own in found.items()
    }
    printed = [(point.x, point.paper) for own in found.values() for point in own if point.paper is not None]
    axes = figure.x, next(column.heading for column in table.columns if column.key == figure.y)
    path = folder / f"{_name(sheet)}.png"
    if write_plot(path, lambda path: sweep(lines, printed, _best(figure), axes, _title(sheet), path)):
        say(f"the curve is in {path}")
        return path
    return None


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


def _name(sheet: Sheet) -> str:
    """The table's and its setting's, with a hash of the overrides: curves of other runs are another file."""
    words = [sheet.name.replace("/", "_"), *([sheet.scale] if sheet.scale else [])]
    if sheet.overrides:
        words.append(hashlib.sha256("\n".join(sheet.overrides).encode()).hexdigest()[:8])
    return "_".join(words)


def _title(sheet: Sheet) -> str:
    lines = [sheet.title]
    if sheet.scale:
        lines.append(f"reduced setting {sheet.scale}: not a reproduction")
    if sheet.overrides:
        lines += textwrap.wrap(
            clean(f"every run with {', '.join(sheet.overrides)}"), _TITLE, break_on_hyphens=False
        )
    return "\n".join(lines)


def _best(figure: Figure) -> tuple[float, str] | None:
    if figure.best is None:
        return None
    line = "" if figure.best_line is None else f" at {figure.line} = {figure.best_line:g}"
    return figure.best, f"the paper's optimum, {figure.best:g}{line}"
