"""The runs below some folders, as data and as a table."""

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from embedrun.config.check import alike
from embedrun.config.decides import decides
from embedrun.console import duration, fitted, number, score_text, wrapped
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, is_alive, to_json
from embedrun.runs.reading import MARKS, RunFiles, as_text, flattened

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
    broken: dict[str, None] = {}

    def report(fault: OSError) -> None:
        broken[f"{fault.filename}: cannot be looked into ({fault.strerror})"] = None

    for path in chain.from_iterable(below(folder, problem=report) for folder in folders):
        try:
            runs.setdefault(path.resolve(), RunFiles.read(path))
        except DataError as fault:
            broken |= dict.fromkeys(fault.problems)
    return Found(sorted(runs.values(), key=lambda run: str(run.status.get("started", ""))), list(broken))


def below(
    folder: Path, *, without: Collection[str] = (), problem: Callable[[OSError], None] | None = None
) -> Iterator[Path]:
    """The run directories in a folder and at most `_DEEPEST` folders below it.

    Links, hidden folders and names in `without` are skipped. `problem` is called with why a folder cannot be
    looked into.
    """
    for place, names, files in os.walk(folder, onerror=problem):
        if any(mark in files for mark in MARKS):
            names.clear()
            yield Path(place)
        elif len(Path(place).relative_to(folder).parts) == _DEEPEST:
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

    Args:
        where: values by column that a run must have, one of several.
        sort: a column; of numbers that are no option the highest stand first. None: as they began.
        reverse: the other way round.
        limit: how many, the first of a sorted list, else those that began last.
        columns: instead of those that differ.
    """

    where: Mapping[str, Collection[str]] = field(default_factory=dict)
    sort: str | None = None
    reverse: bool = False
    limit: int | None = None
    columns: Sequence[str] = ()

    def of(self, runs: Sequence[RunFiles]) -> list[RunFiles]:
        """The runs that are listed, in order.

        Raises:
            ConfigError: if no run has one of the columns.
        """
        named = [*self.where, *([self.sort] if self.sort else []), *self.columns]
        refuse_unknown(runs, named, "embedrun runs")
        kept = [run for run in runs if all(cell(run, key) in own for key, own in self.where.items())]
        if self.sort is not None:
            kept = _sorted(kept, self.sort)
        if self.reverse:
            kept.reverse()
        if self.limit is None:
            return kept
        return kept[: self.limit] if self.sort or self.reverse else kept[-self.limit :]


_OF_ALL = ("name", "kind", "state", "started", "score")  # columns that every run has, beside its own


def value_of(run: RunFiles, key: str) -> object:
    """What a run has in a column: a choice, an option, a score by key, or one of `_OF_ALL`; None for none."""
    if key in _OF_ALL:
        return {
            "name": run.config.get("name"),
            "kind": kind(run),
            "state": run.state,
            "started": run.status.get("started"),
            "score": run.main.get("value"),
        }[key]
    own = run.choices.get(key, run.scores.get(key))
    return flattened(run.config).get(key) if own is None else own


def refuse_unknown(runs: Sequence[RunFiles], keys: Sequence[str], command: str) -> None:
    """Raise a `ConfigError` for every column that no run has; `command` is for its message."""
    known = dict.fromkeys(key for run in runs for key in (*_OF_ALL, *_keys(run)))
    if runs and (unknown := [key for key in dict.fromkeys(keys) if key not in known]):
        said = "no run here has a column of this name"
        raise ConfigError([f"{command}: {key}: {said}{_hint(key, known)}" for key in unknown])


def _hint(key: str, known: Collection[str]) -> str:
    """The column that may be meant, found as an option of training is: `seed` for `training.seed`."""
    found = (alike(key, known) or "").partition("=")[0]
    return f"; did you mean '{found}'?" if found in known else ""


def _keys(run: RunFiles) -> list[str]:
    return [*run.choices, *flattened(run.config), *run.scores]


def cell(run: RunFiles, key: str) -> str:
    """The same as text; `-` for none."""
    value = value_of(run, key)
    if key == "started":
        return _started(run.status)
    if isinstance(value, int | float) and (key == "score" or key in run.scores):
        return score_text(str(run.main.get("name")) if key == "score" else key, value)
    return "-" if value is None else as_text(value, _WIDTH)


def _sorted(runs: Sequence[RunFiles], key: str) -> list[RunFiles]:
    """By numbers, then by words, then those without a value; scores from the highest on."""
    sign = -1 if any(key == "score" or key in run.scores for run in runs) else 1

    def order(run: RunFiles) -> tuple[int, float, str]:
        value = value_of(run, key)
        found = number(value)
        if found is not None:
            return 0, sign * found, ""
        return (2, 0.0, "") if value is None else (1, 0.0, str(value))

    return sorted(runs, key=order)


def data(found: Found, wanted: Wanted | None = None) -> Plain:
    """The list as JSON-compatible data."""
    listed = (wanted or Wanted()).of(found.runs)
    differing = options(listed)
    runs = [
        {
            "directory": str(run.path),
            "kind": kind(run),
            "state": run.status.get("state"),
            "alive": is_alive(run.path) if run.status.get("state") == "running" else None,
            "experiment": run.config.get("name"),
            "started": run.status.get("started"),
            "heartbeat": run.status.get("heartbeat"),
            "ended": run.status.get("ended"),
            "error": run.status.get("error"),
            "choices": dict(run.choices),
            "options": {key: values[place] for key, values in differing.items()},
            "main": run.main or None,
            "progress": asdict(Progress.of(run)) if run.state == "running" else None,
        }
        for place, run in enumerate(listed)
    ]
    return {"runs": runs, "broken": found.broken}


HEADINGS = {"training": "trainings", "evaluation": "evaluations", "trial": "trials of searches"}


def table(found: Found, now: datetime, wanted: Wanted | None = None, width: int | None = None) -> str:
    """The list as text: a line for each run, of at least one, and the names of further options that differ.

    Trainings, evaluations and trials have a table each. The age of a heartbeat is counted from `now`, which
    needs a time zone. `width` is that of `console.fitted`.
    """
    wanted = wanted or Wanted()
    listed = wanted.of(found.runs)
    if not listed:
        return f"none of {len(found.runs)} runs is as asked for"
    kinds = [name for name in HEADINGS if any(kind(run) == name for run in listed)]
    parts = []
    for name in kinds:
        own = [run for run in listed if kind(run) == name]
        heading = f"{HEADINGS[name]}:\n" if len(kinds) > 1 else ""
        parts.append(heading + _table(own, now, wanted, width))
    if len(listed) < len(found.runs):
        parts.append(f"{len(listed)} of {len(found.runs)} runs")
    return "\n\n".join(parts)


def _table(runs: Sequence[RunFiles], now: datetime, wanted: Wanted, width: int | None) -> str:
    if wanted.columns:
        cells = [["run", *wanted.columns]]
        cells += [[str(run.path), *(cell(run, key) for key in wanted.columns)] for run in runs]
        right = [place for place, key in enumerate(wanted.columns, 1) if _is_number(runs, key)]
        return fitted(cells, width, right=right)
    differing = columns(runs)
    if all(run.choices.get("experiment") in (None, run.config.get("name")) for run in runs):
        differing.pop("experiment", None)  # a column of all lists already
    chosen = [key for key in differing if any(key in run.choices for run in runs)]
    other = [key for key in differing if key not in chosen]
    shown, rest = [*chosen, *other[:_COLUMNS]], other[_COLUMNS:]
    cells = [["run", "state", "experiment", "started", *shown, "main score", "value"]]
    for place, run in enumerate(runs):
        values = ["-" if (v := differing[key][place]) is None else as_text(v, _WIDTH) for key in shown]
        start = [str(run.path), _state(run, now), str(run.config.get("name", "-")), _started(run.status)]
        cells.append([*start, *values, str(run.main.get("name") or "-"), cell(run, "score")])
    scored = {row[-2] for row in cells[1:]} - {"-"}
    if width is not None and len(scored) == 1:  # one heading says it
        cells = [[*row[:-2], row[-1]] for row in cells]
        cells[0][-1] = scored.pop()
    lines = fitted(cells, width, right=[len(cells[0]) - 1])
    if not rest:
        return lines
    more = f" and {len(rest) - _NAMED} more" if len(rest) > _NAMED else ""
    note = f"also different: {', '.join(rest[:_NAMED])}{more} (--diff A B shows two runs)"
    return f"{lines}\n\n{wrapped(note, width)}"


def _is_number(runs: Sequence[RunFiles], key: str) -> bool:
    values = [value for run in runs if (value := value_of(run, key)) is not None]
    return bool(values) and all(number(value) is not None for value in values)


@dataclass(frozen=True)
class Progress:
    """How far a running run has come; None for what it has not said yet.

    Args:
        step: optimizer steps done.
        steps: of the whole run.
        left: seconds until the last step, as long as those so far took, dev scores counted.
        dev: the last dev score, of its first key, `metric`, at step `scored`.
    """

    step: int | None = None
    steps: int | None = None
    left: float | None = None
    metric: str | None = None
    dev: float | None = None
    scored: int | None = None

    @classmethod
    def of(cls, run: RunFiles) -> "Progress":
        """From `status.json` and the end of `metrics.jsonl`."""
        step, steps = (_whole(run.status.get(key)) for key in ("step", "steps"))
        seconds = run.status.get("seconds")
        taken = number(seconds.get("train")) if isinstance(seconds, Mapping) else None
        left = None
        if step and steps and taken is not None:
            left = round((steps - step) * taken / step, 1)
        metric, dev, scored = _last_dev(run.path / "metrics.jsonl")
        return cls(step, steps, left, metric, dev, scored)

    def __str__(self) -> str:
        if self.step is None:
            return ""
        of = "" if self.steps is None else f" of {self.steps:,}"
        left = "" if self.left is None else f", {duration(self.left)} left"
        dev = "" if self.dev is None else f", dev {score_text(str(self.metric), self.dev)} at {self.scored:,}"
        return f"step {self.step:,}{of}{left}{dev}"


_TAIL = 1 << 18  # bytes at the end of the metrics in which the last dev score is looked for


def _last_dev(path: Path) -> tuple[str | None, float | None, int | None]:
    """Key, value and step of the last dev score of a trained model, of the first key that has one there."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return None, None, None
    found: tuple[str, float, int] | None = None
    for line in lines:
        try:
            row = json.loads(line)
            name, value, step = row["name"], number(row["value"]), _whole(row["step"])
            dev = row["split"] == "dev"
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if dev and step and value is not None and (found is None or found[0] == name):
            found = str(name), value, step
    return found or (None, None, None)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_FRESH = 120  # seconds: a heartbeat of a run that says its steps is shown when it is older


def _state(run: RunFiles, now: datetime) -> str:
    """The recorded state; of a running run also how far it is, and the age of its heartbeat.

    Where its process is gone, it was `killed`.
    """
    state = str(run.status.get("state", "no status yet"))
    if state != "running":
        return state
    so_far, beat = Progress.of(run), _time(run.status.get("heartbeat"))
    if is_alive(run.path) is False:
        state, so_far = "killed", replace(so_far, left=None)  # it takes no more time
    progress = str(so_far)
    words = [state, *([progress] if progress else [])]
    age = 0.0 if beat is None else (now - beat).total_seconds()
    if beat is not None and (state == "killed" or not progress or age > _FRESH):
        words.append(f"last heartbeat {duration(max(0, int(age)))} ago")
    return ", ".join(words)


def _started(status: Plain) -> str:
    started = _time(status.get("started"))
    return "-" if started is None else f"{started:%Y-%m-%d %H:%M}"


def _time(text: Any) -> datetime | None:
    """ISO 8601 as local time, UTC by default; None where the text is no time, or one out of range."""
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

    A choice explains the options of its group, and that of an experiment all. An option is a column of its
    own where it differs between runs whose choices are equal, and where somebody has typed it.
    """
    chosen = choices(runs)
    typed = {key for run in runs for key in _typed(run)}
    config = {key for run in runs for key in run.config}
    kept: Columns = {}
    for option, values in options(runs).items():
        about = [own for group, own in chosen.items() if _covers(group, option, config)]
        if _is_typed(option, typed) or _varies(values, about):
            kept[option] = values
    return {**chosen, **kept}


def choices(runs: Sequence[RunFiles]) -> Columns:
    """The groups whose choices differ, `experiment` first.

    What a run has not written down yet is no difference. Nor is a choice that gives the same options as
    another: both have one name, that which was typed.
    """
    groups = dict.fromkeys(group for run in runs for group in run.choices if _decides(group) != "nothing")
    differing: Columns = {}
    decisive = [_decisive(run.config) for run in runs]
    for group in sorted(groups, key=_FIRST.__ne__):
        names = _one_name(group, runs, decisive)
        if len({name for name, run in zip(names, runs, strict=True) if run.config}) > 1:
            differing[group] = list(names)
    return differing


def _one_name(group: str, runs: Sequence[RunFiles], decisive: Sequence[Plain]) -> Sequence[str | None]:
    """Each run's choice of a group; of equal options that of the first run that typed it, else the first."""
    names = [run.choices.get(group) for run in runs]
    if len({*names} - {None}) < 2:
        return names
    keys = {key for run in runs for key in run.config}
    parts = [_part(group, name, own, keys) for name, own in zip(names, decisive, strict=True)]
    named: dict[str | None, str | None] = {}
    for place in sorted(range(len(runs)), key=lambda place: group not in _typed(runs[place])):
        named.setdefault(parts[place], names[place])
    return [named[part] for part in parts]


def _part(group: str, name: str | None, options: Plain, keys: set[str]) -> str | None:
    """The options that a group's choice may have set; its name where there are none to compare."""
    if name is None:
        return None
    own = {key: value for key, value in options.items() if _covers(group, key, keys)}
    return to_json(own) if own else name


def options(runs: Sequence[RunFiles]) -> Columns:
    """The options that differ, whatever explains it; what a run has not written down yet is no difference.

    Options of the evaluation come last, those that more runs have come first; else the order is that of the
    configuration.
    """
    own = [_decisive(run.config) for run in runs]
    keys = dict.fromkeys(key for each in own for key in each)
    begun = [each for each in own if each]
    differ = [key for key in keys if any(each.get(key) != begun[0].get(key) for each in begun)]
    differ.sort(key=lambda key: (key.startswith("evaluation."), -sum(key in each for each in own)))
    return {key: [each.get(key) for each in own] for key in differ}


def labels(
    runs: Sequence[RunFiles], shown: Columns | None = None, *, without: Collection[str] = ()
) -> list[str]:
    """A short name for each run among these: `loss=cosent`; with a number where nothing tells it from others.

    By default made of `columns(runs)`: the choices that were typed or that tell apart what those before them
    do not, the run's `name` in the same way, and at most four options; but those in `without`. `shown` are
    other columns, which are all in it. A run that differs from none has its `name`.
    """
    names = [_name(run) for run in runs]
    parts = _parts(runs, names, without) if shown is None else shown
    found = []
    for place, name in enumerate(names):
        texts = {
            key: as_text(values[place], _LABEL_WIDTH)
            for key, values in parts.items()
            if values[place] is not None
        }
        words = [text if key == "name" else f"{key}={text}" for key, text in texts.items()]
        found.append(", ".join(words) or name)
    return [
        f"{label} ({found[:place].count(label) + 1})" if found.count(label) > 1 else label
        for place, label in enumerate(found)
    ]


def title(run: RunFiles) -> str:
    """The name of a run on its own, with the choices that were typed beside its experiment."""
    own = [key for key in _typed(run) if key in run.choices and key != _FIRST]
    typed = [key for key in own if _decides(key) == "what"]
    return ", ".join([_name(run), *(f"{group}={run.choices[group]}" for group in typed)])


def _parts(runs: Sequence[RunFiles], names: Sequence[str], without: Collection[str]) -> Columns:
    found = columns(runs)
    chosen = choices(runs)
    typed = {key for run in runs for key in _typed(run)}
    parts: Columns = {}
    for group, values in chosen.items():
        if group in typed or _varies(values, parts.values()):
            parts[group] = values
    begun = [place for place, run in enumerate(runs) if run.config]  # any other has the name of its folder
    own, *others = ([values[place] for place in begun] for values in (names, *parts.values()))
    if _varies(own, others):
        parts = {"name": list(names), **parts}
    rest = [key for key in found if key not in chosen and key not in without]
    return parts | {key: found[key] for key in rest[:_IN_LABEL]}


def _varies(values: Sequence[object], about: Iterable[Sequence[object]]) -> bool:
    """Whether values differ between runs that are equal in all other columns."""
    first: dict[tuple[object, ...], object] = {}
    others = zip(*about, strict=True)
    return any(first.setdefault(next(others, ()), value) != value for value in values)


def _covers(group: str, option: str, config: set[str]) -> bool:
    """Whether the preset of a group may set an option; one that is no group of the configuration sets any."""
    inside = group.partition("@")[0].replace("/", ".")
    return option.startswith(f"{inside}.") or inside.partition(".")[0] not in config


def _is_typed(option: str, typed: set[str]) -> bool:
    words = option.split(".")
    return any(
        ".".join(words[:count]) in typed for count in range(2 if len(words) > 1 else 1, len(words) + 1)
    )


def _typed(run: RunFiles) -> list[str]:
    """The groups and options that were typed."""
    return list(dict.fromkeys(one.lstrip("+~").partition("=")[0] for one in run.overrides))


def _name(run: RunFiles) -> str:
    return str(run.config.get("name") or run.path.resolve().name)


def _decides(group: str) -> str:
    return decides(group.partition("@")[0].replace("/", "."))


def _decisive(config: Plain) -> Plain:
    kept = {key: value for key, value in config.items() if key != "schema" and decides(key) != "nothing"}
    return flattened(kept)
