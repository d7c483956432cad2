"""How the jobs of a sweep ended: table, CSV, JSON and plots."""

import csv
import io
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from embedrun.console import clean, fitted, room, score_text, spread_text, wrapped
from embedrun.errors import INTERRUPTED, TERMINATED
from embedrun.evaluation.seeds import Spread, tied
from embedrun.files import Plain, publish, read_json, to_json
from embedrun.report.diff import interval_over_rows
from embedrun.runs.directory import Outcome
from embedrun.runs.reading import SELECTED_BY, RunFiles
from embedrun.table.formats import cell, markdown_escaped

FINISHED, BEFORE, FAILED, STOPPED, WAITING = (
    "finished", "finished before", "failed", "interrupted", "not started",
)  # fmt: skip
_DEV = "_dev/spearman"  # suffix of the dev score that selects, where no key is named


@dataclass(frozen=True)
class Result:
    """The result of one job of a multirun.

    Args:
        number: in the multirun, from 0.
        state: finished, finished before, failed, interrupted, or not started.
        main: key and value of the main score.
        dev: the same of the dev score that selects.
        reason: why it failed; empty otherwise.
        lowest: whether a lower dev score is better.
    """

    number: int
    overrides: tuple[str, ...]
    state: str
    main: tuple[str, float] | None = None
    dev: tuple[str, float] | None = None
    directory: str | None = None
    reason: str = ""
    lowest: bool = False

    @property
    def options(self) -> dict[str, str]:
        """The overrides by option, as they were typed."""
        parts = (override.lstrip("+~").partition("=") for override in self.overrides)
        return {key: value for key, _, value in parts}


Standing = Literal["best", "tied", "worse"]
_SEED = "seed"  # the option that jobs of one group may differ in


@dataclass(frozen=True)
class Group:
    """The jobs of a multirun that differ in nothing but the seed.

    Args:
        number: in the multirun, from 0.
        options: those that differ between groups, as they were typed.
        scores: of the jobs that have one, under the metric of the multirun, by seed.
        mains: the same of the main score, where all jobs have the same.
        rows: where one job has a score, the ends of its 95 % interval over the scored rows, if there is one.
        standing: `tied` of all that are tied for the best, else `best` of one; None where it cannot be told.
    """

    number: int
    jobs: Sequence[Result]
    options: Mapping[str, str]
    scores: Mapping[str, float]
    mains: Mapping[str, float]
    rows: tuple[float, float] | None = None
    standing: Standing | None = None

    @property
    def spread(self) -> Spread | None:
        """Of the scores over seeds; None where there is no score."""
        return Spread.of(list(self.scores.values()))

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of its error bar: a standard deviation over seeds; of one seed, the interval over rows."""
        own = self.spread
        return self.rows if own is None or own.sd is None else (own.mean - own.sd, own.mean + own.sd)


@dataclass(frozen=True)
class Results:
    """All jobs of a multirun, in order.

    `metric` is the key of the score that groups are compared by, None where the jobs have none in common;
    `lowest` is whether a lower one is better.
    """

    jobs: Sequence[Result]
    metric: str | None = field(init=False)
    lowest: bool = field(init=False)

    def __post_init__(self) -> None:
        done = [job for job in self.jobs if job.main is not None or job.dev is not None]
        dev = _common(done, "dev")
        object.__setattr__(self, "metric", _common(done, "main") if dev is None else dev)
        object.__setattr__(self, "lowest", dev is not None and all(job.lowest for job in done))

    def score(self, job: Result) -> float | None:
        """The job's score under `metric`; None where it has none, or one that is undefined."""
        own = [pair[1] for pair in (job.dev, job.main) if pair is not None and pair[0] == self.metric]
        return own[0] if own and math.isfinite(own[0]) else None

    @cached_property
    def groups(self) -> list[Group]:
        """The jobs by everything but the seed, in the order of their first."""
        jobs: dict[frozenset[tuple[str, str]], list[Result]] = {}
        for job in self.jobs:
            recipe = frozenset((key, value) for key, value in job.options.items() if key != _SEED)
            jobs.setdefault(recipe, []).append(job)
        groups = [self._group(number, own) for number, own in enumerate(jobs.values())]
        best = self._first(groups)
        if best is None:
            return groups
        others = [one for one in groups if one.scores and one is not best]
        ties = {one.number: tied(best.scores, best.rows, one.scores, one.rows) for one in others}
        if all(tie is None for tie in ties.values()):
            return groups
        standings: dict[int, Standing] = {
            number: "tied" if tie else "worse" for number, tie in ties.items() if tie is not None
        }
        standings[best.number] = "tied" if any(ties.values()) else "best"
        return [replace(one, standing=standings.get(one.number)) for one in groups]

    def _group(self, number: int, jobs: Sequence[Result]) -> Group:
        scored = {job.options.get(_SEED, ""): job for job in jobs if self.score(job) is not None}
        main = _common([job for job in self.jobs if job.main is not None], "main")
        mains = (
            {}
            if main is None or main == self.metric
            else {seed: job.main[1] for seed, job in scored.items() if job.main is not None}
        )
        alone = next(iter(scored.values())) if len(scored) == 1 else None
        return Group(
            number,
            jobs,
            {key: jobs[0].options.get(key, "") for key in self.swept if key != _SEED},
            {seed: self.score(job) or 0.0 for seed, job in scored.items()},
            mains,
            None if alone is None else self.over_rows(alone),
        )

    def _first(self, groups: Sequence[Group]) -> Group | None:
        """The group with the best mean; the first of equals."""
        scored = [(own.mean, group) for group in groups if (own := group.spread) is not None]
        sign = 1 if self.lowest else -1
        return min(scored, key=lambda pair: sign * pair[0])[1] if scored else None

    def over_rows(self, job: Result) -> tuple[float, float] | None:
        """The ends of the 95 % interval of the job's score under `metric` over the scored rows."""
        if job.directory is None or self.metric is None:
            return None
        return interval_over_rows(RunFiles.read(Path(job.directory), strict=False), self.metric)

    @property
    def best(self) -> Group | None:
        """The group with the best mean, though others may be tied; None where that cannot be told of any."""
        groups = self.groups
        return self._first(groups) if any(group.standing for group in groups) else None

    @property
    def swept(self) -> list[str]:
        """The options whose values differ between jobs."""
        options = [job.options for job in self.jobs]
        keys = dict.fromkeys(key for own in options for key in own)
        return [key for key in keys if len({own.get(key) for own in options}) > 1]

    def counted(self) -> dict[str, int]:
        """Number of jobs in each state, 0 included."""
        states = [job.state for job in self.jobs]
        return {state: states.count(state) for state in (FINISHED, BEFORE, FAILED, STOPPED, WAITING)}


def result(
    number: int,
    overrides: Sequence[str],
    config: Plain,
    outcome: Outcome,
    *,
    before: bool = False,
) -> Result:
    """The result of one job; `before` is whether it had finished in an earlier attempt.

    The directory of the outcome may be that of a failed run.
    """
    training = config.get("training")
    chosen = training if isinstance(training, Mapping) else {}
    main = outcome.main or {}
    found = {} if outcome.error else _results(outcome.directory)
    reason = " ".join((outcome.error or "").split())
    return Result(
        number=number,
        overrides=tuple(overrides),
        state=_state(outcome, reason, before=before),
        main=_pair(main.get("name"), main.get("value")),
        dev=_dev(chosen.get("select_by"), found),
        directory=outcome.directory,
        reason=reason,
        lowest=bool(chosen.get("select_lowest")),
    )


def _state(outcome: Outcome, reason: str, *, before: bool) -> str:
    if not outcome.error:
        return BEFORE if before else FINISHED
    if reason == WAITING:
        return WAITING
    return STOPPED if outcome.code in (INTERRUPTED, TERMINATED) else FAILED


def _common(jobs: Sequence[Result], name: str) -> str | None:
    """The key of this score if all jobs have the same one."""
    pairs = [getattr(job, name) for job in jobs]
    keys = {None if pair is None else pair[0] for pair in pairs}
    return keys.pop() if len(keys) == 1 else None


def _dev(chosen: object, found: Plain) -> tuple[str, float] | None:
    """The score that selected; where the run did not record its key, the one that the configuration names."""
    scores, notes = _mapping(found.get("scores")), _mapping(found.get("notes"))
    known = notes.get(SELECTED_BY) or chosen
    key = known if isinstance(known, str) else next((key for key in scores if key.endswith(_DEV)), "")
    return _pair(key, scores.get(key))


def _pair(key: object, value: object) -> tuple[str, float] | None:
    return (key, float(value)) if isinstance(key, str) and isinstance(value, int | float) else None


def _mapping(found: object) -> Plain:
    return found if isinstance(found, Mapping) else {}


def _results(directory: str | None) -> Plain:
    return {} if directory is None else RunFiles.read(Path(directory), strict=False).results


_RECORD = "sweep.json"
_WIDE = 30  # ratio of largest to smallest value above which the axis is logarithmic


def text(results: Results) -> str:
    """Jobs, groups over seeds, the best group, why jobs failed, and the number in each state."""
    heading, rows = _rows(results)
    groups, reasons = _group_rows(results), "\n".join(_reasons(results))
    words = (*results.swept, "standing")
    right = [column for column, name in enumerate(groups[0]) if name not in words] if groups else ()
    width = room()
    parts = [
        fitted([heading, *rows], width, right=(0,)),
        fitted(groups, width, right=right) if groups else "",
        wrapped("\n".join(verdict(results)), width),
        wrapped(reasons, width),
        counts(results),
    ]
    return clean("\n\n".join(part for part in parts if part))


def way_on(results: Results) -> list[str]:
    """What to type after a multirun, as after one run: the page of all runs, and how the best compare.

    Nothing after one that was interrupted, or where no job has finished.
    """
    done = [job for job in results.jobs if job.state in (FINISHED, BEFORE) and job.directory is not None]
    if not done or any(job.state in (STOPPED, WAITING) for job in results.jobs):
        return []
    places = [Path(str(job.directory)) for job in done]
    if any(place.is_absolute() for place in places):  # where there is a common one whatever the others are
        places = [place.absolute() for place in places]
    folder = Path(os.path.commonpath([place.parent for place in places]))
    sign = 1 if results.lowest else -1
    scored = [(sign * own.mean, group) for group in results.groups if (own := group.spread) is not None]
    first = [group for _, group in sorted(scored, key=lambda pair: pair[0])][:2]
    sides = [[str(job.directory) for job in done if job in group.jobs] for group in reversed(first)]
    sides = [side for side in sides if side]
    if len(sides) < 2:  # seeds alone
        sides = [[str(place)] for place in places[:2]]
    between = ["--"] if any(len(side) > 1 for side in sides) else []
    compare = ["embedrun", "runs", "--diff", *sides[0], *between, *sides[-1]]
    return [
        f"report  {clean(shlex.join(['embedrun', 'report', str(folder)]))}",
        f"next    {clean(shlex.join(compare if len(sides) > 1 else ['embedrun', 'runs', str(folder)]))}",
    ]


def counts(results: Results) -> str:
    """The number of jobs in each state, as text; finished and failed are always shown."""
    found = results.counted()
    shown = [f"{count} {state}" for state, count in found.items() if count or state in ("finished", "failed")]
    return ", ".join(shown)


def begin(folder: Path, command: str, jobs: Sequence[str]) -> None:
    """Record the config hash of each job before the first one starts; the folder is made if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {"schema": 2, "command": command, "jobs": _planned(jobs)}
    publish(folder / _RECORD, to_json(record).encode(), replace=True)


def is_of(folder: Path, command: str, jobs: Sequence[str]) -> bool:
    """Whether a folder belongs to a multirun of the same jobs, given by config hash, in this order."""
    try:
        record = read_json(folder / _RECORD)
        return record["command"] == command and [one["config"] for one in record["jobs"]] == list(jobs)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def write(folder: Path, command: str, jobs: Sequence[str], results: Results) -> None:
    """Write `summary.md`, `summary.csv`, `sweep.json` and the plots over those of before.

    `jobs` are config hashes; the folder is one that `begin` has made.
    """
    best = results.best
    record = {
        "schema": 2,
        "command": command,
        "metric": results.metric,
        "best": None if best is None else best.number,
        "groups": [_group_recorded(group) for group in results.groups],
        "jobs": [{**own, **_recorded(job)} for own, job in zip(_planned(jobs), results.jobs, strict=True)],
    }
    publish(folder / _RECORD, to_json(record).encode(), replace=True)
    publish(folder / "summary.md", _markdown(results).encode(), replace=True)
    publish(folder / "summary.csv", _csv(results).encode(), replace=True)
    draw(results, folder / "plots")


def draw(results: Results, folder: Path) -> None:
    """Plot the groups' scores against each swept option, where at least two groups have a score."""
    metric = results.metric
    scored = [(group, own.mean) for group in results.groups if (own := group.spread) is not None]
    if metric is None or len(scored) < 2:
        return
    from embedrun.plot import Mean, means

    first = next(job for job in results.jobs if results.score(job) is not None)
    rows = [results.over_rows(first), *(group.rows for group, _ in scored)]
    widths = [high - low for low, high in filter(None, rows)]
    for option in scored[0][0].options:
        words = [group.options[option] for group, _ in scored]
        path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', option)}.png"
        numbers = [number for word in words if (number := _number(word)) is not None]
        is_number = len(numbers) == len(words)
        values: Sequence[float | str] = numbers if is_number else words
        points = [
            Mean(value, mean, group.ends, group.standing or "")
            for value, (group, mean) in zip(values, scored, strict=True)
        ]
        means(
            points,
            _bars([group for group, _ in scored]),
            (option, metric),
            path,
            height=max(widths, default=None),
            log=is_number and _spans_wide(numbers),
            order=None if is_number else list(dict.fromkeys(words)),
        )


def _bars(groups: Sequence[Group]) -> str:
    """What the error bars are."""
    seeds = any(len(group.scores) > 1 for group in groups)
    rows = any(group.rows for group in groups)
    own = ["mean and sd over seeds"] if seeds else []
    own += ["one seed: 95 % interval over rows"] if rows else []
    return "; ".join(own)


def _rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """Heading and cells of the table, as text."""
    swept = results.swept
    heading = ["job", *(swept or ["overrides"]), "state", "dev score", "score", "run directory"]
    rows = []
    for job in results.jobs:
        own = [job.options.get(option, "") for option in swept] or [" ".join(job.overrides) or "none"]
        scores = [_score_text(job.dev), _score_text(job.main)]
        rows.append([str(job.number), *own, job.state, *scores, job.directory or "-"])
    return heading, rows


def _reasons(results: Results) -> list[str]:
    return [f"job {job.number}: {job.reason}" for job in results.jobs if job.reason not in ("", job.state)]


def _score_text(pair: tuple[str, float] | None) -> str:
    return "-" if pair is None else f"{pair[0]} {score_text(*pair)}"


def _group_rows(results: Results) -> list[list[str]]:
    """Heading and cells of the table of groups; empty where there is nothing to sum up or to compare."""
    scored = [group for group in results.groups if group.spread is not None]
    if not scored or (len(scored) == 1 and len(scored[0].scores) == 1):
        return []
    main = next((job.main[0] for job in results.jobs if job.main is not None), "")
    has_rows, has_main = (any(part) for part in zip(*((one.rows, one.mains) for one in scored), strict=True))
    has_best = results.best is not None
    rows = [
        [
            *scored[0].options,
            "n",
            str(results.metric),
            *(["95 % over rows"] if has_rows else []),
            *([main] if has_main else []),
            *(["standing"] if has_best else []),
        ]
    ]
    for group in scored:
        own, mains = group.spread, Spread.of(list(group.mains.values()))
        ends = [score_text(str(results.metric), end) for end in group.rows or ()]
        rows.append(
            [
                *group.options.values(),
                str(len(group.scores)),
                _spread_text(str(results.metric), own),
                *([" to ".join(ends) or "-"] if has_rows else []),
                *([_spread_text(main, mains)] if has_main else []),
                *([group.standing or "-"] if has_best else []),
            ]
        )
    return rows


def _spread_text(key: str, spread: Spread | None) -> str:
    return "-" if spread is None else spread_text(key, spread.mean, spread.sd)


def verdict(results: Results, most: int | None = None) -> list[str]:
    """The best group or those tied for it, `most` by name, and by which rule; or why none is."""
    scored = [group for group in results.groups if group.spread is not None]
    best = results.best
    if len(scored) < 2:
        return []
    if best is None:
        return [
            f"no best by {results.metric}: one seed and no interval over rows; seed=1,2,3 gives each a spread"
        ]
    first = [best, *(group for group in scored if group.standing == "tied" and group is not best)]
    named = [
        f"{_named(group)}, {_spread_text(str(results.metric), group.spread)} (n = {len(group.scores)})"
        for group in first[:most]
    ]
    named += [f"and {len(first) - len(named)} more"] if len(first) > len(named) else []
    lines = [f"{'best' if len(first) == 1 else 'tied for the best'} by {results.metric}: {'; '.join(named)}"]
    judged = [group for group in scored if group.standing is not None and group is not best]
    pairs = [min(len(group.scores), len(best.scores)) > 1 for group in judged]
    if any(pairs):
        lines.append(
            "several seeds: tied where 0 is in the 95 % interval of the difference (paired t over the seeds, "
            "else Welch's)"
        )
    if not all(pairs):
        lines.append(
            "one seed: tied where the other's score is in its 95 % interval over rows, which leaves out "
            "other seeds"
        )
    return lines


def _named(group: Group) -> str:
    return " ".join(f"{key}={value}" for key, value in group.options.items())


def _markdown(results: Results) -> str:
    heading, rows = _rows(results)
    tables = [_markdown_table(table) for table in ([heading, *rows], _group_rows(results)) if table]
    below = [markdown_escaped(text) for text in (*verdict(results), *_reasons(results))]
    return "\n\n".join([*tables, *below, counts(results)]) + "\n"


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(markdown_escaped(text) for text in row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def _csv(results: Results) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    swept = results.swept
    names = ["job", *swept, "state", "dev_key", "dev", "main_key", "main", "directory", "reason"]
    writer.writerow(map(cell, [*names, "group", "group_n", "group_mean", "group_sd", "group_standing"]))
    groups = {job.number: group for group in results.groups for job in group.jobs}
    for job in results.jobs:
        values = [job.options.get(option, "") for option in swept]
        scores = [*(job.dev or ("", "")), *(job.main or ("", ""))]
        row = [job.number, *values, job.state, *scores, job.directory or "", job.reason]
        writer.writerow(map(cell, [*row, *_group_cells(groups[job.number])]))
    return out.getvalue()


def _group_cells(group: Group) -> list[object]:
    own = group.spread
    mean, sd = (None, None) if own is None else (own.mean, own.sd)
    shown = ["" if value is None else value for value in (mean, sd, group.standing)]
    return [group.number, len(group.scores), *shown]


def _group_recorded(group: Group) -> Plain:
    main = Spread.of(list(group.mains.values()))
    return {
        "options": dict(group.options),
        "jobs": [job.number for job in group.jobs],
        "score": None if group.spread is None else asdict(group.spread),
        "main": None if main is None else asdict(main),
        "interval_over_rows": None if group.rows is None else list(group.rows),
        "standing": group.standing,
    }


def _planned(jobs: Sequence[str]) -> list[Plain]:
    return [{"number": number, "config": own} for number, own in enumerate(jobs)]


def _recorded(job: Result) -> Plain:
    return {
        "overrides": list(job.overrides),
        "state": job.state,
        "main": None if job.main is None else {"name": job.main[0], "value": job.main[1]},
        "dev": None if job.dev is None else {"name": job.dev[0], "value": job.dev[1]},
        "directory": job.directory,
        "reason": job.reason or None,
    }


def _number(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _spans_wide(numbers: Sequence[float]) -> bool:
    return min(numbers) > 0 and max(numbers) > _WIDE * min(numbers)
