"""The geometry of a small line chart; the page draws it as SVG, its labels as text.

Everything is in percent of the plotting area, x from the left and y from the top, so that a chart has any
size and its labels keep theirs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from embedrun.console import short

Points = Sequence[tuple[int, float | None]]  # step and value, in order of step; None where it is undefined
_MOST_POINTS = 600  # of one line; more are thinned out to the lowest and highest of each stretch
_MOST_DOTS = 30  # a line of more points has no dots on it


@dataclass(frozen=True)
class Tick:
    """A label at an axis.

    Args:
        label: as written.
        at: percent.
    """

    label: str
    at: float


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Args:
        name: for the legend.
        path: SVG path of the line, broken where values are undefined.
        dots: SVG path with a stretch of no length at every point; empty where there are too many.
    """

    name: str
    path: str
    dots: str


@dataclass(frozen=True)
class Chart:
    """A chart ready to be drawn.

    Args:
        title: above it.
        note: beside the title.
        alt: the chart in words.
        lines: told apart by dashes, in this order.
        y_ticks: from the lowest up.
        x_ticks: from the left.
        mark: SVG path of the point that stands out; empty for none.
    """

    title: str
    note: str
    alt: str
    lines: tuple[Line, ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    mark: str = ""


def draw(
    title: str,
    series: Mapping[str, Points],
    *,
    note: str = "",
    shares: bool = False,
    best: tuple[int, float] | None = None,
) -> Chart | None:
    """The chart of some series; None where no value is defined.

    Args:
        title: above it.
        series: points by name.
        note: beside the title.
        shares: the values lie between 0 and 1 and are written in percent.
        best: the point that stands out.
    """
    drawn = {name: points for name, points in series.items() if _defined(points)}
    if not drawn:
        return None
    steps = [step for points in drawn.values() for step, value in points if value is not None]
    values = [value for points in drawn.values() for _, value in _defined(points)]
    first, last = min(steps), max(steps)
    levels = [0.0, 0.5, 1.0] if shares else ticks(min(values), max(values))
    low, high = levels[0], levels[-1]

    def place(step: int, value: float) -> tuple[float, float]:
        across = 100 * (step - first) / (last - first) if last > first else 50.0
        return across, 100 - 100 * (value - low) / (high - low)

    lines = tuple(
        Line(name, _path(points, place), _dots([place(*one) for one in _defined(points)]))
        for name, points in drawn.items()
    )
    written = [f"{100 * level:.0f} %" if shares else short(level) for level in levels]
    return Chart(
        title=title,
        note=note,
        alt=". ".join(_in_words(title, name, points, shares) for name, points in drawn.items()),
        lines=lines,
        y_ticks=tuple(
            Tick(label, place(first, level)[1]) for label, level in zip(written, levels, strict=True)
        ),
        x_ticks=(Tick(f"{first:,}", 0.0), Tick(f"{last:,}", 100.0))
        if last > first
        else (Tick(f"{first:,}", 50.0),),
        mark="" if best is None else _dots([place(*best)]),
    )


def ticks(low: float, high: float) -> list[float]:
    """Two to five round numbers, evenly apart, around all values from `low` to `high`."""
    # Below 1e-300 the steps between the numbers that a float can hold are too coarse to part an axis.
    if high - low <= max(1e-300, 1e-9 * max(abs(low), abs(high))):
        room = abs(low) / 10 if abs(low) > 1e-290 else 1.0
        low, high = low - room, high + room
    raw = (high - low) / 3
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [place * step for place in range(first, last + 1)]


def _defined(points: Points) -> list[tuple[int, float]]:
    return [(step, value) for step, value in points if value is not None]


def _path(points: Points, place) -> str:
    """The line from point to point, begun anew after an undefined one; a lone point is a dot."""
    parts, joined = [], False
    for step, value in _thinned(points):
        if value is None:
            joined = False
            continue
        x, y = place(step, value)
        parts.append(f"{'L' if joined else 'M'}{x:.2f} {y:.2f}" + ("" if joined else "h0"))
        joined = True
    return "".join(parts)


def _dots(places: Sequence[tuple[float, float]]) -> str:
    """A stretch of no length at each place, which round line ends make a dot of any size."""
    return "" if len(places) > _MOST_DOTS else "".join(f"M{x:.2f} {y:.2f}h0" for x, y in places)


def _thinned(points: Points) -> Points:
    """At most about `_MOST_POINTS` points: of each stretch the lowest and the highest."""
    if len(points) <= _MOST_POINTS:
        return points
    kept: set[int] = {0, len(points) - 1}
    length = math.ceil(2 * len(points) / _MOST_POINTS)
    for begin in range(0, len(points), length):
        places = range(begin, min(begin + length, len(points)))
        defined = [(points[place][1], place) for place in places if points[place][1] is not None]
        kept |= {min(defined)[1], max(defined)[1]} if defined else {begin}
    return [points[place] for place in sorted(kept)]


def _in_words(title: str, name: str, points: Points, shares: bool) -> str:
    def write(value: float) -> str:
        return f"{100 * value:.1f} %" if shares else short(value)

    defined = _defined(points)
    (first, start), (last, end) = defined[0], defined[-1]
    what = name if name == title else f"{title}, {name}"
    if len(defined) == 1:
        return f"{what}: {write(start)} at step {first:,}"
    lowest, highest = min(value for _, value in defined), max(value for _, value in defined)
    return (
        f"{what}: {write(start)} at step {first:,}, {write(end)} at step {last:,}; "
        f"lowest {write(lowest)}, highest {write(highest)}"
    )
