"""How the jobs of a sweep ended: table, CSV, JSON and plots."""

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from embedrun.console import aligned, clean, score_text
from embedrun.errors import INTERRUPTED, TERMINATED
from embedrun.files import Plain, to_json, write_atomically
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


@dataclass(frozen=True)
class Results:
    """All jobs of a multirun, in order.

    `metric` is the key of the score that picks the best job, None where the jobs have none in common;
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
        """The job's score under `metric`."""
        own = [pair[1] for pair in (job.dev, job.main) if pair is not None and pair[0] == self.metric]
        return own[0] if own else None

    @property
    def best(self) -> Result | None:
        """The job with the best score; the first of equals."""
        scored = [(score, job) for job in self.jobs if (score := self.score(job)) is not None]
        sign = 1 if self.lowest else -1
        return min(scored, key=lambda pair: sign * pair[0])[1] if scored else None

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
    """The table, the best job, why others failed, and the number in each state, for a terminal."""
    heading, rows = _rows(results)
    best, reasons = _best(results), "\n".join(_reasons(results))
    parts = [aligned([heading, *rows], right=(0,)), best, reasons, counts(results)]
    return clean("\n\n".join(part for part in parts if part))


def counts(results: Results) -> str:
    """The number of jobs in each state, as text; finished and failed are always shown."""
    found = results.counted()
    shown = [f"{count} {state}" for state, count in found.items() if count or state in ("finished", "failed")]
    return ", ".join(shown)


def begin(folder: Path, command: str, jobs: Sequence[str]) -> None:
    """Record the config hash of each job before the first one starts; the folder is made if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _RECORD, to_json({"schema": 1, "command": command, "jobs": _planned(jobs)}))


def is_of(folder: Path, command: str, jobs: Sequence[str]) -> bool:
    """Whether a folder belongs to a multirun of the same jobs, given by config hash, in this order."""
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        return record["command"] == command and [one["config"] for one in record["jobs"]] == list(jobs)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def write(folder: Path, command: str, jobs: Sequence[str], results: Results) -> None:
    """Write `summary.md`, `summary.csv`, `sweep.json` and the plots over those of before.

    `jobs` are config hashes; the folder is one that `begin` has made.
    """
    best = results.best
    record = {
        "schema": 1,
        "command": command,
        "metric": results.metric,
        "best": None if best is None else best.number,
        "jobs": [{**own, **_recorded(job)} for own, job in zip(_planned(jobs), results.jobs, strict=True)],
    }
    write_atomically(folder / _RECORD, to_json(record))
    write_atomically(folder / "summary.md", _markdown(results))
    write_atomically(folder / "summary.csv", _csv(results))
    draw(results, folder / "plots")


def draw(results: Results, folder: Path) -> None:
    """Plot the score against each swept option, where at least two jobs have a score."""
    best, metric = results.best, results.metric
    scored = [(job, score) for job in results.jobs if (score := results.score(job)) is not None]
    if best is None or metric is None or len(scored) < 2:
        return
    from embedrun.plot import against

    for option in results.swept:
        words = [job.options.get(option, "") for job, _ in scored]
        own = best.options.get(option, "")
        path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', option)}.png"
        numbers = [_number(word) for word in words]
        values: Plain = dict(zip(words, numbers, strict=True))
        is_number = None not in numbers
        points = [
            (values[word] if is_number else word, score, False)
            for word, (_, score) in zip(words, scored, strict=True)
        ]
        chosen = (values[own] if is_number else own, results.score(best) or 0.0)
        order = None if is_number else list(dict.fromkeys(words))
        against(points, chosen, (option, metric), path, log=_spans_wide(numbers), order=order)


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


def _best(results: Results) -> str:
    best = results.best
    if best is None:
        return ""
    options = " ".join(f"{key}={best.options.get(key, '')}" for key in results.swept)
    score = f"{results.metric} {score_text(results.metric or '', results.score(best))}"
    return f"best: job {best.number}{f' ({options})' if options else ''}, {score}, {best.directory}"


def _markdown(results: Results) -> str:
    heading, rows = _rows(results)
    lines = [f"| {' | '.join(markdown_escaped(text) for text in row)} |" for row in [heading, *rows]]
    lines.insert(1, "|" + " --- |" * len(heading))
    below = [markdown_escaped(text) for text in (_best(results), *_reasons(results)) if text]
    return "\n\n".join(["\n".join(lines), *below, counts(results)]) + "\n"


def _csv(results: Results) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    swept = results.swept
    names = ["job", *swept, "state", "dev_key", "dev", "main_key", "main", "directory", "reason"]
    writer.writerow(map(cell, names))
    for job in results.jobs:
        values = [job.options.get(option, "") for option in swept]
        scores = [*(job.dev or ("", "")), *(job.main or ("", ""))]
        row = [job.number, *values, job.state, *scores, job.directory or "", job.reason]
        writer.writerow(map(cell, row))
    return out.getvalue()


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


def _spans_wide(numbers: Sequence[float | None]) -> bool:
    found = [number for number in numbers if number is not None]
    return len(found) == len(numbers) and min(found) > 0 and max(found) > _WIDE * min(found)
