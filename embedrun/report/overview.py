"""The page over many runs: a table to sort and filter, curves laid over each other, seeds taken together.

One HTML file that asks for nothing. Its one script and its style are allowed by their hashes; what the runs
say of themselves is data, which the script puts on the page as text, never as HTML.
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from embedrun.console import decimals, number, numbers
from embedrun.errors import ConfigError, DataError
from embedrun.evaluation.seeds import Ends, Spread, tied
from embedrun.files import Plain, as_written
from embedrun.report.page import FILE as RUN_PAGE
from embedrun.report.page import State, assets, save, template
from embedrun.report.scores import Metrics, Speed, interval, thinned
from embedrun.runs.directory import config_hash, now
from embedrun.runs.listing import Columns, Found, columns, find, is_killed, kind, labels, steps_text
from embedrun.runs.reading import SELECTED_BY, RunFiles, as_text, at

FILE = "index.html"
_POINTS = 200  # of a curve
_COLUMNS = 8  # choices and options in columns of their own
_WIDTH = 60  # characters of a value
_LONGEST = 300  # characters of an error
EVERY = 10.0  # seconds between two versions of a page that is watched


def write(folders: Sequence[Path], path: Path, *, reload: float | None = None) -> None:
    """Write the page over all runs in or below some folders.

    With `reload`, in seconds, the page loads itself again that often, for as long as it is written anew.
    """
    listed = find(folders)
    if not listed.runs and reload is None:
        where = ", ".join(map(str, folders))
        raise ConfigError([f"embedrun report: no runs below {where}", *listed.broken])
    title = ", ".join(folder.name or folder.resolve().name for folder in folders)
    save(path, render(collect(listed, path.parent), title=title, reload=reload))


def watch(folders: Sequence[Path], path: Path) -> None:
    """Write the page again and again, until Ctrl-C; a page that is no longer written stops loading itself."""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(EVERY)
            write(folders, path, reload=EVERY)


def render(data: Plain, *, title: str, reload: float | None = None) -> str:
    """The page with these data, as `collect` makes them."""
    return template("overview.html.j2").render(
        title=title,
        counted=_counted(data["runs"]),
        data={**data, "written": now(), "reload": reload},
        broken=data["broken"],
        points=_POINTS,
        **assets(["chart.js", "overview.js"], ["style.css", "overview.css"]),
    )


def collect(listed: Found, folder: Path) -> Plain:
    """The runs as JSON-compatible data, for a page in `folder`; one with a malformed file is only named."""
    runs, rows, broken = [], [], list(listed.broken)
    for run in listed.runs:
        try:
            rows.append(_row(run, folder))
            runs.append(run)
        except DataError as fault:
            broken += fault.problems
    differing, names = _differing(runs)
    shown = list(differing)[:_COLUMNS]
    for place, (row, label) in enumerate(zip(rows, names, strict=True)):
        row |= {"label": label, "values": [_text(differing[name][place]) for name in shown]}
    more = list(differing)[_COLUMNS:]
    return {"columns": shown, "more": more, "runs": rows, "groups": _groups(runs, rows), "broken": broken}


def _differing(runs: Sequence[RunFiles]) -> tuple[Columns, list[str]]:
    # An evaluation is told from the others of its kind: that it has no loss is no difference to a training.
    by_kind: dict[bool, list[int]] = {False: [], True: []}
    for place, run in enumerate(runs):
        by_kind[kind(run) == "evaluation"].append(place)
    differing: Columns = {}
    names: dict[int, str] = {}
    for places in by_kind.values():
        alike = [runs[place] for place in places]
        for name, values in columns(alike).items():
            column = differing.setdefault(name, [None] * len(runs))
            for place, value in zip(places, values, strict=True):
                column[place] = value
        names |= dict(zip(places, labels(alike), strict=True))
    differing.pop("seed", None)
    return differing, [names[place] for place in range(len(runs))]


def _text(value: object) -> str:
    return "" if value is None else as_text(value, _WIDTH)


def _page(run: Path, place: Path) -> str | None:
    page = run / RUN_PAGE
    return f"./{quote(os.fsencode(os.path.relpath(page, place)))}" if page.is_file() else None


def _row(run: RunFiles, folder: Path) -> dict[str, Any]:
    with as_written(run.path, "a run directory as embedrun writes it", "restore its files"):
        metrics, speed = Metrics.read(run.path / "metrics.jsonl"), Speed.read(run.path / "speed.jsonl")
        devs = metrics.of("dev")
        selecting = at(run.results, f"notes.{SELECTED_BY}") or at(run.config, "training.select_by")
        key = selecting or next(iter(devs), "")
        dev = devs.get(key, [])
        seconds = numbers(run.results.get("seconds") or run.status.get("seconds"))
        return {
            **_state(run),
            "id": os.path.relpath(run.path, folder),
            "page": _page(run.path, folder),
            "seed": _text(run.config.get("seed")),
            "main": _main(run),
            # Of the model, else the last.
            "dev": _score(key, run.scores.get(key, dev[-1][1] if dev else None)) if key else None,
            "seconds": sum(seconds.values()) if seconds else None,
            "memory": speed.memory,
            "curves": [
                thinned(points, _POINTS) or None for points in (metrics.of("train").get("loss", []), dev)
            ],
        }


def _score(key: str, value: float | None, **more: object) -> dict[str, object]:
    return {"key": key, "digits": decimals(key), "value": value, **more}


def _state(run: RunFiles) -> dict[str, str]:
    state = State.of(run.status)
    word, known, step = state.word, state.known, run.status.get("step")
    if is_killed(run):
        word, known = "killed", "interrupted"
    if word != "finished" and isinstance(step, int):
        word += f", {steps_text(step, run.status.get('steps'))}"
    began = state.times[0] if run.status.get("started") else ""
    return {
        "state": word,
        "known": known,
        "error": as_text(state.error, _LONGEST),
        "started": began.removeprefix("started ").removesuffix(" UTC"),
    }


def _main(run: RunFiles) -> dict[str, object] | None:
    key, value = str(run.main.get("name")), number(run.main.get("value"))
    if value is None:
        return None
    low, high = interval(run.results, key) or (None, None)
    return _score(key, value, low=low, high=high, before=numbers(run.results.get("baseline")).get(key))


def _groups(runs: Sequence[RunFiles], rows: Sequence[dict[str, object]]) -> list[Plain]:
    alike = _alike(runs)
    names = labels([runs[places[0]] for places in alike.values()], without=("seed",))
    groups = []
    for label, (name, places) in zip(names, alike.items(), strict=True):
        for place in places:
            rows[place]["group"] = len(groups)
        groups.append({"id": name[:12], "label": label, **_spreads([rows[place] for place in places])})
    _mark([*groups, *(row for row in rows if "group" not in row)])
    return groups


def _alike(runs: Sequence[RunFiles]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        config = {key: value for key, value in run.config.items() if key not in ("schema", "seed")}
        places.setdefault(config_hash(config), []).append(place)
    seeds = {name: {_text(runs[place].config.get("seed")) for place in of} for name, of in places.items()}
    return {name: of for name, of in places.items() if len(seeds[name]) > 1}


def _spreads(rows: Sequence[Plain]) -> Plain:
    # A run without a main score has not ended: its dev score is of another step than that of the others. Of
    # several runs of one seed only the last counts, for they measure nothing twice.
    ended = {row["seed"]: row for row in rows if row["main"]}
    main = _spread(row["main"] for row in ended.values())
    before = _spread({**row["main"], "value": row["main"]["before"]} for row in ended.values())
    return {
        "scores": {seed: row["main"]["value"] for seed, row in ended.items()},
        "main": main and {**main, "before": before and before["value"]},
        "dev": _spread(filter(None, (row["dev"] for row in ended.values()))),
    }


def _spread(scores: Iterable[Plain]) -> dict[str, object] | None:
    known = [score for score in scores if score["value"] is not None]
    spread = Spread.of([score["value"] for score in known])
    if spread is None or len({score["key"] for score in known}) != 1:
        return None
    return _score(known[0]["key"], spread.mean, sd=spread.sd, n=spread.n)


def _mark(rows: list) -> None:
    """Give runs and groups of seeds that lead by one main score their `standing`, by the rule of a sweep."""
    by_key: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["main"]:
            by_key.setdefault(row["main"]["key"], []).append(row)
    for alike in by_key.values():
        best, *others = sorted(alike, key=lambda row: -row["main"]["value"])
        ties = [tied(*_scores(best), *_scores(other)) for other in others]
        if ties.count(None) < len(ties):
            best["standing"] = "tied for the best" if any(ties) else "best"
        for other in compress(others, ties):
            other["standing"] = best["standing"]


def _scores(row: Plain) -> tuple[dict[str, float], Ends]:
    if "scores" in row:
        return row["scores"], None
    main = row["main"]
    return {row["seed"]: main["value"]}, None if main["low"] is None else (main["low"], main["high"])


def _counted(rows: Sequence[Plain]) -> str:
    states = Counter(str(row["state"]).partition(",")[0] for row in rows)
    counts = ", ".join(f"{count:,} {state}" for state, count in states.most_common())
    return f"{len(rows):,} run{'s' if len(rows) != 1 else ''}: {counts}" if rows else "no run yet"
