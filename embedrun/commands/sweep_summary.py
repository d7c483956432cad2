"""What a multirun leaves beside its runs: a table as Markdown and CSV, a plot an option, and its jobs."""

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun.commands.sweep_results import Result, Results
from embedrun.console import aligned, clean, score_text
from embedrun.files import to_json, write_atomically
from embedrun.table.markdown import escaped
from embedrun.table.spreadsheet import cell

_RECORD = "sweep.json"
_WIDE = 30  # times the smallest value, and the axis is logarithmic


def text(results: Results) -> str:
    """The table, the best job, why others failed, and how many there are of each kind, for a terminal."""
    heading, rows = _rows(results)
    best, reasons = _best(results), "\n".join(_reasons(results))
    parts = [aligned([heading, *rows], right=(0,)), best, reasons, counts(results)]
    return clean("\n\n".join(part for part in parts if part))


def counts(results: Results) -> str:
    """How many jobs are in each state; finished and failed always."""
    found = results.counted()
    shown = [f"{count} {state}" for state, count in found.items() if count or state in ("finished", "failed")]
    return ", ".join(shown)


def begin(folder: Path, command: str, jobs: Sequence[str]) -> None:
    """Write which jobs a folder is of, before the first of them starts.

    Args:
        folder: is made if need be.
        command: `train` or `evaluate`.
        jobs: hash of the configuration of each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _RECORD, to_json({"schema": 1, "command": command, "jobs": _planned(jobs)}))


def is_of(folder: Path, command: str, jobs: Sequence[str]) -> bool:
    """Whether a folder is of a multirun of the same jobs."""
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        return record["command"] == command and [one["config"] for one in record["jobs"]] == list(jobs)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def write(folder: Path, command: str, jobs: Sequence[str], results: Results) -> None:
    """Write `summary.md`, `summary.csv`, `sweep.json` and the plots; what was there is replaced.

    Args:
        folder: of the multirun, which `begin` has made.
        command: `train` or `evaluate`.
        jobs: hash of the configuration of each.
        results: of each.
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
    """A plot of the score against each swept option, where at least two jobs have one."""
    best, metric = results.best, results.metric
    scored = [(job, score) for job in results.jobs if (score := results.score(job)) is not None]
    if best is None or metric is None or len(scored) < 2:
        return
    from embedrun.plot.study import against

    for option in results.swept:
        words = [job.options.get(option, "") for job, _ in scored]
        own = best.options.get(option, "")
        path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', option)}.png"
        numbers = [_number(word) for word in words]
        values: Mapping[str, Any] = dict(zip(words, numbers, strict=True))
        is_number = None not in numbers
        points = [
            (values[word] if is_number else word, score, False)
            for word, (_, score) in zip(words, scored, strict=True)
        ]
        chosen = (values[own] if is_number else own, results.score(best) or 0.0)
        order = None if is_number else list(dict.fromkeys(words))
        against(points, chosen, (option, metric), path, log=_spans_wide(numbers), order=order)


def _rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """Heading and cells of the table, in words."""
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
    lines = [f"| {' | '.join(escaped(text) for text in row)} |" for row in [heading, *rows]]
    lines.insert(1, "|" + " --- |" * len(heading))
    below = [escaped(text) for text in (_best(results), *_reasons(results)) if text]
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


def _planned(jobs: Sequence[str]) -> list[dict[str, Any]]:
    return [{"number": number, "config": own} for number, own in enumerate(jobs)]


def _recorded(job: Result) -> dict[str, Any]:
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
