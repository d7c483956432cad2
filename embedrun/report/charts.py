"""Metrics by step as SVG, and plots as images in the page.

Everything is in percent of the plotting area, x from the left and y from the top, so that a chart scales to
any size while its labels keep theirs.
"""

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from embedrun.console import number, score, short

Points = Sequence[tuple[int, float | None]]  # step and value, in order of step; None where it is undefined
_MOST_POINTS = 600  # of one line; more are thinned out to the lowest and highest of each section
_MOST_DOTS = 30  # a line of more points has no dots on it


@dataclass(frozen=True)
class Tick:
    """A label at an axis, `at` in percent."""

    label: str
    at: float


@dataclass(frozen=True)
class Line:
    """One line of a chart, with its name for the legend.

    Args:
        path: SVG path of the line, broken where values are undefined.
        dots: SVG path with a segment of no length at every point; empty where there are too many.
    """

    name: str
    path: str
    dots: str


@dataclass(frozen=True)
class Chart:
    """A chart ready to be drawn; `note` goes beside the title, `alt` is the chart in words.

    Lines are told apart by dashes, in their order. `y_ticks` are from the lowest up, `x_ticks` from the left.
    `mark` is the SVG path of the highlighted point; empty for none.
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
    """The chart of some series, points by name; None where no value is defined.

    The note goes beside the title. `shares`: the values lie between 0 and 1 and are written in percent.
    `best` is the highlighted point.
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
    # Below 1e-300 floats are too coarse to divide an axis.
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
    """The line from point to point, started anew after an undefined one; a lone point is a dot."""
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
    """A segment of no length at each place, which round line caps make a dot of any size."""
    return "" if len(places) > _MOST_DOTS else "".join(f"M{x:.2f} {y:.2f}h0" for x, y in places)


def _thinned(points: Points) -> Points:
    """At most about `_MOST_POINTS` points: of each section the lowest and the highest."""
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


_LONGEST = 10_000  # characters of a line; no run writes one as long


@dataclass(frozen=True)
class Metrics:
    """The contents of `metrics.jsonl`, and how many of its lines cannot be read.

    Points are in order of step, by split and name; of two lines about one step the later counts.
    """

    series: dict[tuple[str, str], list[tuple[int, float | None]]] = field(default_factory=dict)
    faults: int = 0

    @classmethod
    def read(cls, path: Path, holding: Sequence[str] = ()) -> "Metrics":
        """The values of a run so far; none where there is no file.

        With `holding`, only lines that hold one of these texts are read, which spares most of the work.
        """
        found: dict[tuple[str, str], dict[int, float | None]] = {}
        faults = 0
        for row in _rows(path, holding):
            try:
                step, key = row["step"], (str(row["split"]), str(row["name"]))
            except (KeyError, TypeError):
                faults += 1
                continue
            if isinstance(step, int) and 0 <= step < 10**12:
                found.setdefault(key, {})[step] = number(row.get("value"))
            else:
                faults += 1
        return cls({key: sorted(points.items()) for key, points in found.items()}, faults)

    def of(self, split: str) -> dict[str, list[tuple[int, float | None]]]:
        """The series of one split by name, in the order of the file."""
        return {name: points for (where, name), points in self.series.items() if where == split}


@dataclass(frozen=True)
class Speed:
    """The median rows per second of training and the most bytes on the device; None where not measured."""

    rows_per_second: float | None
    memory: float | None

    @classmethod
    def read(cls, path: Path) -> "Speed":
        """The summary of those lines that can be read."""
        rows = [row for row in _rows(path) if isinstance(row, dict)]
        rates = [rate for row in rows if (rate := number(row.get("rows_per_second"))) is not None]
        memory = [most for row in rows if (most := number(row.get("memory"))) is not None]
        return cls(median(rates) if rates else None, max(memory, default=None))


def _rows(path: Path, holding: Sequence[str] = ()) -> Iterator[Any]:
    """What each line holds; None for one that is not JSON, such as the last of a killed run."""
    if not path.is_file():
        return
    wanted = re.compile("|".join(map(re.escape, holding)))
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in filter(wanted.search, file):
            try:
                yield json.loads(line) if len(line) < _LONGEST else None
            except (ValueError, RecursionError):
                yield None


_MOST = 12  # charts of one panel; no run of ours has more
_CLEAN = "_clean"  # as embedrun/evaluation/scores.py, which imports torch, ends the keys of clean scores
_TERM = "loss/"
_ACTIVITY = ("active", "violated", "gradient_share")


@dataclass(frozen=True)
class Panel:
    """One or more charts that belong together.

    `about` says what they show and may be empty; `left_out` is how many more there would be.
    """

    title: str
    about: str
    charts: tuple[Chart, ...]
    left_out: int = 0


def panels(metrics: Metrics) -> list[Panel]:
    """The panels of a training run; none of a run without values by step."""
    train = metrics.of("train")
    dev = {key: points for key, points in metrics.of("dev").items() if not key.endswith(_CLEAN)}
    terms = {name.removeprefix(_TERM): points for name, points in train.items() if name.startswith(_TERM)}
    shares = _shares(train)
    used = {"loss", *(f"{_TERM}{term}" for term in terms)}
    used |= {f"{word}/{term}" for term, own in shares.items() for word in own}
    rest = {name: points for name, points in train.items() if name not in used}
    loss = draw("training loss", {"training loss": train.get("loss", [])})
    found = [
        _panel("Loss and dev scores", "", [loss, *(_dev(key, points) for key, points in dev.items())]),
        _panel(
            "Terms of the loss",
            "Each by itself, before its weight.",
            [draw(term, {term: points}) for term, points in terms.items()],
        ),
        _panel(
            "Comparisons of the terms",
            "Active: the share of a batch's comparisons, or of its rows, that a term can learn from. "
            "Violated: the share of the active comparisons that are the wrong way round. "
            "Gradient share: what the term, its weight included, adds of the gradient at the embeddings.",
            [draw(term, own, shares=True) for term, own in shares.items()],
        ),
        _panel(
            "Optimizer", "", [draw(_plain(name), {_plain(name): points}) for name, points in rest.items()]
        ),
    ]
    return [panel for panel in found if panel is not None]


def _panel(title: str, about: str, charts: list[Chart | None]) -> Panel | None:
    drawn = [chart for chart in charts if chart is not None]
    if not drawn:
        return None
    return Panel(title, about, tuple(drawn[:_MOST]), max(0, len(drawn) - _MOST))


def _dev(key: str, points: Points) -> Chart | None:
    """A dev score with its best step marked, the untrained model excepted."""
    trained = [(value, -step) for step, value in points if value is not None and step > 0]
    if not trained:
        return draw(key, {key: points})
    value, step = max(trained)
    return draw(key, {key: points}, note=f"best {score(key, value)} at step {-step:,}", best=(-step, value))


def _shares(train: Mapping[str, Points]) -> dict[str, dict[str, Points]]:
    """The shares of each term that compares, by term; none of numbers that cannot be shares."""
    found: dict[str, dict[str, Points]] = {}
    for name, points in train.items():
        word, slash, term = name.partition("/")
        if slash and word in _ACTIVITY and all(value is None or 0 <= value <= 1 for _, value in points):
            found.setdefault(term, {})[word] = points
    return found


def _plain(name: str) -> str:
    """`learning rate` for `lr`, `gradient norm` for `gradient_norm`."""
    return "learning rate" if name == "lr" else name.replace("_", " ")


_PNG = b"\x89PNG\r\n\x1a\n"
_LARGEST = 4_000_000  # bytes of one file
_MOST_BYTES = 40  # plots
_CURVES = "curves.png"  # loss and dev score, which the page draws itself
# How the name of a plot ends, and what it shows.
_KINDS = {
    "_density": "Density of the cosines by human score",
    "_scores": "Cosine against human score, and how both are distributed",
    "_saturation": "How many cosines lie in the saturation zone of the cosine",
}
_WHOLE = {"dropout_map": "Related sentences under many dropout masks, on a plane"}


@dataclass(frozen=True)
class Image:
    """One plot: its file's name, `data:image/png;base64,...`, the caption and the alternative text."""

    file: str
    address: str
    caption: str
    alt: str


def images(
    folder: Path, keys: Mapping[str, str], scores: Mapping[str, float]
) -> tuple[list[Image], list[str]]:
    """The plots in a folder, which need not exist, and why some are not shown, a line each.

    `keys` has, by set, the key of the score that the set's predictions give; the plots come in this order.
    `scores` is by key.
    """
    found, left_out = [], []
    first = {name: place for place, name in enumerate(keys)}
    files = [path for path in sorted(folder.glob("[!.]*.png")) if path.name != _CURVES]
    files.sort(key=lambda path: first.get(_caption(path.stem)[1], len(first)))
    if len(files) > _MOST_BYTES:
        left_out.append(f"{len(files) - _MOST_BYTES} more plots are in {folder.name}/")
    for path in files[:_MOST_BYTES]:
        try:
            data = path.read_bytes() if path.stat().st_size <= _LARGEST else b""
        except OSError as fault:
            left_out.append(f"{folder.name}/{path.name} cannot be read ({fault.strerror})")
            continue
        if not data.startswith(_PNG):
            left_out.append(f"{folder.name}/{path.name} is too large, or no PNG")
            continue
        caption, of = _caption(path.stem)
        value = scores.get(keys.get(of, ""))
        alt = caption if value is None else f"{caption}. {keys[of]} {score(keys[of], value)}"
        address = f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"
        found.append(Image(path.name, address, caption, f"Plot: {alt}."))
    return found, left_out


def _caption(stem: str) -> tuple[str, str]:
    """What a plot shows, by the name of its file, and the set that it belongs to."""
    for ending, what in _KINDS.items():
        if stem.endswith(ending):
            of = stem.removesuffix(ending)
            return f"{what}, {of}", of
    return _WHOLE.get(stem, stem.replace("_", " ")), ""
