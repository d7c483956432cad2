"""The facts on the page of a run: state, main score, options and data, files."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from embedrun.console import duration, number, numbers, score, short, size
from embedrun.errors import DataError
from embedrun.files import Plain
from embedrun.report.charts import Image, Metrics, Panel, Speed, images, panels
from embedrun.report.scores import (
    HEADINGS,
    ScoredPairs,
    ScoreTable,
    Seen,
    Worst,
    list_of,
    mapping_of,
    seen,
    table,
    worst,
)
from embedrun.runs.directory import to_yaml
from embedrun.runs.listing import title
from embedrun.runs.reading import STAGES, RunFiles

Entries = list[tuple[str, str]]


def at(tree: Plain, path: str) -> object:
    """The value at a dotted path; None where there is none."""
    value: object = tree
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def is_training(config: Plain) -> bool:
    """Whether the configuration is that of `embedrun train`."""
    return isinstance(config.get("training"), Mapping)


def summary(config: Plain, results: Plain, environment: Plain, speed: Speed) -> Entries:
    """What a reader asks first; what the run does not record is left out."""
    own = _training(config, results) if is_training(config) else _evaluation(config)
    for place, stage in enumerate(list_of(environment.get(STAGES))):
        made = dict(_training(mapping_of(mapping_of(stage).get("config")), {}))
        said = f"{made['backbone']}, trained on {made['training data']} with {made['loss']}"
        own.insert(place, (f"stage {place + 1}", said))
    seed = config.get("seed")
    found = [*own, ("seed", "" if seed is None else str(seed)), ("machine", _machine(config, environment))]
    found += [("speed", _speed(speed)), ("time", _time(results))]
    return [(name, text) for name, text in found if text]


def environment_entries(environment: Plain) -> Entries:
    """Versions and machine, without what the page says elsewhere."""
    code = environment.get("code")
    found = [("command as typed", str(environment.get("command") or ""))]
    if isinstance(code, Mapping) and code.get("commit"):
        dirty = ", with changes that are not in it" if code.get("dirty") else ""
        found.append(("code", f"commit {code['commit']}{dirty}"))
    found += [(name, str(environment.get(name) or "")) for name in ("python", "platform")]
    found += [("processor", _listed(environment.get("cpu"))), ("CUDA", str(environment.get("cuda") or ""))]
    gpu = environment.get("gpu")
    found.append(("GPU", ", ".join(map(str, gpu)) if isinstance(gpu, list) else ""))
    found.append(("variables", _listed(environment.get("variables"))))
    return [(name, text) for name, text in found if text]


def pairs(values: object) -> Entries:
    """The entries of a mapping as text; of anything else none."""
    return (
        [(str(name), _text(value)) for name, value in values.items()] if isinstance(values, Mapping) else []
    )


def _training(config: Plain, results: Plain) -> Entries:
    scratch = at(config, "backbone.scratch")
    backbone = at(config, "backbone.name")
    if backbone is None and isinstance(scratch, Mapping):
        backbone = f"from scratch: {scratch.get('layers')} layers, width {scratch.get('width')}"
    rows = number(at(results, "counts.train_rows"))
    data = str(at(config, "dataset.name") or "")
    terms = at(config, "loss.terms")
    return [
        (
            "loss",
            " + ".join(_term(key, own) for key, own in terms.items()) if isinstance(terms, Mapping) else "",
        ),
        ("backbone", str(backbone or "")),
        ("layers", _layers(at(config, "backbone.layers"))),
        ("pooling", str(at(config, "pooling.name") or "")),
        ("training data", data if rows is None else f"{data}, {rows:,.0f} rows"),
        ("steps", _steps(config, results)),
        ("learning rate", _rate(config)),
    ]


def _evaluation(config: Plain) -> Entries:
    tasks = at(config, "evaluation.tasks")
    return [
        ("model", str(config.get("model") or "")),
        ("revision", str(config.get("revision") or "")),
        ("layers", _layers(config.get("layers"))),
        ("pooling", str(at(config, "pooling.name") or "")),
        ("evaluation", ", ".join(map(str, tasks)) if isinstance(tasks, Mapping) else ""),
        ("precision", str(at(config, "evaluation.precision") or "")),
    ]


def _layers(kept: object) -> str:
    return "" if kept is None else f"the first {kept}"


def _term(key: str, options: object) -> str:
    weight = number(options.get("weight", 1.0)) if isinstance(options, Mapping) else None
    return key if weight in (None, 1.0) else f"{short(weight)} × {key}"


def _steps(config: Plain, results: Plain) -> str:
    batch, accumulate = number(at(config, "training.batch_size")), number(at(config, "training.accumulate"))
    steps, best = number(at(results, "counts.steps")), number(at(results, "counts.best_step"))
    rows = (
        ""
        if batch is None
        else f"{batch:,.0f}" + (f" × {accumulate:.0f}" if accumulate and accumulate > 1 else "")
    )
    if steps is None:
        return f"of {rows} rows each" if rows else ""
    said = f"{steps:,.0f}" + (f" of {rows} rows" if rows else "")
    return said if best is None or best == steps else f"{said}; the weights are those of step {best:,.0f}"


def _rate(config: Plain) -> str:
    rate, schedule = number(at(config, "training.lr")), at(config, "training.schedule")
    return "" if rate is None else short(rate) + (f", {schedule}" if schedule else "")


def _machine(config: Plain, environment: Plain) -> str:
    gpu = environment.get("gpu")
    precision, asked = at(config, "gpu.precision"), at(config, "gpu.device")
    if isinstance(gpu, list) and gpu and asked != "cpu":
        name = f"{len(gpu)} × {gpu[0]}" if len(gpu) > 1 else str(gpu[0])
    else:
        threads = number(at(environment, "cpu.threads"))
        if threads is None:
            return ""
        name = f"processor, {threads:.0f} thread{'s' if threads != 1 else ''}"
    return name if precision in (None, "auto") else f"{name}, {precision}"


def _time(results: Plain) -> str:
    each = numbers(results.get("seconds"))
    parts = ", ".join(f"{name} {_unbroken(found)}" for name, found in each.items())
    return f"{_unbroken(sum(each.values()))}: {parts}" if len(each) > 1 else parts


def _unbroken(seconds: float) -> str:
    """A duration with blanks at which no line of the page ends."""
    return duration(seconds).replace(" ", "\N{NO-BREAK SPACE}")


def _speed(speed: Speed) -> str:
    rate = "" if speed.rows_per_second is None else f"{speed.rows_per_second:,.0f} rows/s"
    memory = "" if speed.memory is None else f"{size(speed.memory)} on the device at most"
    return ", ".join(part for part in (rate, memory) if part)


def _listed(values: object) -> str:
    return ", ".join(f"{name} {text}" for name, text in pairs(values))


def _text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) < 10**15 else "a very large number"
    return str(value)


_STATES = ("finished", "running", "interrupted", "failed")


@dataclass(frozen=True)
class State:
    """The state of the run.

    Args:
        word: `finished`, `running`, `interrupted` or `failed`; as the file has it for any other.
        known: one of these four, else `unknown`.
        times: `started 2026-01-01 12:00 UTC` and so on.
        error: why it ended badly; empty where there is no more to say.
    """

    word: str
    known: str
    times: tuple[str, ...]
    error: str

    @classmethod
    def of(cls, status: Plain) -> "State":
        """From `status.json`."""
        word = str(status.get("state") or "no status yet")
        keys = [("started", "started"), ("resumed", "resumed"), ("ended", "ended")]
        if word == "running":
            keys.append(("last heartbeat", "heartbeat"))
        times = tuple(f"{label} {_moment(status[key])}" for label, key in keys if status.get(key))
        error = status.get("error")
        said = str(error) if error and error != word else ""
        return cls(word, word if word in _STATES else "unknown", times, said)


def headline(results: Plain, scores: ScoreTable) -> dict[str, str] | None:
    """The `key` of the main score and its cells as `ScoreRow` has them; None where there is none."""
    main = mapping_of(results.get("main"))
    if not main.get("name"):
        return None
    key, value = str(main["name"]), number(main.get("value"))
    cells = {"value": "undefined" if value is None else score(key, value)}
    for suite in scores.suites:
        for row in (*suite.rows, *suite.folded):
            cells = row.cells if row.main else cells
    return {**dict.fromkeys(HEADINGS, ""), **cells, "key": key}


def _moment(text: object) -> str:
    """A time of `status.json` in UTC, to the minute; unchanged where it is no time."""
    try:
        moment = datetime.fromisoformat(str(text))
        moment = moment.astimezone(UTC) if moment.tzinfo is not None else moment
    except (ValueError, OverflowError):
        return str(text)
    return f"{moment:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True)
class Facts:
    """The contents of the page, in its order; what is not known is empty.

    Args:
        directory: of the run, as the user named it.
        headline: its main score; None while there is none.
        source: of the published numbers.
        panels: charts of the values by step.
        worst: the worst-predicted pairs, by set.
        seen: evaluation rows that the model has seen.
        rule: when two texts count as one.
        config, notes: as YAML; the notes are what else decided the scores.
        repeat: the command that makes this run again.
        go_on: the command that resumes it; empty where it has finished.
        environment: versions and machine.
        versions: of packages.
        data: fingerprints of the rows that were read.
        counts: rows and steps.
        remarks: what could not be read or is not shown.
    """

    name: str
    command: str
    directory: str
    state: State
    headline: dict[str, str] | None
    summary: Entries
    scores: ScoreTable
    source: str
    panels: list[Panel]
    images: list[Image]
    worst: list[Worst]
    seen: list[Seen]
    rule: str
    config: str
    overrides: list[str]
    repeat: str
    go_on: str
    environment: Entries
    versions: Entries
    data: Entries
    counts: Entries
    notes: str
    remarks: list[str]


def gather(
    run: RunFiles,
    *,
    predictions: Sequence[ScoredPairs] = (),
    published: Mapping[str, float] | None = None,
    source: str = "",
    remarks: Sequence[str] = (),
) -> Facts:
    """The facts of a run, finished or not.

    Args:
        predictions: on sets of graded pairs, the most important first.
        published: the paper's numbers for this run, by the key of `results.json`.
        source: where they are printed, ``"arXiv:2309.12871, Table 4"``.
        remarks: what the caller could not read.
    """
    config = {key: value for key, value in run.config.items() if key != "schema"}
    said = list(remarks)
    contamination = _contamination(run, said)
    overrides = list(run.overrides)
    metrics = Metrics.read(run.path / "metrics.jsonl")
    if metrics.faults:
        said.append(f"metrics.jsonl: {metrics.faults:,} of its lines cannot be read")
    keys = {one.name: one.key for one in predictions}
    shown = images(run.path / "plots", keys, numbers(run.results.get("scores")))
    state, scores = State.of(run.status), table(run.results, published or {})
    command = "train" if is_training(config) or not config.get("model") else "evaluate"
    return Facts(
        name=title(run),
        command=command,
        directory=str(run.path),
        state=state,
        headline=headline(run.results, scores),
        summary=summary(config, run.results, run.environment, Speed.read(run.path / "speed.jsonl")),
        scores=scores,
        source=source,
        panels=panels(metrics),
        images=shown,
        worst=[found for one in predictions if (found := worst(one)) is not None],
        seen=seen(contamination),
        rule=str(contamination.get("rule") or ""),
        config=to_yaml(config) if config else "",
        overrides=overrides,
        repeat=_repeat(command, overrides, run.environment.get("command")) if config else "",
        go_on="" if state.known == "finished" else f"embedrun resume {shlex.quote(str(run.path))}",
        environment=environment_entries(run.environment),
        versions=[one for one in pairs(run.environment.get("versions")) if one[1] != "–"],
        data=pairs(run.environment.get("data")),
        counts=pairs(run.results.get("counts")),
        notes=_notes(run.results.get("notes")),
        remarks=said,
    )


def _repeat(command: str, overrides: Sequence[str], typed: object) -> str:
    """The command that makes the run again, with the folder of YAML that the run's own command named.

    `typed` is the command line that made the run, as `environment.json` has it.
    """
    try:
        words = shlex.split(typed) if isinstance(typed, str) else []
    except ValueError:  # changed by hand
        words = []
    folder: list[str] = []
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in ("--config-dir", "-cd"):
            folder = ["--config-dir", *([value] if equals else words[place + 1 : place + 2])]
    return shlex.join(["embedrun", command, *overrides, *folder])


def _contamination(run: RunFiles, said: list[str]) -> Plain:
    try:
        return run.contamination
    except DataError:
        said.append("contamination.json cannot be read")
        return {}


def _notes(notes: object) -> str:
    return to_yaml(notes) if isinstance(notes, Mapping) and notes else ""
