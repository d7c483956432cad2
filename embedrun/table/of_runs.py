"""A table of runs that belong to no paper, and the list of tables."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from embedrun.console import Progress, decimals, fitted, room, say
from embedrun.errors import DataError
from embedrun.evaluation.seeds import Spread, listed
from embedrun.runs import listing
from embedrun.runs.reading import RunFiles, newest_first
from embedrun.table.cells import FINISHED, NOT_RUNNABLE, Cells, Measured, measured
from embedrun.table.preset import Table, load, names
from embedrun.table.sheet import CLEAN, Entry, Origin, Sheet, SheetColumn, SheetRow


def sheet_of_runs(
    folders: Sequence[Path],
    columns: Sequence[str] = (),
    label: Sequence[str] = (),
    where: Mapping[str, Collection[str]] | None = None,
) -> Sheet:
    """The finished runs in or below the folders, which exist, with the scores that all of them have.

    `columns` are shown instead: scores, and choices and options, in words. `label` are the choices and
    options that name a row; else it is what differs, which every row has in its `told`, too. `where` is that
    of `listing.Wanted`; unless it asks for a `kind`, only trainings are shown, without any the evaluations,
    without these the trials.

    Raises:
        ConfigError: if no run has one of these.
        DataError: if there is no finished run.
    """
    found = listing.find(folders)
    for line in found.broken:
        say(f"passed over: {line}")
    listing.refuse_unknown(found.runs, list(where or ()), "embedrun table")
    wanted = listing.Wanted(where or {}).of(found.runs)
    files = {run.path: run for run in wanted}
    every = measured(wanted)
    runs = [run for run in every if run.state == FINISHED and run.scores]
    below = ", ".join(map(str, folders))
    if not runs:
        which = " as is asked for" if where else ""
        raise DataError(
            f"no finished run with scores{which} below {below}; embedrun runs lists what is there"
        )
    notes = []
    if "kind" not in (where or ()):
        kinds = {run.path: listing.kind(run) for run in wanted}
        count = Counter(kinds[run.path] for run in runs)
        shown, *others = [kind for kind in listing.HEADINGS if count[kind]]
        every, runs = ([run for run in each if kinds[run.path] == shown] for each in (every, runs))
        left = [f"{listing.HEADINGS[kind]} ({count[kind]}, --filter kind={kind})" for kind in others]
        notes += [f"Left out: {', '.join(left)}"] if left else []
    if left := len(every) - len(runs):
        notes.append(f"Not finished, and left out: {left}")
    listing.refuse_unknown([files[run.path] for run in runs], [*columns, *label], "embedrun table")
    keys = [key for key in columns if any(key in run.scores for run in runs)] or _keys(runs, files)
    if not all(key in run.scores for key in keys for run in runs):
        notes.append("Not every run has all of these scores")
    words = [key for key in columns if key not in keys]
    groups = _grouped(runs)
    first = [files[group[0].path] for group in groups]
    named = {key: [listing.value_of(run, key) for run in first] for key in label}
    differ = [key for key in listing.columns(first) if key != "seed"]
    rows = []
    for name, group in zip(listing.labels(first, named or None, without=("seed",)), groups, strict=True):
        told = {
            key: ", ".join(dict.fromkeys(listing.cell(files[run.path], key) for run in group))
            for key in dict.fromkeys([*differ, *words])
        }
        rows.append(_row(name, told, group, keys))
    return Sheet(
        name="",
        title=f"Finished runs below {below}",
        source="",
        kind="runs",
        columns=tuple(SheetColumn(key, decimals(key)) for key in keys),
        rows=tuple(rows),
        notes=tuple(notes),
        told=tuple(words),
    )


def _grouped(runs: Sequence[Measured]) -> list[list[Measured]]:
    """Runs of one configuration and code, the newest of each seed; groups in the order of their ends."""
    groups: dict[tuple[str | None, ...], dict[int, Measured]] = {}
    for run in reversed(newest_first(runs)):
        groups.setdefault((run.key, run.scale, run.other_code), {})[run.seed] = run
    return [[group[seed] for seed in sorted(group)] for group in groups.values()]


def _keys(runs: Sequence[Measured], files: Mapping[Path, RunFiles]) -> list[str]:
    """The scores that all have, without the variants of one: `spearman_mean` and `spearman_clean`.

    Where they share none, the main score of each.
    """
    keys = [key for key in runs[0].scores if all(key in run.scores for run in runs)]
    if keys:
        return [key for key in keys if not any(key.startswith(f"{other}_") for other in keys)]
    main = (files[run.path].main.get("name") for run in runs)
    return list(dict.fromkeys(str(name) for name in main if name is not None))


def _row(label: str, told: Mapping[str, str], runs: Sequence[Measured], keys: Sequence[str]) -> SheetRow:
    notes = [f"Seeds {listed([run.seed for run in runs])}"] if len(runs) > 1 else []
    if runs[0].scale:
        notes.append(f"Reduced setting {runs[0].scale}: not a reproduction")
    if runs[0].other_code:
        notes.append(f"Earlier runs: {runs[0].other_code}")
    return SheetRow(
        id=label,
        label=label,
        group="",
        kind="runs",
        entries=tuple(_entry(label, runs, key) for key in keys),
        notes=tuple(notes),
        origins=tuple(Origin(tuple(keys), run.seed, str(run.path)) for run in runs),
        told=told,
    )


def _entry(label: str, runs: Sequence[Measured], key: str) -> Entry:
    scores = [run.scores for run in runs if math.isfinite(run.scores.get(key, math.nan))]
    values = [own[key] for own in scores]
    clean = [own.get(key + CLEAN, own[key]) for own in scores]
    spread = Spread.of(values)
    return Entry(
        table="",
        scale=runs[0].scale or "",
        row=label,
        column=key,
        paper=None,
        mean=None if spread is None else spread.mean,
        sd=None if spread is None else spread.sd,
        n=len(values),
        wanted=len(runs),
        clean=None if clean == values else statistics.fmean(clean),
        difference=None,
        mark="" if spread is None else "reduced" if runs[0].scale else "measured",
        note="",
    )


def list_of_tables(cells: Cells) -> str:
    """A line for each table: rows, runs, and finished runs."""
    tables = [load(name) for name in sorted(names(), key=_order)]
    lines = [["table", "rows", "runs", "finished", "shows"]]
    with Progress("look for runs", len(tables), "tables", brief=True) as bar:
        for done, table in enumerate(tables, start=1):
            runs, finished = _counts(table, cells)
            counts = [str(runs), str(finished)] if runs else ["-", "-"]
            lines.append([table.name, str(len(table.rows)), *counts, table.title])
            bar.reach(done)
    return fitted(lines, room(), right=(1, 2, 3))


def _order(name: str) -> list[tuple[str, int]]:
    """Table 2 before Table 10."""
    return [(word, int(digits or 0)) for word, digits in re.findall(r"(\D+)(\d*)", name)]


def _counts(table: Table, cells: Cells) -> tuple[int, int]:
    """Different runs of a table, and those of them that have finished."""
    if not cells.measured:  # nothing needs to be composed to find nothing
        own = {cell for row in table.rows for cell in row.cells if cell.not_runnable is None}
        return sum(len(cell.seeds or table.seeds) for cell in own), 0
    slots = {(slot.key, slot.seed): slot.state for slot in cells.find(table)}
    states = Counter(state for state in slots.values() if state != NOT_RUNNABLE)
    return states.total(), states[FINISHED]
