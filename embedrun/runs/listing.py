"""The runs below some folders, as data and as a table."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from embedrun.config.check import alike
from embedrun.config.decides import decides
from embedrun.console import duration, fitted, number, numbers, score_text, wrapped
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, is_alive
from embedrun.runs.reading import MARKS, RunFiles, as_text, flattened, json_rows, some

_DEEPEST = 8  # who names a whole disk by mistake is not to wait for all of it
_COLUMNS = 3  # options in columns of their own
_WIDTH = 28  # characters of an option's value
_NAMED = 12  # options that are named below the table


@dataclass(frozen=True)
class Found:
    """What lies below some folders: runs in the order in which they began, and why others cannot be read."""

    runs: list[RunFiles]
    broken: list[str]


def find(folders: Sequence[Path]) -> Found:
    """Every run in or below the folders, once."""
    runs: dict[Path, RunFiles] = {}
    broken: list[str] = []

    def report(fault: OSError) -> None:
        broken.append(f"{fault.filename}: cannot be looked into ({fault.strerror})")

    for path in chain.from_iterable(below(folder, problem=report) for folder in folders):
        try:
            runs.setdefault(path.resolve(), RunFiles.read(path))
        except DataError as fault:
            broken += fault.problems
    ordered = sorted(runs.values(), key=lambda run: str(run.status.get("started", "")))
    return Found(ordered, list(dict.fromkeys(broken)))


def below(
    folder: Path, *, without: Collection[str] = (), problem: Callable[[OSError], None] | None = None
) -> Iterator[Path]:
    """The run directories in a folder and at most `_DEEPEST` below it, without links and hidden folders."""
    for place, names, files in os.walk(folder, onerror=problem):
        is_run = any(mark in files for mark in MARKS)
        if is_run:
            yield Path(place)
        if is_run or len(Path(place).relative_to(folder).parts) == _DEEPEST:
            names.clear()
        names[:] = sorted(name for name in names if not (name.startswith(".") or name in without))


def kind(run: RunFiles) -> str:
    """`training`, `evaluation`, or `trial` of a search."""
    if run.path.resolve().parent.parent.name == "tune":
        return "trial"
    return "evaluation" if "model" in run.config and "training" not in run.config else "training"


def filters(texts: Sequence[str], command: str) -> tuple[dict[str, list[str]], list[str]]:
    """`Wanted.where` of what was typed as `--filter KEY=A,B`, and problems; `command` is for these."""
    where, problems = {}, []
    for text in texts:
        key, equals, value = text.partition("=")
        where[key.strip()] = value.split(",")
        if not (equals and key.strip()):
            problems.append(f"{command}: --filter: expected KEY=VALUE, such as state=running, got {text!r}")
    return where, problems


@dataclass(frozen=True)
class Wanted:
    """Which of the runs are listed, and how.

    `where` has the values by column of which a run must have one. `sort` is a column, of scores the highest
    first; None: as they began. `limit` takes the first of a sorted list, else those that began last.
    """

    where: Mapping[str, Collection[str]] = field(default_factory=dict)
    sort: str | None = None
    reverse: bool = False
    limit: int | None = None
    columns: Sequence[str] = ()

    def of(self, runs: Sequence[RunFiles]) -> list[RunFiles]:
        """The runs that are listed, in order."""
        refuse_unknown(runs, [*self.where, *filter(None, [self.sort]), *self.columns], "embedrun runs")
        kept = [run for run in runs if all(cell(run, key) in values for key, values in self.where.items())]
        if self.sort:
            kept = _sorted(kept, self.sort)
        if self.reverse:
            kept.reverse()
        if self.limit is None:
            return kept
        return kept[: self.limit] if self.sort or self.reverse else kept[-self.limit :]


_OF_ALL = ("name", "kind", "state", "started", "score")  # columns that every run has, beside its own


def _columns_of(run: RunFiles) -> Plain:
    of_all = (run.config.get("name"), kind(run), run.state, run.status.get("started"), run.main.get("value"))
    return {**flattened(run.config), **run.scores, **run.choices, **dict(zip(_OF_ALL, of_all, strict=True))}


def value_of(run: RunFiles, key: str) -> object:
    """What a run has in a column; None for none."""
    return _columns_of(run).get(key)


def refuse_unknown(runs: Sequence[RunFiles], keys: Sequence[str], command: str) -> None:
    """Raise a `ConfigError` for every column that no run has; `command` is for its message."""
    known = {key for run in runs for key in _columns_of(run)}
    if runs and (unknown := [key for key in dict.fromkeys(keys) if key not in known]):
        problem = "no run here has a column of this name"
        near = {key: (alike(key, known) or "").partition("=")[0] for key in unknown}
        hints = {key: f"; did you mean '{near[key]}'?" if near[key] in known else "" for key in unknown}
        raise ConfigError([f"{command}: {key}: {problem}{hints[key]}" for key in unknown])


def cell(run: RunFiles, key: str) -> str:
    """The value of a column as text; `-` for none."""
    value = value_of(run, key)
    if key == "started":
        return _started(run.status)
    if isinstance(value, int | float) and (key == "score" or key in run.scores):
        return score_text(str(run.main.get("name")) if key == "score" else key, value)
    return _value_text(value)


def _value_text(value: object) -> str:
    return "-" if value is None else as_text(value, _WIDTH)


def _sorted(runs: Sequence[RunFiles], key: str) -> list[RunFiles]:
    """By numbers, then by words, then those without a value; scores from the highest on."""
    sign = -1 if any(key == "score" or key in run.scores for run in runs) else 1

    def order(run: RunFiles) -> tuple[int, float, str]:
        value = value_of(run, key)
        if (measured := number(value)) is not None:
            return 0, sign * measured, ""
        return (2, 0.0, "") if value is None else (1, 0.0, str(value))

    return sorted(runs, key=order)


def data(contents: Found, wanted: Wanted) -> Plain:
    """The list as JSON-compatible data."""
    listed = wanted.of(contents.runs)
    differing = options(listed)
    differing_of = [{key: values[place] for key, values in differing.items()} for place in range(len(listed))]
    return {"runs": list(map(_data_of, listed, differing_of)), "broken": contents.broken}


def _data_of(run: RunFiles, differing: Plain) -> Plain:
    running = run.state == "running"
    return {
        "directory": str(run.path),
        "kind": kind(run),
        "state": run.status.get("state"),
        "alive": is_alive(run.path) if running else None,
        "experiment": run.config.get("name"),
        **{key: run.status.get(key) for key in ("started", "heartbeat", "ended", "error")},
        "choices": dict(run.choices),
        "options": differing,
        "main": run.main or None,
        "progress": progress(run) if running else None,
    }


HEADINGS = {"training": "trainings", "evaluation": "evaluations", "trial": "trials of searches"}


def table(contents: Found, now: datetime, wanted: Wanted, width: int | None) -> str:
    """The list as text: a line for each run, of at least one, and the names of further options that differ.

    The age of a heartbeat is counted from `now`, which needs a time zone.
    """
    listed = wanted.of(contents.runs)
    if not listed:
        return f"none of {len(contents.runs)} runs is as asked for"
    tables = {}
    for name, heading in HEADINGS.items():
        if runs := [run for run in listed if kind(run) == name]:
            tables[heading] = _chosen(runs, wanted, width) if wanted.columns else _table(runs, now, width)
    parts = (
        [f"{heading}:\n{text}" for heading, text in tables.items()] if len(tables) > 1 else [*tables.values()]
    )
    if len(listed) < len(contents.runs):
        parts.append(f"{len(listed)} of {len(contents.runs)} runs")
    return "\n\n".join(parts)


def _chosen(runs: Sequence[RunFiles], wanted: Wanted, width: int | None) -> str:
    cells = [[str(run.path), *(cell(run, key) for key in wanted.columns)] for run in runs]
    values = [[value_of(run, key) for run in runs] for key in wanted.columns]
    right = [
        place
        for place, column in enumerate(values, 1)
        if all(value is None or number(value) is not None for value in column)
    ]
    return fitted([["run", *wanted.columns], *cells], width, right=right)


def _table(runs: Sequence[RunFiles], now: datetime, width: int | None) -> str:
    differing = columns(runs)
    if all(run.choices.get("experiment") in (None, run.config.get("name")) for run in runs):
        differing.pop("experiment", None)  # a column of all lists already
    many = sum(key in choices(runs) for key in differing) + _COLUMNS  # `columns` has the choices first
    shown, rest = list(differing)[:many], list(differing)[many:]
    cells = [
        [
            *(str(run.path), _state(run, now), str(run.config.get("name", "-")), _started(run.status)),
            *(_value_text(differing[key][place]) for key in shown),
            *(str(run.main.get("name") or "-"), cell(run, "score")),
        ]
        for place, run in enumerate(runs)
    ]
    heading = ["run", "state", "experiment", "started", *shown, "main score", "value"]
    lines = fitted([heading, *cells], width, right=[len(heading) - 1])
    note = f"also different: {some(rest, _NAMED)} (--diff A B shows two runs)"
    return f"{lines}\n\n{wrapped(note, width)}" if rest else lines


def progress(run: RunFiles) -> Plain:
    """How far a running run has come, from `status.json` and the end of `metrics.jsonl`.

    What is not known is None. `left` are seconds until the last of the optimizer `steps`, as long as those so
    far took, dev scores counted; `dev` is the last dev score, of its first key, `metric`, at step `scored`.
    """
    step, steps = run.status.get("step"), run.status.get("steps")
    taken = numbers(run.status.get("seconds")).get("train")
    left = round((steps - step) * taken / step, 1) if step and steps and taken is not None else None
    metric, dev, scored = _last_dev(run.path / "metrics.jsonl")
    return {"step": step, "steps": steps, "left": left, "metric": metric, "dev": dev, "scored": scored}


_TAIL = 1 << 18  # bytes at the end of the metrics in which the last dev score is looked for


def _last_dev(path: Path) -> tuple[str | None, float | None, int | None]:
    last: tuple[str | None, float | None, int | None] = (None, None, None)
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return last
    for row in json_rows(lines):
        name, value, step = row.get("name"), number(row.get("value")), row.get("step")
        if row.get("split") == "dev" and number(step) and value is not None and last[0] in (None, name):
            last = name, value, step
    return last


_FRESH = 120  # seconds: a heartbeat of a run that says its steps is shown when it is older


def _state(run: RunFiles, now: datetime) -> str:
    if run.state != "running":
        return run.state or "no status yet"
    so_far, was_killed = progress(run), is_killed(run)
    words = ["killed" if was_killed else "running"]
    if so_far["step"] is not None:
        words += _progress_words({**so_far, "left": None} if was_killed else so_far)  # it takes no more time
    if (beat := _time(run.status.get("heartbeat"))) is not None:
        age = max(0, int((now - beat).total_seconds()))
        if was_killed or so_far["step"] is None or age > _FRESH:
            words.append(f"last heartbeat {duration(age)} ago")
    return ", ".join(words)


def _progress_words(so_far: Plain) -> list[str]:
    words = [steps_text(so_far["step"], so_far["steps"])]
    if so_far["left"] is not None:
        words.append(f"{duration(so_far['left'])} left")
    if so_far["dev"] is not None:
        words.append(f"dev {score_text(str(so_far['metric']), so_far['dev'])} at {so_far['scored']:,}")
    return words


def steps_text(step: int, steps: int | None) -> str:
    """`step 250 of 1,000`; without the last where that is not known."""
    return f"step {step:,}" + ("" if steps is None else f" of {steps:,}")


def is_killed(run: RunFiles) -> bool:
    """Whether a run says that it is running, and its process is gone."""
    return run.state == "running" and is_alive(run.path) is False


def _started(status: Plain) -> str:
    started = _time(status.get("started"))
    return "-" if started is None else f"{started:%Y-%m-%d %H:%M}"


def _time(text: Any) -> datetime | None:
    """ISO 8601 as local time, UTC by default; None where the text is no time."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone()
    except (TypeError, ValueError, OverflowError):
        return None


_FIRST = "experiment"  # the group that chooses most of the others
_IN_LABEL = 4  # options in a label
_LABEL_WIDTH = 40  # characters of a value in a label

Columns = dict[str, list[object]]  # by group or option, a value for each run; None where a run has none


def columns(runs: Sequence[RunFiles]) -> Columns:
    """What differs between runs: choices first, then the options that no differing choice explains.

    A choice explains the options of its group, and that of an experiment all; not what somebody has typed.
    """
    chosen, typed = choices(runs), _typed(runs)
    groups = {key for run in runs for key in run.config}
    unexplained = {
        option: values
        for option, values in options(runs).items()
        if _is_typed(option, typed)
        or _varies(values, [names for group, names in chosen.items() if _covers(group, option, groups)])
    }
    return {**chosen, **unexplained}


def choices(runs: Sequence[RunFiles]) -> Columns:
    """The groups whose choices differ, `experiment` first; what is not written down yet is no difference."""
    groups = dict.fromkeys(group for run in runs for group in run.choices if _decides(group) != "nothing")
    return {
        group: [run.choices.get(group) for run in runs]
        for group in sorted(groups, key=_FIRST.__ne__)
        if len({run.choices.get(group) for run in runs if run.config}) > 1
    }


def options(runs: Sequence[RunFiles]) -> Columns:
    """The options that differ, whatever explains it; what a run has not written down yet is no difference."""
    configs = [_decisive(run.config) for run in runs]
    known = [config for config in configs if config]
    keys = dict.fromkeys(key for config in configs for key in config)
    differ = [key for key in keys if any(config.get(key) != known[0].get(key) for config in known)]
    differ.sort(key=lambda key: (key.startswith("evaluation."), -sum(key in config for config in configs)))
    return {key: [config.get(key) for config in configs] for key in differ}


def labels(
    runs: Sequence[RunFiles], shown: Columns | None = None, *, without: Collection[str] = ()
) -> list[str]:
    """A short name for each run among these: `loss=cosent`; with a number where nothing tells it from others.

    By default made of `columns(runs)`: the choices that were typed or that tell apart what those before them
    do not, the run's `name` in the same way, and at most four options; but those in `without`. `shown` are
    other columns, which are all in it.
    """
    names = [_name(run) for run in runs]
    parts = _parts(runs, names, without) if shown is None else shown
    rows = zip(*parts.values(), strict=True) if parts else [()] * len(runs)  # the values of each run
    texts = [
        _label(dict(zip(parts, row, strict=True))) or name for row, name in zip(rows, names, strict=True)
    ]
    return [
        f"{text} ({texts[:place].count(text) + 1})" if texts.count(text) > 1 else text
        for place, text in enumerate(texts)
    ]


def _label(values: Plain) -> str:
    known = {key: as_text(value, _LABEL_WIDTH) for key, value in values.items() if value is not None}
    return ", ".join(f"{key}={text}".removeprefix("name=") for key, text in known.items())


def title(run: RunFiles) -> str:
    """The name of a run on its own, with the choices that were typed beside its experiment."""
    typed = [key for key in _typed([run]) if key in run.choices and key != _FIRST and _decides(key) == "what"]
    return ", ".join([_name(run), *(f"{group}={run.choices[group]}" for group in typed)])


def _parts(runs: Sequence[RunFiles], names: Sequence[str], without: Collection[str]) -> Columns:
    chosen, typed = choices(runs), _typed(runs)
    parts: Columns = {}
    for group, values in chosen.items():
        if group in typed or _varies(values, parts.values()):
            parts[group] = values
    if _varies(names, parts.values()):
        parts = {"name": list(names), **parts}
    rest = [(key, values) for key, values in columns(runs).items() if key not in (*chosen, *without)]
    return parts | dict(rest[:_IN_LABEL])


def _varies(values: Sequence[object], others: Iterable[Sequence[object]]) -> bool:
    """Whether values differ between runs that are equal in all other columns."""
    rows = list(zip(*others, strict=True)) or [()] * len(values)
    return len(set(map(repr, zip(rows, values, strict=True)))) > len(set(map(repr, rows)))


def _covers(group: str, option: str, groups: Collection[str]) -> bool:
    """Whether the preset of a group may set an option; one that is no group of the configuration sets any."""
    inside = group.partition("@")[0].replace("/", ".")
    return option.startswith(f"{inside}.") or inside.partition(".")[0] not in groups


def _is_typed(option: str, typed: Collection[str]) -> bool:
    """Whether an option was typed, or a mapping inside of a group that holds it."""
    return any(option == key or ("." in key and option.startswith(f"{key}.")) for key in typed)


def _typed(runs: Sequence[RunFiles]) -> list[str]:
    words = [override.lstrip("+~").partition("=")[0] for run in runs for override in run.overrides]
    return list(dict.fromkeys(words))


def _name(run: RunFiles) -> str:
    return str(run.config.get("name") or run.path.resolve().name)


def _decides(group: str) -> str:
    return decides(group.partition("@")[0].replace("/", "."))


def _decisive(config: Plain) -> Plain:
    kept = {key: value for key, value in config.items() if key != "schema" and decides(key) != "nothing"}
    return flattened(kept)
