"""How the jobs of a sweep ended: table, CSV, JSON and plots."""

import csv
import io
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

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
_SEED = "seed"  # the option that jobs of one group may differ in
_RECORD = "sweep.json"
_WIDE = 30  # ratio of largest to smallest value above which the axis is logarithmic


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


def result(
    number: int, overrides: Sequence[str], config: Plain, outcome: Outcome, *, before: bool = False
) -> Result:
    """The result of one job; `before` is whether it had finished in an earlier attempt.

    The directory of the outcome may be that of a failed run.
    """
    training = config.get("training") or {}
    main = outcome.main or {}
    reason = " ".join((outcome.error or "").split())
    if not reason:
        state = BEFORE if before else FINISHED
    elif reason == WAITING:
        state = WAITING
    else:
        state = STOPPED if outcome.code in (INTERRUPTED, TERMINATED) else FAILED
    dev = None
    if not reason and outcome.directory is not None:
        dev = _dev(RunFiles.read(Path(outcome.directory), strict=False).results, training.get("select_by"))
    return Result(
        number=number,
        overrides=tuple(overrides),
        state=state,
        main=_pair(main.get("name"), main.get("value")),
        dev=dev,
        directory=outcome.directory,
        reason=reason,
        lowest=bool(training.get("select_lowest")),
    )


def _dev(results: Plain, chosen: object) -> tuple[str, float] | None:
    """The score that selected; where the run did not record its key, the one that the configuration names."""
    scores = results.get("scores") or {}
    key = (results.get("notes") or {}).get(SELECTED_BY) or chosen
    key = key or next((key for key in scores if key.endswith(_DEV)), None)
    return _pair(key, scores.get(key))


def _pair(key: object, value: object) -> tuple[str, float] | None:
    return (key, float(value)) if isinstance(key, str) and isinstance(value, int | float) else None


@dataclass(frozen=True)
class Group:
    """The jobs of a multirun that differ in nothing but the seed.

    Args:
        number: in the multirun, from 0.
        options: those that differ between groups, as they were typed.
        scores: of the jobs that have one, under the metric of the multirun, by seed.
        main: the main score over the same jobs, where it is another and all jobs have the same.
        rows: where one job has a score, the ends of its 95 % interval over the scored rows, if there is one.
        standing: `tied` of all that are tied for the best, else `best` of one and `worse` of the others; None
            where it cannot be told.
    """

    number: int
    jobs: Sequence[Result]
    options: Mapping[str, str]
    scores: Mapping[str, float]
    main: Spread | None = None
    rows: tuple[float, float] | None = None
    standing: str | None = None

    @cached_property
    def spread(self) -> Spread | None:
        """Of the scores over seeds; None where there is no score."""
        return Spread.of(list(self.scores.values()))

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of its error bar: a standard deviation over seeds; of one seed, the interval over rows."""
        spread = self.spread
        if spread is None or spread.sd is None:
            return self.rows
        return spread.mean - spread.sd, spread.mean + spread.sd


class Results:
    """All jobs of a multirun, in order.

    `metric` is the key of the score that groups are compared by, None where the jobs have none in common;
    `lowest` is whether a lower one is better. `main` is the key of the main score, if all have the same.
    """

    def __init__(self, jobs: Sequence[Result]) -> None:
        self.jobs = jobs
        scored = [job for job in jobs if job.main is not None or job.dev is not None]
        dev = _common([job.dev for job in scored])
        self.main = _common([job.main for job in scored if job.main is not None])
        self.metric = _common([job.main for job in scored]) if dev is None else dev
        self.lowest = dev is not None and all(job.lowest for job in scored)

    @cached_property
    def swept(self) -> list[str]:
        """The options whose values differ between jobs."""
        keys = dict.fromkeys(key for job in self.jobs for key in job.options)
        return [key for key in keys if len({job.options.get(key) for job in self.jobs}) > 1]

    @cached_property
    def groups(self) -> list[Group]:
        """The jobs by everything but the seed, in the order of their first."""
        jobs: dict[frozenset[tuple[str, str]], list[Result]] = {}
        for job in self.jobs:
            recipe = frozenset((key, value) for key, value in job.options.items() if key != _SEED)
            jobs.setdefault(recipe, []).append(job)
        groups = [self._group(number, members) for number, members in enumerate(jobs.values())]
        ranking = self._ranked(groups)
        if not ranking:
            return groups
        best = ranking[0]
        ties = {group.number: tied(best.scores, best.rows, group.scores, group.rows) for group in ranking[1:]}
        if all(tie is None for tie in ties.values()):
            return groups
        standings = {number: "tied" if tie else "worse" for number, tie in ties.items() if tie is not None}
        standings[best.number] = "tied" if any(ties.values()) else "best"
        return [replace(group, standing=standings.get(group.number)) for group in groups]

    @property
    def ranking(self) -> list[Group]:
        """The groups that have a score, the best mean first."""
        return self._ranked(self.groups)

    @property
    def best(self) -> Group | None:
        """The group with the best mean, though others may be tied; None where that cannot be told of any."""
        return self.ranking[0] if any(group.standing for group in self.groups) else None

    def over_rows(self, job: Result) -> tuple[float, float] | None:
        """The ends of the 95 % interval of the job's score under `metric` over the scored rows."""
        if job.directory is None or self.metric is None:
            return None
        return interval_over_rows(RunFiles.read(Path(job.directory), strict=False), self.metric)

    def scored(self, jobs: Sequence[Result]) -> dict[str, tuple[Result, float]]:
        """Those of the jobs that have a finite score under `metric`, with it, by seed."""
        pairs = [(job, pair) for job in jobs for pair in (job.main, job.dev) if pair is not None]
        return {
            job.options.get(_SEED, ""): (job, score)
            for job, (key, score) in pairs
            if key == self.metric and math.isfinite(score)
        }

    def _group(self, number: int, jobs: Sequence[Result]) -> Group:
        scored = self.scored(jobs)
        mains = [] if self.main == self.metric else [job.main for job, _ in scored.values()]
        alone = next(iter(scored.values()))[0] if len(scored) == 1 else None
        return Group(
            number,
            jobs,
            {key: jobs[0].options.get(key, "") for key in self.swept if key != _SEED},
            {seed: score for seed, (_, score) in scored.items()},
            Spread.of([pair[1] for pair in mains if pair is not None and pair[0] == self.main]),
            None if alone is None else self.over_rows(alone),
        )

    def _ranked(self, groups: Sequence[Group]) -> list[Group]:
        sign = 1 if self.lowest else -1
        means = [(sign * group.spread.mean, group) for group in groups if group.spread is not None]
        return [group for _, group in sorted(means, key=lambda pair: pair[0])]


def _common(pairs: Sequence[tuple[str, float] | None]) -> str | None:
    """The key of these scores if all have the same one."""
    keys = {None if pair is None else pair[0] for pair in pairs}
    return keys.pop() if len(keys) == 1 else None


def text(results: Results) -> str:
    """Jobs, groups over seeds, the best group, why jobs failed, and the number in each state."""
    jobs, groups, width = _job_rows(results), _group_rows(results), room()
    words = (*results.swept, "standing")
    right = [column for column, name in enumerate(groups[0]) if name not in words] if groups else ()
    parts = [
        fitted(jobs, width, right=(0,)),
        fitted(groups, width, right=right) if groups else "",
        wrapped("\n".join(verdict(results)), width),
        wrapped("\n".join(_reasons(results)), width),
        counts(results),
    ]
    return clean("\n\n".join(part for part in parts if part))


def next_steps(results: Results) -> list[str]:
    """What to type after a multirun: the page of all runs, and how the best two groups compare.

    Nothing after one that was interrupted, or where no job has finished.
    """
    done = [job for job in results.jobs if job.state in (FINISHED, BEFORE) and job.directory is not None]
    if not done or any(job.state in (STOPPED, WAITING) for job in results.jobs):
        return []
    folder = os.path.commonpath([Path(str(job.directory)).absolute().parent for job in done])
    folder = os.path.relpath(folder) if not Path(str(done[0].directory)).is_absolute() else folder
    groups = [[str(job.directory) for job in group.jobs if job in done] for group in results.ranking[:2]]
    groups = [group for group in groups if group]
    if len(groups) < 2:  # seeds alone
        groups = [[str(job.directory)] for job in done[1::-1]]
    follow = ["embedrun", "runs", folder]
    if len(groups) == 2:
        between = ["--"] if max(map(len, groups)) > 1 else []
        follow = ["embedrun", "runs", "--diff", *groups[1], *between, *groups[0]]
    return [
        f"report  {clean(shlex.join(['embedrun', 'report', folder]))}",
        f"next    {clean(shlex.join(follow))}",
    ]


def counts(results: Results) -> str:
    """The number of jobs in each state, as text; finished and failed are always shown."""
    states = [job.state for job in results.jobs]
    shown = [
        state
        for state in (FINISHED, BEFORE, FAILED, STOPPED, WAITING)
        if state in states or state in (FINISHED, FAILED)
    ]
    return ", ".join(f"{states.count(state)} {state}" for state in shown)


def verdict(results: Results, most: int | None = None) -> list[str]:
    """The best group or those tied for it, `most` by name, and by which rule; or why none is."""
    ranking, best = results.ranking, results.best
    if len(ranking) < 2:
        return []
    if best is None:
        return [
            f"no best by {results.metric}: one seed and no interval over rows; seed=1,2,3 gives each a spread"
        ]
    first = [best, *(group for group in ranking[1:] if group.standing == "tied")]
    named = [
        f"{' '.join(f'{key}={value}' for key, value in group.options.items())}, "
        f"{_spread(str(results.metric), group.spread)} (n = {len(group.scores)})"
        for group in first[:most]
    ]
    named += [f"and {len(first) - len(named)} more"] if len(first) > len(named) else []
    lines = [f"{'best' if len(first) == 1 else 'tied for the best'} by {results.metric}: {'; '.join(named)}"]
    judged = [group for group in ranking[1:] if group.standing is not None]
    several = [min(len(group.scores), len(best.scores)) > 1 for group in judged]
    if any(several):
        lines.append(
            "several seeds: tied where 0 is in the 95 % interval of the difference (paired t over the seeds, "
            "else Welch's)"
        )
    if not all(several):
        lines.append(
            "one seed: tied where the other's score is in its 95 % interval over rows, which leaves out "
            "other seeds"
        )
    return lines


def _job_rows(results: Results) -> list[list[str]]:
    """The table of jobs, heading first."""
    rows = [["job", *(results.swept or ["overrides"]), "state", "dev score", "score", "run directory"]]
    for job in results.jobs:
        options = [job.options.get(option, "") for option in results.swept]
        scores = ["-" if pair is None else f"{pair[0]} {score_text(*pair)}" for pair in (job.dev, job.main)]
        options = options or [" ".join(job.overrides) or "none"]
        rows.append([str(job.number), *options, job.state, *scores, job.directory or "-"])
    return rows


def _group_rows(results: Results) -> list[list[str]]:
    """The table of groups, heading first; empty where there is nothing to sum up or to compare."""
    groups, metric = [group for group in results.groups if group.scores], str(results.metric)
    if not groups or (len(groups) == 1 and len(groups[0].scores) == 1):
        return []
    columns = {"n": [str(len(group.scores)) for group in groups]}
    columns[metric] = [_spread(metric, group.spread) for group in groups]
    if any(group.rows for group in groups):
        ends = [[score_text(metric, end) for end in group.rows or ()] for group in groups]
        columns["95 % over rows"] = [" to ".join(pair) or "-" for pair in ends]
    if results.main is not None and any(group.main for group in groups):
        columns[results.main] = [_spread(results.main, group.main) for group in groups]
    if results.best is not None:
        columns["standing"] = [group.standing or "-" for group in groups]
    options = [[*group.options.values()] for group in groups]
    cells = zip(options, *columns.values(), strict=True)
    return [[*groups[0].options, *columns], *([*values, *rest] for values, *rest in cells)]


def _spread(key: str, spread: Spread | None) -> str:
    return "-" if spread is None else spread_text(key, spread.mean, spread.sd)


def _reasons(results: Results) -> list[str]:
    return [f"job {job.number}: {job.reason}" for job in results.jobs if job.reason not in ("", job.state)]


def begin(folder: Path, command: str, hashes: Sequence[str]) -> None:
    """Record the config hash of each job before the first one starts; the folder is made if needed."""
    jobs = [{"number": number, "config": config} for number, config in enumerate(hashes)]
    publish(folder / _RECORD, to_json({"schema": 2, "command": command, "jobs": jobs}).encode(), replace=True)


def is_of(folder: Path, command: str, hashes: Sequence[str]) -> bool:
    """Whether a folder belongs to a multirun of the same jobs, given by config hash, in this order."""
    try:
        record = read_json(folder / _RECORD)
        return record["command"] == command and [job["config"] for job in record["jobs"]] == list(hashes)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def write(folder: Path, command: str, hashes: Sequence[str], results: Results) -> None:
    """Write `summary.md`, `summary.csv`, `sweep.json` and the plots over those of before.

    `hashes` are of the jobs' configurations; the folder is one that `begin` has made.
    """
    record = {
        "schema": 2,
        "command": command,
        "metric": results.metric,
        "best": None if results.best is None else results.best.number,
        "groups": [_group_record(group) for group in results.groups],
        "jobs": [_job_record(config, job) for config, job in zip(hashes, results.jobs, strict=True)],
    }
    publish(folder / _RECORD, to_json(record).encode(), replace=True)
    publish(folder / "summary.md", _markdown(results).encode(), replace=True)
    publish(folder / "summary.csv", _csv(results).encode(), replace=True)
    draw(results, folder / "plots")


def _group_record(group: Group) -> Plain:
    return {
        "options": dict(group.options),
        "jobs": [job.number for job in group.jobs],
        "score": None if group.spread is None else asdict(group.spread),
        "main": None if group.main is None else asdict(group.main),
        "interval_over_rows": None if group.rows is None else list(group.rows),
        "standing": group.standing,
    }


def _job_record(config: str, job: Result) -> Plain:
    scores = {
        name: None if pair is None else {"name": pair[0], "value": pair[1]}
        for name, pair in (("main", job.main), ("dev", job.dev))
    }
    return {
        "number": job.number,
        "config": config,
        "overrides": list(job.overrides),
        "state": job.state,
        **scores,
        "directory": job.directory,
        "reason": job.reason or None,
    }


def _markdown(results: Results) -> str:
    tables = []
    for rows in filter(None, (_job_rows(results), _group_rows(results))):
        lines = [f"| {' | '.join(map(markdown_escaped, row))} |" for row in rows]
        tables.append("\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]))
    below = [markdown_escaped(line) for line in (*verdict(results), *_reasons(results))]
    return "\n\n".join([*tables, *below, counts(results)]) + "\n"


def _csv(results: Results) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ["job", *results.swept, "state", "dev_key", "dev", "main_key", "main", "directory", "reason"]
    writer.writerow(map(cell, [*names, "group", "group_n", "group_mean", "group_sd", "group_standing"]))
    groups = {job.number: group for group in results.groups for job in group.jobs}
    for job in results.jobs:
        group = groups[job.number]
        spread = (None, None) if group.spread is None else (group.spread.mean, group.spread.sd)
        row = [
            job.number,
            *(job.options.get(option, "") for option in results.swept),
            job.state,
            *(job.dev or ("", "")),
            *(job.main or ("", "")),
            job.directory or "",
            job.reason,
            group.number,
            len(group.scores),
            *("" if value is None else value for value in (*spread, group.standing)),
        ]
        writer.writerow(map(cell, row))
    return out.getvalue()


def draw(results: Results, folder: Path) -> None:
    """Plot the groups' scores against each swept option, where at least two groups have a score."""
    groups = [group for group in results.groups if group.scores]
    if results.metric is None or len(groups) < 2:
        return
    from embedrun.plot import Mean, means

    first = next(job for job in results.jobs if results.scored([job]))
    intervals = [results.over_rows(first), *(group.rows for group in groups)]
    widths = [high - low for low, high in filter(None, intervals)]
    bars = ["mean and sd over seeds"] if any(len(group.scores) > 1 for group in groups) else []
    bars += ["one seed: 95 % interval over rows"] if any(group.rows for group in groups) else []
    for option in groups[0].options:
        words = [group.options[option] for group in groups]
        numbers = _numbers(words)
        points = [
            Mean(value, group.spread.mean, group.ends, group.standing or "")
            for value, group in zip(numbers or words, groups, strict=True)
            if group.spread is not None
        ]
        means(
            points,
            "; ".join(bars),
            (option, results.metric),
            folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', option)}.png",
            height=max(widths, default=None),
            log=bool(numbers) and min(numbers) > 0 and max(numbers) > _WIDE * min(numbers),
            order=None if numbers else list(dict.fromkeys(words)),
        )


def _numbers(words: Sequence[str]) -> list[float]:
    """The words as finite numbers; empty where one is none."""
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        return []
    return numbers if all(map(math.isfinite, numbers)) else []
