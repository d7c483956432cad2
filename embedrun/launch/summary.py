"""How the jobs of a sweep ended: a table of jobs, one of groups over seeds, and the files of both."""

import csv
import io
import math
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

from embedrun.console import clean, fitted, room, score_text, spread_text, wrapped
from embedrun.errors import INTERRUPTED, TERMINATED
from embedrun.evaluation.seeds import Spread, expected_best, tied
from embedrun.files import Plain, publish, read_json, to_json
from embedrun.report.diff import interval_over_rows
from embedrun.runs.directory import Outcome
from embedrun.runs.reading import SELECTED_BY, RunFiles
from embedrun.table.formats import cell, markdown_escaped

FINISHED, BEFORE, FAILED, STOPPED, WAITING = _STATES = (
    "finished", "finished before", "failed", "interrupted", "not started",
)  # fmt: skip
_SEED = "seed"  # the option that jobs of one group may differ in
_RECORD = "sweep.json"

Score = tuple[str, float]  # key and value


@dataclass(frozen=True)
class Result:
    """The result of one job of a multirun."""

    number: int  # in the multirun, from 0
    overrides: tuple[str, ...]
    state: str  # finished, finished before, failed, interrupted, or not started
    main: Score | None = None
    dev: Score | None = None  # that selects
    directory: str | None = None
    reason: str = ""  # why it failed
    lowest: bool = False  # whether a lower dev score is better

    @property
    def options(self) -> dict[str, str]:
        """The overrides by option, as they were typed."""
        parts = (override.lstrip("+~").partition("=") for override in self.overrides)
        return {key: value for key, _, value in parts}

    @property
    def scores(self) -> dict[str, float]:
        """Both by key."""
        return dict(score for score in (self.main, self.dev) if score is not None)

    def interval_over_rows(self, key: str) -> tuple[float, float] | None:
        """The 95 % interval of one of them over the scored rows."""
        run = None if self.directory is None else RunFiles.read(Path(self.directory), strict=False)
        return run and interval_over_rows(run, key)


def result(
    number: int, overrides: Sequence[str], config: Plain, outcome: Outcome, *, before: bool = False
) -> Result:
    """The result of one job; `before` is whether it had finished in an earlier attempt.

    The directory of the outcome may be that of a failed run.
    """
    reason = " ".join((outcome.error or "").split())
    main, dev = outcome.main or {}, None
    if outcome.directory and not reason:
        run = RunFiles.read(Path(outcome.directory), strict=False)
        selected_by = (run.results.get("notes") or {}).get(SELECTED_BY)
        dev = _score(selected_by, run.scores.get(str(selected_by)))
    return Result(
        number=number,
        overrides=tuple(overrides),
        state=_state(reason, outcome.code, before=before),
        main=_score(main.get("name"), main.get("value")),
        dev=dev,
        directory=outcome.directory,
        reason=reason,
        lowest=bool((config.get("training") or {}).get("select_lowest")),
    )


def _state(reason: str, code: int, *, before: bool) -> str:
    if not reason:
        return BEFORE if before else FINISHED
    if reason == WAITING:
        return WAITING
    return STOPPED if code in (INTERRUPTED, TERMINATED) else FAILED


def _score(key: object, value: object) -> Score | None:
    return (key, float(value)) if isinstance(key, str) and isinstance(value, int | float) else None


@dataclass
class Group:
    """The jobs of a multirun that differ in nothing but the seed.

    `standing` is `tied` of all that are tied for the best, else `best` of one and `worse` of the others; None
    where it cannot be told.
    """

    number: int  # in the multirun, from 0
    jobs: Sequence[Result]
    options: Mapping[str, str]  # those that differ between groups, as they were typed
    scores: Mapping[str, float]  # of the jobs that have one under the metric of the multirun, by seed
    main: Spread | None = None  # of the main score, where it is another and all jobs have the same
    rows: tuple[float, float] | None = None  # 95 % interval over the scored rows, of one seed
    standing: str | None = None

    @cached_property
    def spread(self) -> Spread | None:
        """Of the scores over seeds; None where there is no score."""
        return Spread.of(list(self.scores.values()))

    def text(self, metric: str) -> str:
        """The options and the mean of the scores, `training.lr=2, 83.00 ± 2.00 (n = 3)`."""
        options = " ".join(f"{key}={value}" for key, value in self.options.items())
        return f"{options}, {_spread(metric, self.spread)} (n = {len(self.scores)})"


class Results:
    """All jobs of a multirun, in order, and their groups, in the order of the first job of each.

    `metric` is the key of the score that groups are compared by, None where the jobs have none in common;
    `lowest` is whether a lower one is better. `main` is the key of the main score, if all have the same.
    `swept` are the options whose values differ between jobs. `ranking` has the groups with a score, the best
    mean first; `best` is the first of them, though others may be tied, None where that cannot be told.
    """

    def __init__(self, jobs: Sequence[Result]) -> None:
        self.jobs = jobs
        scored = [job for job in jobs if job.scores]
        dev, main = _common([job.dev for job in scored]), _common([job.main for job in scored])
        self.main = _common([job.main for job in scored if job.main])
        self.metric = dev or main
        self.lowest = dev is not None and all(job.lowest for job in scored)
        self.swept = _swept([job.options for job in jobs])
        self.groups = [self._group(number, group) for number, group in enumerate(_by_recipe(jobs))]
        ranked = [group for group in self.groups if group.scores]
        self.ranking = sorted(ranked, key=lambda group: fmean(group.scores.values()), reverse=not self.lowest)
        self.best = self._judged()

    def _group(self, number: int, jobs: Sequence[Result]) -> Group:
        metric, main = str(self.metric), str(self.main)
        scored = [job for job in jobs if math.isfinite(job.scores.get(metric, math.nan))]
        by_seed = {job.options.get(_SEED, ""): job for job in scored}
        mains = [job.scores[main] for job in by_seed.values() if main in job.scores and main != metric]
        return Group(
            number,
            jobs,
            {key: jobs[0].options.get(key, "") for key in self.swept if key != _SEED},
            {seed: job.scores[metric] for seed, job in by_seed.items()},
            Spread.of(mains),
            scored[0].interval_over_rows(metric) if len(by_seed) == 1 else None,
        )

    def _judged(self) -> Group | None:
        """Give each group of the ranking its standing; returns the best."""
        if len(self.ranking) < 2:
            return None
        best, *others = self.ranking
        ties = [tied(best.scores, best.rows, group.scores, group.rows) for group in others]
        for group, tie in zip(others, ties, strict=True):
            group.standing = {None: None, True: "tied", False: "worse"}[tie]
        if all(tie is None for tie in ties):
            return None
        best.standing = "tied" if any(ties) else "best"
        return best


def _swept(jobs: Sequence[Mapping[str, str]]) -> list[str]:
    keys = dict.fromkeys(key for options in jobs for key in options)
    return [key for key in keys if len({options.get(key) for options in jobs}) > 1]


def _by_recipe(jobs: Sequence[Result]) -> Iterable[list[Result]]:
    groups: dict[frozenset[tuple[str, str]], list[Result]] = {}
    for job in jobs:
        options = job.options.items()
        groups.setdefault(frozenset(item for item in options if item[0] != _SEED), []).append(job)
    return groups.values()


def _common(scores: Sequence[Score | None]) -> str | None:
    keys = {score and score[0] for score in scores}
    return keys.pop() if len(keys) == 1 else None


def text(results: Results) -> str:
    """Jobs, groups over seeds, the best group, why jobs failed, and the number in each state."""
    width = room()
    parts = [
        fitted(_job_rows(results), width, right=(0,)),
        _groups_text(results, width),
        wrapped("\n".join(verdict(results)), width),
        wrapped("\n".join(_reasons(results)), width),
        counts(results),
    ]
    return clean("\n\n".join(part for part in parts if part))


def _groups_text(results: Results, width: int | None) -> str:
    rows, words = _group_rows(results), (*results.swept, "standing")
    if not rows:
        return ""
    return fitted(rows, width, right=[column for column, name in enumerate(rows[0]) if name not in words])


def next_steps(results: Results) -> list[str]:
    """What to type after a multirun: the page of all runs, and how the best two groups compare.

    Nothing after one that was interrupted, or where no job has finished.
    """
    done = {job.number: str(job.directory) for job in results.jobs if job.state in (FINISHED, BEFORE)}
    if not done or any(job.state in (STOPPED, WAITING) for job in results.jobs):
        return []
    folder = os.path.relpath(os.path.commonpath([Path(path).absolute().parent for path in done.values()]))
    top = [[done[job.number] for job in group.jobs if job.number in done] for group in results.ranking[:2]]
    next_command = ["embedrun", "runs", *(_compared(*top) if len(top) > 1 else [folder])]
    return [
        f"report  {clean(shlex.join(['embedrun', 'report', folder]))}",
        f"next    {clean(shlex.join(next_command))}",
    ]


def _compared(best: list[str], second: list[str]) -> list[str]:
    between = ["--"] if len(best + second) > 2 else []
    return ["--diff", *second, *between, *best]


def counts(results: Results) -> str:
    """The number of jobs in each state, as text; finished and failed are always shown."""
    states = [job.state for job in results.jobs]
    shown = [state for state in _STATES if state in (FINISHED, FAILED, *states)]
    return ", ".join(f"{states.count(state)} {state}" for state in shown)


_SEVERAL = "several seeds: tied if 0 is in the difference's 95 % interval (paired t over seeds, else Welch's)"
_ONE = "one seed: tied if its 95 % interval contains the other's score; the interval covers rows, not seeds"


def verdict(results: Results, most: int | None = None) -> list[str]:
    """The best group or those tied for it, `most` by name, and by which rule; or why none is."""
    ranking, best = results.ranking, results.best
    if len(ranking) < 2:
        return []
    if best is None:
        return [f"no best by {results.metric}: one seed and no interval over rows; add seed=1,2,3"]
    first = [best, *(group for group in ranking[1:] if group.standing == "tied")]
    named = [group.text(str(results.metric)) for group in first[:most]]
    named += [f"and {len(first) - len(named)} more"] if len(first) > len(named) else []
    heading = "best" if len(first) == 1 else "tied for the best"
    several = {min(len(group.scores), len(best.scores)) > 1 for group in ranking[1:] if group.standing}
    rules = [rule for rule, is_used in ((_SEVERAL, True in several), (_ONE, False in several)) if is_used]
    return [f"{heading} by {results.metric}: {'; '.join(named)}", *_of_chance(results), *rules]


def _of_chance(results: Results) -> list[str]:
    """What the best of fewer trials would be expected to have: how much of the best score is the choice."""
    means = [group.spread.mean for group in results.ranking if group.spread is not None]
    if len(means) < 3:
        return []
    sizes = sorted({1, *(2**power for power in range(1, 10) if 2**power < len(means)), len(means)})
    key, lowest = str(results.metric), results.jobs[0].lowest
    expected = (score_text(key, expected_best(means, size, lowest=lowest)) for size in sizes)
    numbers = ", ".join(f"{size}: {text}" for size, text in zip(sizes, expected, strict=True))
    return [f"expected best {key} of so many trials: {numbers}; above that of 1 it is also luck"]


def _job_rows(results: Results) -> list[list[str]]:
    rows = [["job", *(results.swept or ["overrides"]), "state", "dev score", "score", "run directory"]]
    for job in results.jobs:
        options = [job.options.get(option, "") for option in results.swept]
        scores = ["-" if pair is None else f"{pair[0]} {score_text(*pair)}" for pair in (job.dev, job.main)]
        options = options or [" ".join(job.overrides) or "none"]
        rows.append([str(job.number), *options, job.state, *scores, job.directory or "-"])
    return rows


def _group_rows(results: Results) -> list[list[str]]:
    """The table of groups, heading first; empty where there is nothing to sum up or to compare."""
    groups = [group for group in results.groups if group.scores]
    if sum(len(group.scores) for group in groups) < 2:
        return []
    columns = ("n", str(results.metric), "95 % over rows", str(results.main), "standing")
    cells = [_cells(results, group) for group in groups]
    heading, *rows = zip(
        *(column for column in zip(columns, *cells, strict=True) if set(column[1:]) != {"-"}), strict=True
    )
    named = zip(groups, rows, strict=True)
    return [[*groups[0].options, *heading], *([*group.options.values(), *row] for group, row in named)]


def _cells(results: Results, group: Group) -> list[str]:
    metric = str(results.metric)
    return [
        str(len(group.scores)),
        _spread(metric, group.spread),
        " to ".join(score_text(metric, end) for end in group.rows or ()) or "-",
        _spread(str(results.main), group.main),
        group.standing or "-",
    ]


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
    """Write `summary.md`, `summary.csv` and `sweep.json` over those of before."""
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


def _group_record(group: Group) -> Plain:
    return {
        "options": dict(group.options),
        "jobs": [job.number for job in group.jobs],
        "score": group.spread and asdict(group.spread),
        "main": group.main and asdict(group.main),
        "interval_over_rows": group.rows,
        "standing": group.standing,
    }


def _job_record(config: str, job: Result) -> Plain:
    record = {key: value for key, value in asdict(job).items() if key != "lowest"}
    main, dev = _score_record(job.main), _score_record(job.dev)
    return {**record, "config": config, "main": main, "dev": dev, "reason": job.reason or None}


def _score_record(score: Score | None) -> Plain | None:
    return score and {"name": score[0], "value": score[1]}


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
    writer.writerow(map(cell, names))
    for job in results.jobs:
        options = [job.options.get(option, "") for option in results.swept]
        scores = (*(job.dev or ("", "")), *(job.main or ("", "")))
        row = (job.number, *options, job.state, *scores, job.directory or "", job.reason)
        writer.writerow(map(cell, row))
    return out.getvalue()
