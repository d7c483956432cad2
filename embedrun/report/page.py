"""The page of one run: what it says of the run, and that as one HTML file without external links."""

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from embedrun.config.mixture import alone
from embedrun.console import clean, duration, numbers, say, score, short, size
from embedrun.errors import ConfigError, is_full
from embedrun.files import Plain, as_written, publish
from embedrun.report.scores import (
    CLEAN,
    HEADINGS,
    Metrics,
    Points,
    ScoredPairs,
    ScoreTable,
    Speed,
    change_lines,
    seen,
    table,
    thinned,
    worst,
)
from embedrun.runs.directory import to_yaml
from embedrun.runs.listing import kind, title
from embedrun.runs.reading import CHANGES, LUCK, STAGES, RunFiles, at

if TYPE_CHECKING:
    from jinja2 import Template

FILE = "report.html"
_PAGES = (".html", ".htm")


def write(folder: Path, output: Path | None = None) -> Path:
    """Write the page of a run, by default to `report.html` in the run directory, and return where it is."""
    from embedrun.report.pairs import scored_pairs

    run = RunFiles.read(folder)
    predictions, remarks = scored_pairs(run)
    path = folder / FILE if output is None else output
    with as_written(folder, "a run directory as embedrun writes it", "restore its files"):
        facts = gather(run, predictions=predictions, remarks=remarks)
    save(path, render(facts))
    return path


def save(path: Path, text: str) -> None:
    """Write a page in place of an older one."""
    try:
        publish(path, text.encode(), replace=True)
    except OSError as fault:
        if is_full(fault):
            raise
        raise ConfigError(
            f"embedrun report: {str(path)!r} cannot be written ({fault.strerror}); name a file with -o FILE"
        ) from fault


def write_or_warn(folder: Path) -> None:
    """Write the page of a run that has ended; any obstacle is logged as one warning and fails nothing."""
    try:
        write(folder)
    except Exception as fault:
        why = " ".join(str(fault).split()) or type(fault).__name__
        say(f"warning: no {FILE}: {why}; embedrun report {folder} tries again")


def place_problems(path: Path | None) -> list[str]:
    """Why a page cannot go to a place that the user named; only what may be an older page is overwritten."""
    if path is None:
        return []
    problem = ""
    if not path.parent.is_dir():
        problem = f"cannot be made: there is no folder {str(path.parent)!r}"
    elif path.exists() and not (path.is_file() and path.suffix.lower() in _PAGES):
        problem = f"exists and is no file that ends in {' or '.join(_PAGES)}"
    return [f"embedrun report: -o: {str(path)!r} {problem}; name a file"] if problem else []


_FOLDER = Path(__file__).resolve().parent


def render(facts: Plain) -> str:
    """The page as text; every text in it is escaped and free of control characters."""
    return template("page.html.j2").render(facts=facts, **assets(["chart.js"], ["style.css"]))


def _json(data: object, **_: object) -> str:  # of the filter `tojson`, which makes it safe in HTML
    return clean(json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def assets(scripts: Sequence[str], styles: Sequence[str]) -> dict[str, object]:
    """The text of one script and one style, and the hashes that a content security policy allows them by."""
    from markupsafe import Markup

    texts = {}
    for name, files in (("script", scripts), ("style", styles)):
        text = "".join((_FOLDER / file).read_text(encoding="utf-8") for file in files)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        texts |= {name: Markup(text), f"{name}_hash": f"sha256-{digest}"}
    return texts


@cache
def template(name: str) -> "Template":
    """A template beside this file; what it writes is escaped and free of control characters."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalized,
    )
    environment.policies["json.dumps_function"] = _json
    return environment.get_template(name)


def _finalized(value: object) -> object:
    """What an expression puts on the page; the output of a macro is escaped already and stays as it is."""
    return value if hasattr(value, "__html__") else clean(str(value))


Entries = list[tuple[str, str]]


def _text_at(tree: Plain, path: str, form: str = "{}") -> str:
    return _filled(form, at(tree, path))


def _filled(form: str, value: object) -> str:
    return "" if value is None else form.format(value)


def summary(config: Plain, results: Plain, environment: Plain, speed: Speed) -> Entries:
    """What a reader asks first of a training or an evaluation; what the run does not record is left out."""
    loss, backbone, data = _recipe(config)
    stages = [_recipe(stage["config"]) for stage in environment.get(STAGES, [])]
    layers = at(config, "backbone.layers") or config.get("layers")
    rate, schedule = at(config, "training.lr"), _text_at(config, "training.schedule", ", {}")
    entries = [
        *(
            (f"stage {place}", f"{backbone}, trained on {data} with {loss}")
            for place, (loss, backbone, data) in enumerate(stages, 1)
        ),
        ("model", _text_at(config, "model")),
        ("revision", _text_at(config, "revision")),
        ("loss", loss),
        ("backbone", backbone),
        ("layers", _filled("the first {}", layers)),
        ("pooling", _text_at(config, "pooling.name")),
        ("training data", data + _text_at(results, "counts.train_rows", ", {:,} rows")),
        ("steps", _steps(config, results)),
        ("on dev", "; ".join(_changed(results))),
        ("weights", _text_at(config, "training.ema", "a moving average, decay {}")),
        ("learning rate", "" if rate is None else f"{short(rate)}{schedule}"),
        ("evaluation", ", ".join(at(config, "evaluation.tasks") or {}) if "model" in config else ""),
        ("seed", _text_at(config, "seed")),
        ("machine", _machine(config, environment)),
        ("speed", _filled("{:,.0f} rows/s", speed.rows_per_second)),
        ("memory", _filled("{} on the device at most", speed.memory and size(speed.memory))),
        ("time", _time(results)),
    ]
    return [(name, text) for name, text in entries if text]


def _recipe(config: Plain) -> tuple[str, str, str]:
    scratch = _text_at(config, "backbone.scratch", "from scratch: {0[layers]} layers, width {0[width]}")
    backbone = _text_at(config, "backbone.name") or scratch
    losses, names = [], []
    for part, alone_ in alone(config):
        by_key = at(alone_, "loss.terms") or {}
        weights = {name: (term or {}).get("weight", 1.0) for name, term in by_key.items()}
        terms = [name if weight == 1 else f"{short(weight)} × {name}" for name, weight in weights.items()]
        dims = at(alone_, "loss.matryoshka.dims")
        cut = f" at {', '.join(map(str, dims))} numbers" if dims else ""
        cut += " at inner layers" if at(alone_, "loss.layers") else ""
        losses.append(f"{part}: {' + '.join(terms)}{cut}" if part else " + ".join(terms) + cut)
        names.append(_text_at(alone_, "dataset.name"))
    return "; ".join(losses), backbone, ", ".join(names)


def _changed(results: Plain) -> list[str]:
    before, after = results.get("baseline") or {}, results.get("scores") or {}
    return change_lines(before, after, results.get(CHANGES) or {})


def _steps(config: Plain, results: Plain) -> str:
    accumulate = _text_at(config, "training.accumulate", " × {}")
    rows = _text_at(config, "training.batch_size") + ("" if accumulate == " × 1" else accumulate)
    steps, best = at(results, "counts.steps"), at(results, "counts.best_step")
    if steps is None:
        return f"of {rows} rows each" if rows else ""
    selected = "" if best in (None, steps) else f"; the weights are those of step {best:,}"
    if luck := results.get(LUCK):
        selected += "; {key} {chosen:.2f} there, {best:.2f} at its best step {best_step:,}".format(**luck)
    return f"{steps:,} of {rows} rows{selected}"


def _machine(config: Plain, environment: Plain) -> str:
    gpus, threads = environment.get("gpu"), _text_at(environment, "cpu.threads")
    if gpus and at(config, "gpu.device") != "cpu":
        name = f"{len(gpus)} × {gpus[0]}" if len(gpus) > 1 else gpus[0]
    else:
        name = threads and f"processor, {threads} thread{'' if threads == '1' else 's'}"
    precision = _text_at(config, "gpu.precision", ", {}").removesuffix(", auto")
    return name and name + precision


def _time(results: Plain) -> str:
    seconds = numbers(results.get("seconds"))
    parts = ", ".join(f"{name} {_unbroken(spent)}" for name, spent in seconds.items())
    return f"{_unbroken(sum(seconds.values()))}: {parts}" if len(seconds) > 1 else parts


def _unbroken(seconds: float) -> str:
    return duration(seconds).replace(" ", "\N{NO-BREAK SPACE}")


_STATES = ("finished", "running", "interrupted", "failed")


@dataclass(frozen=True)
class State:
    """The state of the run, as a `word`; `error` is empty where there is no more to say."""

    word: str
    known: str  # of `_STATES`, else `unknown`
    times: tuple[str, ...]  # `started 2026-01-01 12:00 UTC` and so on
    error: str

    @classmethod
    def of(cls, status: Plain) -> "State":
        """From `status.json`."""
        word = str(status.get("state") or "no status yet")
        keys = ["started", "resumed", "ended", *(["heartbeat"] if word == "running" else [])]
        times = tuple(f"{key} {_moment(status[key])}" for key in keys if status.get(key))
        error = str(status.get("error") or "")
        return cls(word, word if word in _STATES else "unknown", times, "" if error == word else error)


def _moment(text: object) -> str:
    try:
        return f"{datetime.fromisoformat(str(text)).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError):
        return str(text)


def headline(results: Plain, scores: ScoreTable) -> dict[str, str] | None:
    """The `key` of the main score and its cells as `ScoreRow` has them; None where there is none."""
    if not (key := at(results, "main.name")):
        return None
    rows = [row.cells for suite in scores.suites for row in (*suite.rows, *suite.folded) if row.main]
    undefined = {**dict.fromkeys(HEADINGS, ""), "value": "undefined"}
    return {**next(iter(rows), undefined), "key": str(key)}


def gather(run: RunFiles, predictions: Sequence[ScoredPairs] = (), remarks: Sequence[str] = ()) -> Plain:
    """What the page of a run shows, by the names of its template; `remarks` say what could not be read."""
    config = {key: value for key, value in run.config.items() if key != "schema"}
    metrics, state = Metrics.read(run.path / "metrics.jsonl"), State.of(run.status)
    scores = table(run.results)
    faults = f"metrics.jsonl: {metrics.faults:,} of its lines cannot be read"
    keys = {scored.name: scored.key for scored in predictions}
    command = "evaluate" if kind(run) == "evaluation" else "train"
    return {
        "name": title(run),
        "command": command,
        "directory": str(run.path),
        "state": state,
        "headline": headline(run.results, scores),
        "summary": summary(config, run.results, run.environment, Speed.read(run.path / "speed.jsonl")),
        "scores": scores,
        "panels": panels(metrics),
        "images": images(run.path / "plots", keys, numbers(run.results.get("scores"))),
        "worst": [ranked for scored in predictions if (ranked := worst(scored)) is not None],
        "seen": seen(run.contamination),
        "rule": run.contamination.get("rule", ""),
        "config": _yaml(config),
        "overrides": run.overrides,
        "repeat": _repeat(command, run.overrides, run.environment.get("command")) if config else "",
        "go_on": "" if state.known == "finished" else f"embedrun resume {shlex.quote(str(run.path))}",
        "environment": _yaml(run.environment),
        "notes": _yaml(run.results.get("notes")),
        "remarks": [*remarks, faults] if metrics.faults else [*remarks],
    }


def _yaml(data: Plain | None) -> str:
    return to_yaml(dict(data)) if data else ""


def _repeat(command: str, overrides: Sequence[str], typed: str | None) -> str:
    """The command that makes the run again, with the folder of YAML that its command line, `typed`, named."""
    words = shlex.split((typed or "").replace("--config-dir=", "--config-dir "))
    place = words.index("--config-dir") if "--config-dir" in words else len(words)
    return shlex.join(["embedrun", command, *overrides, *words[place : place + 2]])


_MOST_POINTS = 600  # of one line


def chart(title: str, lines: Mapping[str, Points], **more: object) -> Plain:
    """A chart as the script `chart.js` draws it: `lines` are points by name, none without a value.

    `more` may be a `note` beside the title, `shares`, if values are written in percent, and `mark`, a point.
    """
    drawn = [
        {"name": name, "points": thinned(points, _MOST_POINTS)}
        for name, points in lines.items()
        if any(value is not None for _, value in points)
    ]
    return {"title": title, "note": "", "shares": False, "mark": None, **more, "lines": drawn}


_TERM = "loss/"
_ACTIVITY = ("active", "violated", "gradient_share")
_KINDS = ("loss", *_ACTIVITY)


def _by_kind(train: Mapping[str, Points]) -> dict[str, Points]:
    """The values of a mixture's parts beside those of one data set: `nli/loss/angle` as `loss/nli/angle`."""
    renamed = {}
    for name, points in train.items():
        part, _, rest = name.partition("/")
        kind, _, term = rest.partition("/")
        if part not in _KINDS and kind in _KINDS:
            name = f"{kind}/{part}/{term}" if term else f"{kind} of {part}"
        renamed[name] = points
    return renamed


class Panel(NamedTuple):
    """One or more charts that belong together; `about` says what they show and may be empty."""

    title: str
    about: str
    charts: list[Plain]


def panels(metrics: Metrics) -> list[Panel]:
    """The panels of a training run; none of a run without values by step."""
    train = _by_kind(metrics.of("train"))
    dev = [_dev(key, points) for key, points in metrics.of("dev").items() if not key.endswith(CLEAN)]
    terms = {name.removeprefix(_TERM): points for name, points in train.items() if name.startswith(_TERM)}
    activity = {name: points for name, points in train.items() if name.partition("/")[0] in _ACTIVITY}
    others = {
        "learning rate" if name == "lr" else name.replace("_", " "): points
        for name, points in train.items()
        if name.partition("/")[0] not in _KINDS and not name.startswith("loss of ")
    }
    of_parts = {name: points for name, points in train.items() if name.startswith("loss of ")}
    loss = chart("training loss", of_parts or {"training loss": train.get("loss", [])})
    every = [
        Panel("Loss and dev scores", "", [loss, *dev]),
        Panel("Terms of the loss", "Each by itself, before its weight.", _alone(terms)),
        Panel(
            "Comparisons of the terms",
            "Active: the share of a batch's comparisons, or of its rows, that a term can learn from. "
            "Violated: the share of the active comparisons that are the wrong way round. "
            "Gradient share: what the term, its weight included, adds of the gradient at the embeddings.",
            _by_term(activity),
        ),
        Panel("Optimizer", "", _alone(others)),
    ]
    drawn = [panel._replace(charts=[chart for chart in panel.charts if chart["lines"]]) for panel in every]
    return [panel for panel in drawn if panel.charts]


def _by_term(activity: Mapping[str, Points]) -> list[Plain]:
    shares: dict[str, dict[str, Points]] = {}
    for name, points in activity.items():
        word, _, term = name.partition("/")
        shares.setdefault(term, {})[word] = points
    return [chart(term, words, shares=True) for term, words in shares.items()]


def _alone(series: Mapping[str, Points]) -> list[Plain]:
    return [chart(name, {name: points}) for name, points in series.items()]


def _dev(key: str, points: Points) -> Plain:
    trained = [(value, -step) for step, value in points if value is not None and step > 0]
    if not trained:
        return chart(key, {key: points})
    value, step = max(trained)
    return chart(key, {key: points}, note=f"best {score(key, value)} at step {-step:,}", mark=(-step, value))


_CURVES = "curves.png"  # loss and dev score, which the page draws itself
# How the name of a plot ends, and what it shows.
_PLOTS = {
    "_cuts": "Score of vectors that are cut or stored in fewer bytes, with 95 % intervals over rows",
    "_density": "Density of the cosines by human score",
    "_scores": "Cosine against human score, and how both are distributed",
    "_saturation": "How many cosines lie in the saturation zone of the cosine",
}
_WHOLE = {
    "dropout_map": "Related sentences under many dropout masks, on a plane",
    "near": "Scores without rows that are near to training rows, by how near",
}


class Image(NamedTuple):
    """One plot: `data:image/png;base64,...`, the caption and the alternative text."""

    address: str
    caption: str
    alt: str


def images(folder: Path, keys: Mapping[str, str], scores: Mapping[str, float]) -> list[Image]:
    """The plots in a folder, which need not exist, in the order of `keys`: the key of each set's score."""
    plots, order = [], list(keys)
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
    for ending, what in _PLOTS.items():
        if stem.endswith(ending):
            name = stem.removesuffix(ending)
            return f"{what}, {name}", name
    return _WHOLE.get(stem, stem.replace("_", " ")), ""
