"""Metrics by step as data for the charts that `chart.js` draws, and plots as images in the page."""

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from embedrun.console import number, score
from embedrun.files import Plain

Points = Sequence[tuple[int, float | None]]  # step and value, in order of step; None where it is undefined
_MOST_POINTS = 600  # of one line


@dataclass(frozen=True)
class Chart:
    """A chart as the script `chart.js` draws it: `lines` are points by name, `note` goes beside the title.

    `shares`: the values lie between 0 and 1 and are written in percent. `mark` is the point that is
    highlighted.
    """

    title: str
    lines: Mapping[str, Points]
    note: str = ""
    shares: bool = False
    mark: tuple[int, float] | None = None

    def plain(self) -> Plain:
        """The chart as JSON-compatible data; long lines are thinned out, those without a value left out."""
        lines = [
            {"name": name, "points": thinned(points, _MOST_POINTS)}
            for name, points in self.lines.items()
            if any(value is not None for _, value in points)
        ]
        return {**vars(self), "lines": lines}


def thinned(points: Points, most: int) -> list[tuple[int, float | None]]:
    """At most `most` points: of each section the lowest and the highest."""
    if len(points) <= most:
        return list(points)
    kept: set[int] = {0, len(points) - 1}
    length = math.ceil(2 * len(points) / (most - 2))
    for begin in range(0, len(points), length):
        places = range(begin, min(begin + length, len(points)))
        defined = [(value, place) for place in places if (value := points[place][1]) is not None]
        kept |= {min(defined)[1], max(defined)[1]} if defined else {begin}
    return [points[place] for place in sorted(kept)]


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
                yield json.loads(line)
            except ValueError:
                yield None


_CLEAN = "_clean"  # as embedrun/evaluation/scores.py, which imports torch, ends the keys of clean scores
_TERM = "loss/"
_ACTIVITY = ("active", "violated", "gradient_share")


@dataclass(frozen=True)
class Panel:
    """One or more charts that belong together; `about` says what they show and may be empty."""

    title: str
    about: str
    charts: list[Plain]


def panels(metrics: Metrics) -> list[Panel]:
    """The panels of a training run; none of a run without values by step."""
    train = metrics.of("train")
    dev = {key: points for key, points in metrics.of("dev").items() if not key.endswith(_CLEAN)}
    terms: dict[str, Points] = {}
    shares: dict[str, dict[str, Points]] = {}
    others: dict[str, Points] = {}
    for name, points in train.items():
        word, _, term = name.partition("/")
        if name.startswith(_TERM):
            terms[term] = points
        elif term and word in _ACTIVITY:
            shares.setdefault(term, {})[word] = points
        elif name != "loss":
            others["learning rate" if name == "lr" else name.replace("_", " ")] = points
    loss = Chart("training loss", {"training loss": train.get("loss", [])})
    return [
        Panel(title, about, drawn)
        for title, about, charts in (
            ("Loss and dev scores", "", [loss, *(_dev(key, points) for key, points in dev.items())]),
            ("Terms of the loss", "Each by itself, before its weight.", _alone(terms)),
            (
                "Comparisons of the terms",
                "Active: the share of a batch's comparisons, or of its rows, that a term can learn from. "
                "Violated: the share of the active comparisons that are the wrong way round. "
                "Gradient share: what the term, its weight included, adds of the gradient at the embeddings.",
                [Chart(term, words, shares=True) for term, words in shares.items()],
            ),
            ("Optimizer", "", _alone(others)),
        )
        if (drawn := [plain for chart in charts if (plain := chart.plain())["lines"]])
    ]


def _alone(series: Mapping[str, Points]) -> list[Chart]:
    return [Chart(name, {name: points}) for name, points in series.items()]


def _dev(key: str, points: Points) -> Chart:
    """A dev score with its best step marked, the untrained model excepted."""
    trained = [(value, -step) for step, value in points if value is not None and step > 0]
    if not trained:
        return Chart(key, {key: points})
    value, step = max(trained)
    return Chart(key, {key: points}, f"best {score(key, value)} at step {-step:,}", mark=(-step, value))


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
    """One plot: `data:image/png;base64,...`, the caption and the alternative text."""

    address: str
    caption: str
    alt: str


def images(folder: Path, keys: Mapping[str, str], scores: Mapping[str, float]) -> list[Image]:
    """The plots in a folder, which need not exist.

    `keys` has, by set, the key of the score that the set's predictions give; the plots come in this order.
    `scores` is by key.
    """
    plots = []
    order = list(keys)
    for path in folder.glob("[!.]*.png"):
        if path.name != _CURVES:
            caption, name = _caption(path.stem)
            value = scores.get(keys.get(name, ""))
            alt = caption if value is None else f"{caption}. {keys[name]} {score(keys[name], value)}"
            address = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
            place = order.index(name) if name in keys else len(order)
            plots.append((place, path.name, Image(address, caption, f"Plot: {alt}.")))
    return [image for *_, image in sorted(plots, key=lambda plot: plot[:2])]


def _caption(stem: str) -> tuple[str, str]:
    """What a plot shows, by the name of its file, and the set that it belongs to."""
    for ending, what in _KINDS.items():
        if stem.endswith(ending):
            name = stem.removesuffix(ending)
            return f"{what}, {name}", name
    return _WHOLE.get(stem, stem.replace("_", " ")), ""
