"""A table of runs that belong to no paper, and the list of tables."""

import re
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from embedrun.config.request import task_overrides
from embedrun.console import Progress, decimals, fitted, room, say
from embedrun.errors import DataError
from embedrun.evaluation.seeds import listed
from embedrun.runs import listing
from embedrun.runs.reading import RunFiles, newest_first
from embedrun.table.cells import FINISHED, NOT_RUNNABLE, Cells, Measured, measured
from embedrun.table.preset import Table, load, names
from embedrun.table.sheet import CLEAN, Entry, Origin, Sheet, SheetColumn, SheetRow, over_seeds


def sheet_of_runs(
    folders: Sequence[Path],
    columns: Sequence[str],
    label: Sequence[str],
    where: Mapping[str, Collection[str]],
) -> Sheet:
    """The finished runs in or below the folders, which exist, with the scores that all of them have.

    `columns` are shown instead: scores, and choices and options, in words. `label` are the choices and
    options that name a row; else it is what differs, which every row has in its `told`, too. `where` is that
    of `listing.Wanted`; unless it asks for a `kind`, only trainings are shown, without any the evaluations,
    without these the trials.
    """
    files = _wanted(folders, where)
    runs = measured(list(files.values()))
    left = ""
    if "kind" not in where:
        runs, left = _of_one_kind(runs, files)
    finished = list(filter(_has_scores, runs))
    below = ", ".join(map(str, folders))
    if not finished:
        which = " as is asked for" if where else ""
        raise DataError(f"no finished run with scores{which} below {below}; embedrun runs lists all")
    listing.refuse_unknown([files[run.path] for run in finished], [*columns, *label], "embedrun table")
    scored = {key for run in finished for key in run.scores}
    keys = [key for key in columns if key in scored] or _keys(finished, files)
    notes = {
        f"Left out: {left}": left,
        f"Not finished, and left out: {len(runs) - len(finished)}": len(runs) > len(finished),
        "Not every run has all of these scores": any(not run.scores.keys() >= {*keys} for run in finished),
    }
    words = [key for key in columns if key not in keys]
    return Sheet(
        name="",
        title=f"Finished runs below {below}",
        source="",
        kind="runs",
        columns=tuple(SheetColumn(key, decimals(key)) for key in keys),
        rows=tuple(_rows(_grouped(finished), files, keys, words, label)),
        notes=tuple(note for note, holds in notes.items() if holds),
        told=tuple(words),
    )


Files = Mapping[Path, RunFiles]  # runs by directory


def _wanted(folders: Sequence[Path], where: Mapping[str, Collection[str]]) -> Files:
    below = listing.find(folders)
    for line in below.broken:
        say(f"passed over: {line}")
    listing.refuse_unknown(below.runs, list(where), "embedrun table")
    return {run.path: run for run in listing.Wanted(where).of(below.runs)}


def _has_scores(run: Measured) -> bool:
    return run.state == FINISHED and bool(run.scores)


def _of_one_kind(runs: Sequence[Measured], files: Files) -> tuple[list[Measured], str]:
    """The runs of the first kind that has finished ones, and how many of which others have finished."""
    kinds = {run.path: listing.kind(files[run.path]) for run in runs}
    count = Counter(kinds[run.path] for run in runs if _has_scores(run))
    first, *others = [kind for kind in listing.HEADINGS if count[kind]] or [""]
    left = [f"{listing.HEADINGS[kind]} ({count[kind]}, --filter kind={kind})" for kind in others]
    return [run for run in runs if kinds[run.path] == first], ", ".join(left)


def _rows(
    groups: Sequence[Sequence[Measured]],
    files: Files,
    keys: Sequence[str],
    words: Sequence[str],
    label: Sequence[str],
) -> Iterator[SheetRow]:
    """A row for each group of runs: scores of these keys, and beside them the options `words`."""
    first = [files[group[0].path] for group in groups]
    named = {key: [listing.value_of(run, key) for run in first] for key in label}
    options = dict.fromkeys([*(key for key in listing.columns(first) if key != "seed"), *words])
    for name, group in zip(listing.labels(first, named or None, without=("seed",)), groups, strict=True):
        texts = {key: [listing.cell(files[run.path], key) for run in group] for key in options}
        yield SheetRow(
            id=name,
            label=name,
            group="",
            kind="runs",
            entries=tuple(_entry(name, group, key) for key in keys),
            notes=tuple(_notes(group)),
            origins=tuple(Origin(tuple(keys), run.seed, str(run.path)) for run in group),
            told={key: ", ".join(dict.fromkeys(cells)) for key, cells in texts.items()},
        )


def _notes(runs: Sequence[Measured]) -> Iterator[str]:
    if len(runs) > 1:
        yield f"Seeds {listed([run.seed for run in runs])}"
    if runs[0].scale:
        yield f"Reduced setting {runs[0].scale}: not a reproduction"
    if runs[0].other_code:
        yield f"Earlier runs: {runs[0].other_code}"


def _grouped(runs: Sequence[Measured]) -> list[list[Measured]]:
    """Runs of one configuration and code, the newest of each seed; groups in the order of their ends."""
    groups: dict[tuple[str | None, ...], dict[int, Measured]] = {}
    for run in reversed(newest_first(runs)):
        groups.setdefault((run.key, run.scale, run.other_code), {})[run.seed] = run
    return [[group[seed] for seed in sorted(group)] for group in groups.values()]


def _keys(runs: Sequence[Measured], files: Files) -> list[str]:
    """The scores that all have, without the variants of one: `spearman_mean` and `spearman_clean`.

    Where they share none, the main score of each.
    """
    if keys := [key for key in runs[0].scores if all(key in run.scores for run in runs)]:
        return [key for key in keys if not key.startswith(tuple(f"{other}_" for other in keys))]
    main = (files[run.path].main.get("name") for run in runs)
    return list(dict.fromkeys(str(name) for name in main if name is not None))


def table_of_runs(folders: Sequence[Path]) -> dict[str, object]:
    """The finished runs in or below the folders as a table of one's own, in the form of `conf/table`.

    A row is what the runs of one configuration were asked for; all have the columns that every run has.
    """
    files = _wanted(folders, {})
    runs, _ = _of_one_kind(measured(list(files.values())), files)
    groups = _grouped(list(filter(_has_scores, runs)))
    if not groups:
        raise DataError(f"no finished run with scores below {', '.join(map(str, folders))}")
    first = [files[group[0].path] for group in groups]
    kind = "evaluate" if listing.kind(first[0]) == "evaluation" else "train"
    typed = [[one for one in task_overrides(run.overrides) if not one.startswith("seed=")] for run in first]
    shared = [one for one in typed[0] if all(one in own for own in typed)]
    keys = _keys([run for group in groups for run in group], files)
    rows = [
        {"label": name, "kind": kind, "overrides": [one for one in own if one not in shared]}
        for name, own in zip(listing.labels(first, without=("seed",)), typed, strict=True)
    ]
    return {
        "title": f"Runs below {', '.join(map(str, folders))}",
        "seeds": sorted({run.seed for group in groups for run in group}),
        "shared": {kind: shared},
        "columns": {key: key for key in keys},
        "rows": rows,
    }


def _entry(label: str, runs: Sequence[Measured], key: str) -> Entry:
    scores = [run.scores for run in runs if key in run.scores]
    values = [by_key[key] for by_key in scores]
    clean = [by_key.get(key + CLEAN, by_key[key]) for by_key in scores]
    mean, sd, n = over_seeds(values)
    scale = runs[0].scale or ""
    return Entry(
        table="",
        scale=scale,
        row=label,
        column=key,
        mean=mean,
        sd=sd,
        n=n,
        wanted=len(runs),
        clean=None if clean == values else statistics.fmean(clean),
        mark=("reduced" if scale else "measured") if values else "",
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
    return [(word, int(digits or 0)) for word, digits in re.findall(r"(\D+)(\d*)", name)]


def _counts(table: Table, cells: Cells) -> tuple[int, int]:
    if not cells.measured:  # nothing needs to be composed to find nothing
        runnable = {cell for row in table.rows for cell in row.cells if cell.not_runnable is None}
        return sum(len(cell.seeds or table.seeds) for cell in runnable), 0
    slots = {(slot.key, slot.seed): slot.state for slot in cells.find(table)}
    states = Counter(state for state in slots.values() if state != NOT_RUNNABLE)
    return states.total(), states[FINISHED]
