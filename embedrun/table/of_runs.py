"""A table of runs that belong to no paper, and the list of tables."""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from embedrun.console import Progress, decimals, fitted, room, say
from embedrun.errors import DataError
from embedrun.evaluation.seeds import Spread, listed
from embedrun.runs import listing
from embedrun.runs.reading import RunFiles, newest_first
from embedrun.table.cells import FINISHED, NOT_RUNNABLE, Cells, Measured, Slot, measured
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
    asked = listing.Wanted(where or {}).of(found.runs)
    files = {run.path: run for run in asked}
    every = measured(asked)
    runs = [run for run in every if run.state == FINISHED and run.scores]
    below = ", ".join(map(str, folders))
    if not runs:
        as_asked = " as is asked for" if where else ""
        raise DataError(
            f"no finished run with scores{as_asked} below {below}; embedrun runs lists what is there"
        )
    notes = []
    if not where or "kind" not in where:
        kinds = {run.path: listing.kind(run) for run in asked}
        counted = Counter(kinds[run.path] for run in runs)
        own_kind, *others = [kind for kind in listing.HEADINGS if counted[kind]]
        every, runs = ([run for run in each if kinds[run.path] == own_kind] for each in (every, runs))
        said = [f"{listing.HEADINGS[kind]} ({counted[kind]}, --filter kind={kind})" for kind in others]
        notes += [f"Left out: {', '.join(said)}"] if said else []
    groups = _grouped(runs)
    own = [files[group[0].path] for group in groups]
    listing.refuse_unknown([files[run.path] for run in runs], [*columns, *label], "embedrun table")
    named = {key: [listing.value_of(run, key) for run in own] for key in label}
    names = listing.labels(own, named or None, without=("seed",))
    keys, shared = _keys(runs, files)
    if wanted := [key for key in columns if any(key in run.scores for run in runs)]:
        keys, shared = wanted, True
    words = [key for key in columns if key not in keys]
    differ = [key for key in listing.columns(own) if key != "seed"]
    told = [
        {key: _told([files[run.path] for run in group], key) for key in dict.fromkeys([*differ, *words])}
        for group in groups
    ]
    rows = [_row(*row, keys) for row in zip(names, told, groups, strict=True)]
    left = len(every) - len(runs)
    notes += [f"Not finished, and left out: {left}"] if left else []
    notes += [] if shared else ["No score is common to all runs; shown is the main score of each"]
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


def _told(runs: Sequence[RunFiles], key: str) -> str:
    """What the runs of a row have in a column: the seeds, `1, 2`, where they differ."""
    return ", ".join(dict.fromkeys(listing.cell(run, key) for run in runs))


def _grouped(runs: Sequence[Measured]) -> list[list[Measured]]:
    """Runs of one configuration and code, the newest of each seed; groups in the order of their ends."""
    groups: dict[tuple[str | None, ...], dict[int, Measured]] = {}
    for run in reversed(newest_first(runs)):
        groups.setdefault((run.key, run.scale, run.other_code), {})[run.seed] = run
    return [[group[seed] for seed in sorted(group)] for group in groups.values()]


def _keys(runs: Sequence[Measured], files: Mapping[Path, RunFiles]) -> tuple[list[str], bool]:
    """The scores that all have, without the variants of one: `spearman_mean` and `spearman_clean`.

    Where they share none, the main score of each; the second value says which of the two it is.
    """
    keys = [key for key in runs[0].scores if all(key in run.scores for run in runs)]
    if keys:
        return [key for key in keys if not any(key.startswith(f"{other}_") for other in keys)], True
    main = (files[run.path].main.get("name") for run in runs)
    return list(dict.fromkeys(str(name) for name in main if name is not None)), False


def _row(label: str, told: Mapping[str, str], runs: Sequence[Measured], keys: Sequence[str]) -> SheetRow:
    seeds = listed([run.seed for run in runs])
    scale = f"Reduced setting {runs[0].scale}: not a reproduction" if runs[0].scale else ""
    note = f"Seeds {seeds}" if len(runs) > 1 else ""
    old = f"Earlier runs: {runs[0].other_code}" if runs[0].other_code else ""
    return SheetRow(
        id=label,
        label=label,
        group="",
        kind="runs",
        entries=tuple(_entry(label, runs, key) for key in keys),
        notes=tuple(text for text in (note, scale, old) if text),
        origins=tuple(Origin(tuple(keys), run.seed, str(run.path)) for run in runs),
        told=told,
    )


def _entry(label: str, runs: Sequence[Measured], key: str) -> Entry:
    own = [run.scores for run in runs if math.isfinite(run.scores.get(key, math.nan))]
    values = [scores[key] for scores in own]
    spread = Spread.of(values)
    clean = [scores.get(key + CLEAN, scores[key]) for scores in own]
    part = Spread.of(clean) if clean != values else None
    return Entry(
        table="",
        scale=runs[0].scale or "",
        row=label,
        column=key,
        paper=None,
        mean=None if spread is None else spread.mean,
        sd=None if spread is None else spread.sd,
        n=0 if spread is None else spread.n,
        wanted=len(runs),
        clean=None if part is None else part.mean,
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
            wanted, finished = _counts(table, cells)
            runs = [str(wanted), str(finished)] if wanted else ["-", "-"]
            lines.append([table.name, str(len(table.rows)), *runs, table.title])
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
    slots: dict[tuple[str, int], Slot] = {
        (slot.key, slot.seed): slot for slot in cells.find(table) if slot.state != NOT_RUNNABLE
    }
    return len(slots), sum(slot.state == FINISHED for slot in slots.values())
