"""The page over many runs: a table to sort and filter, curves laid over each other, seeds taken together.

One HTML file that asks for nothing. Its one script and its style are allowed by their hashes; what the runs
say of themselves is data, which the script puts on the page as text, never as HTML.
"""

import base64
import contextlib
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from math import ceil
from pathlib import Path
from statistics import fmean
from urllib.parse import quote

from embedrun.console import clean, decimals, number, numbers
from embedrun.errors import ConfigError, Terminated
from embedrun.evaluation.seeds import Ends, Spread, tied
from embedrun.files import Plain, is_alive, publish
from embedrun.report.charts import Metrics, Points, Speed
from embedrun.report.facts import State, at
from embedrun.report.page import FILE as OWN_PAGE
from embedrun.report.page import template
from embedrun.report.scores import interval
from embedrun.runs.directory import config_hash, now
from embedrun.runs.labels import Columns, columns, labels
from embedrun.runs.listing import Found, find, kind
from embedrun.runs.reading import SELECTED_BY, RunFiles, as_text
from embedrun.signals import raised

FILE = "index.html"
_POINTS = 200  # of a curve
_RUNS = 500  # with that many points; curves of more runs have fewer, so that the page stays as large
_FEWEST_POINTS = 20
_COLUMNS = 8  # choices and options in columns of their own
_WIDTH = 60  # characters of a value
_LONGEST = 300  # characters of an error
EVERY = 10.0  # seconds between two versions of a page that is watched
_SHARE = 0.1  # of the time is spent on writing it, at most
_METRICS, _SPEED = "metrics.jsonl", "speed.jsonl"
_LOSS_LINE, _DEV_LINE = '"name": "loss"', '"split": "dev"'  # in lines of metrics.jsonl

Series = Mapping[str, Points]


def write(folders: Sequence[Path], path: Path, *, reload: float | None = None) -> None:
    """Write the page over all runs in or below some folders.

    With `reload`, in seconds, the page loads itself again that often, for as long as it is written anew.

    Raises:
        ConfigError: if there is no run and none to wait for, or the page cannot be written.
    """
    found = find(folders)
    if not found.runs and reload is None:
        where = ", ".join(found.where(folder) for folder in folders)
        raise ConfigError([f"embedrun report: no runs below {where}", *found.broken])
    title = ", ".join(folder.name or folder.resolve().name for folder in folders)
    content = render(collect(found, path.parent), title=title, reload=reload)
    publish(path, content.encode(), replace=True)


def watch(folders: Sequence[Path], path: Path) -> None:
    """Write the page again and again, until Ctrl-C; the last version does not load itself any more."""
    wait = EVERY
    with raised():
        try:
            while True:
                time.sleep(wait)
                began = time.monotonic()
                write(folders, path, reload=wait)
                wait = max(EVERY, (time.monotonic() - began) / _SHARE)
        except KeyboardInterrupt as stop:
            with contextlib.suppress(ConfigError):  # there was nothing to wait for
                write(folders, path)
            if isinstance(stop, Terminated):
                raise


def render(data: Plain, *, title: str, reload: float | None = None) -> str:
    """The page with these data, as `collect` makes them."""
    from markupsafe import Markup

    script, style = _own("overview.js"), _own("style.css") + _own("overview.css")
    return template("overview.html.j2").render(
        title=title,
        counted=_counted(data["runs"]),
        data=Markup(_safe({**data, "written": now(), "reload": reload})),
        broken=data["broken"],
        points=data["points"],
        script=Markup(script),
        style=Markup(style),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


def _own(name: str) -> str:
    return (Path(__file__).resolve().parent / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What a content security policy allows a script or style by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _safe(data: Plain) -> str:
    """JSON that neither begins nor ends anything in HTML, and without control characters."""
    text = clean(json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    for sign in "<>&\u2028\u2029":  # the last two end a line of a script
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


class _Shared:
    """What many runs have in common, kept once: keys of scores and the steps of curves, each by its place.

    Args:
        most: points of a curve.
    """

    def __init__(self, most: int) -> None:
        self.keys: dict[str, int] = {}
        self.steps: dict[tuple[int, ...], int] = {}
        self._most = most

    def key(self, name: str) -> int:
        """The place of a score's key."""
        return self.keys.setdefault(name, len(self.keys))

    def curve(self, points: Points) -> list[object] | None:
        """The place of its steps, and its values; None of no points."""
        if not points:
            return None
        steps, values = zip(*thinned(points, self._most), strict=True)
        return [self.steps.setdefault(steps, len(self.steps)), [_rounded(value) for value in values]]


def points_of(runs: int) -> int:
    """Of a curve at most, on a page over so many runs."""
    return min(_POINTS, max(_FEWEST_POINTS, _POINTS * _RUNS // max(1, runs)))


def thinned(points: Points, most: int) -> Points:
    """At most `most` points: each stands for as many, with their mean, at the last of their steps."""
    length = ceil(len(points) / most) or 1
    sections = [points[begin : begin + length] for begin in range(0, len(points), length)]
    return [(own[-1][0], _mean([value for _, value in own if value is not None])) for own in sections]


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _rounded(value: float | None) -> float | None:
    """Eight digits: the page shows four at most, and rounds to them."""
    return None if value is None else float(f"{value:.8g}")


def collect(found: Found, place: Path) -> Plain:
    """The runs as JSON-compatible data, for a page in the folder `place`.

    Scores name their key by its place in `keys`, curves their steps by their place in `steps`.
    """
    runs = found.runs
    told, names = _told(runs)
    shown = list(told)[:_COLUMNS]
    shared = _Shared(points_of(len(runs)))
    rows = [
        {
            **_row(run, shared),
            "id": os.path.relpath(run.path, place),
            "label": label,
            "page": _page(run.path, place),
            "values": [_text(told[name][at]) for name in shown],
        }
        for at, (run, label) in enumerate(zip(runs, names, strict=True))
    ]
    return {
        "columns": shown,
        "more": list(told)[_COLUMNS:],
        "runs": rows,
        "groups": _groups(runs, rows),
        "keys": [[key, decimals(key)] for key in shared.keys],
        "steps": list(shared.steps),
        "points": points_of(len(runs)),
        "broken": found.broken,
    }


def _told(runs: Sequence[RunFiles]) -> tuple[Columns, list[str]]:
    """What tells runs apart, but for the seed, and their short names.

    An evaluation is told from the others of its kind: that it has no loss is no difference to a training.
    """
    told: Columns = {}
    names = [""] * len(runs)
    are = [kind(run) == "evaluation" for run in runs]
    for which in (False, True):
        places = [place for place, one in enumerate(are) if one == which]
        own = [runs[place] for place in places]
        for name, values in columns(own).items():
            all_values = told.setdefault(name, [None] * len(runs))
            for place, value in zip(places, values, strict=True):
                all_values[place] = value
        for place, label in zip(places, labels(own), strict=True):
            names[place] = label
    told.pop("seed", None)
    return told, names


def _text(value: object) -> str:
    return "" if value is None else as_text(value, _WIDTH)


def _page(run: Path, place: Path) -> str | None:
    """The address of a run's own page, relative to this one; None where it has none."""
    page = run / OWN_PAGE
    return f"./{quote(os.fsencode(os.path.relpath(page, place)))}" if page.is_file() else None


def _row(run: RunFiles, shared: _Shared) -> dict[str, object]:
    """What one run says of itself; numbers are None where they are not known."""
    loss, devs, memory = _measured(run.path)
    key = _dev_key(run, devs)
    dev = devs.get(key, ()) if key else ()
    seconds = numbers(run.results.get("seconds") or run.status.get("seconds"))
    return {
        **_state(run),
        "seed": _text(run.config.get("seed")),
        "main": _main(run, shared),
        "dev": [shared.key(key), _dev(key, run, dev)] if key else None,
        "seconds": _rounded(sum(seconds.values())) if seconds else None,
        "memory": memory,
        "curves": [shared.curve(loss), shared.curve(dev)],
    }


def _state(run: RunFiles) -> dict[str, str]:
    """The state in a word, of which the style knows the colour, and what there is to add."""
    state = State.of(run.status)
    word, known, step = state.word, state.known, run.status.get("step")
    if word == "running" and is_alive(run.path) is False:
        word, known = "killed", "interrupted"
    if word != "finished" and isinstance(step, int):
        last = number(at(run.config, "training.max_steps"))
        word += f", step {step:,}" + ("" if last is None else f" of {last:,.0f}")
    began = state.times[0] if run.status.get("started") else ""
    return {
        "state": word,
        "known": known,
        "error": as_text(state.error, _LONGEST),
        "started": began.removeprefix("started ").removesuffix(" UTC"),
    }


def _main(run: RunFiles, shared: _Shared) -> list[object] | None:
    """Key, value, both ends of the interval, and the score before training."""
    key, value = run.main.get("name"), number(run.main.get("value"))
    if not isinstance(key, str) or value is None:
        return None
    before = numbers(run.results.get("baseline")).get(key)
    return [shared.key(key), value, *(interval(run.results, key) or (None, None)), before]


def _dev_key(run: RunFiles, devs: Series) -> str | None:
    """The dev score that selected the checkpoint, else the first."""
    asked = (at(run.results, f"notes.{SELECTED_BY}"), at(run.config, "training.select_by"))
    return next((key for key in asked if isinstance(key, str)), next(iter(devs), None))


def _dev(key: str, run: RunFiles, points: Points) -> float | None:
    """The dev score of the model; of one that is still trained, the last."""
    last = points[-1][1] if points else None
    return run.scores.get(key, last)


_Stamps = tuple[tuple[int, int] | None, ...]
_Measured = tuple[Points, Series, float | None]
_known: dict[Path, tuple[_Stamps, _Measured]] = {}  # of each run only the last, however long it is watched


def _measured(run: Path) -> _Measured:
    """Training loss, dev scores by key, and most bytes on the device, as far as they can be read."""
    stamps = _stamps(run)
    if run not in _known or _known[run][0] != stamps:
        _known[run] = stamps, _read(run)
    return _known[run][1]


def _stamps(run: Path) -> _Stamps:
    """Size and time of the files of `_read`: while they stay, they need not be read again."""
    found = []
    for name in (_METRICS, _SPEED):
        try:
            seen = (run / name).stat()
            found.append((seen.st_size, seen.st_mtime_ns))
        except OSError:
            found.append(None)
    return tuple(found)


def _read(run: Path) -> _Measured:
    try:
        metrics = Metrics.read(run / _METRICS, holding=(_LOSS_LINE, _DEV_LINE))
        memory = Speed.read(run / _SPEED).memory
    except OSError:
        return (), {}, None
    return metrics.of("train").get("loss", ()), metrics.of("dev"), memory


def _groups(runs: Sequence[RunFiles], rows: Sequence[dict[str, object]]) -> list[Plain]:
    """Runs that are equal in everything but the seed, with mean and spread of their scores.

    Of several runs of one seed only the last counts, for they measure nothing twice. Each run is told its
    group, `group`, by the place of that.
    """
    alike: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        if run.config:
            own = {key: value for key, value in run.config.items() if key not in ("schema", "seed")}
            alike.setdefault(config_hash(own), []).append(place)
    alike = {name: own for name, own in alike.items() if len({rows[place]["seed"] for place in own}) > 1}
    named = labels([runs[own[0]] for own in alike.values()], without=("seed",))
    found = []
    for label, (name, places) in zip(named, alike.items(), strict=True):
        for place in places:
            rows[place]["group"] = len(found)
        found.append({"id": name[:12], "label": label, **_spreads([rows[place] for place in places])})
    _mark([*found, *(row for row in rows if "group" not in row)])
    return found


def _spreads(rows: Sequence[Plain]) -> Plain:
    """Of each number of some runs: its mean, standard deviation and n, over seeds.

    A run without a main score has not ended: its dev score is of another step than that of the others.
    """
    scored = {row["seed"]: row for row in rows if row["main"]}.values()
    return {
        "scores": {row["seed"]: row["main"][1] for row in scored},
        "main": _spread((row["main"][0], row["main"][1]) for row in scored),
        "before": _spread((row["main"][0], row["main"][4]) for row in scored),
        "dev": _spread(tuple(row["dev"]) for row in scored if row["dev"]),
    }


def _spread(scores: Iterable[tuple[int, float | None]]) -> list[object] | None:
    """Key, mean, standard deviation and n of one score; None where there is none, or where keys differ."""
    found = [(key, value) for key, value in scores if value is not None]
    spread = Spread.of([value for _, value in found])
    if spread is None or len({key for key, _ in found}) != 1:
        return None
    return [found[0][0], spread.mean, spread.sd, spread.n]


def _mark(rows: list) -> None:
    """Give runs and groups of seeds that lead by one main score their `standing`, by the rule of a sweep."""
    for key in {row["main"][0] for row in rows if row["main"]}:
        alike = [row for row in rows if row["main"] and row["main"][0] == key]
        best, *others = sorted(alike, key=lambda row: -row["main"][1])
        ties = [tied(*_scores(best), *_scores(other)) for other in others]
        if any(tie is not None for tie in ties):
            best["standing"] = "tied for the best" if any(ties) else "best"
        for other in compress(others, ties):
            other["standing"] = best["standing"]


def _scores(row: Plain) -> tuple[dict[str, float], Ends]:
    """The main score by seed; of one run also the ends of its interval over rows, where there is one."""
    if "scores" in row:
        return row["scores"], None
    _, value, low, high, _ = row["main"]
    return {row["seed"]: value}, None if low is None else (low, high)


def _counted(rows: Sequence[Plain]) -> str:
    """`3 runs: 2 finished, 1 running`."""
    words = Counter(str(row["state"]).partition(",")[0] for row in rows)
    said = ", ".join(f"{count:,} {word}" for word, count in words.most_common())
    return f"{len(rows):,} run{'s' if len(rows) != 1 else ''}: {said}" if rows else "no run yet"
