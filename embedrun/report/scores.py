"""The table of scores, suite by suite."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from embedrun.console import number, numbers, score
from embedrun.report.headline import interval

_CLEAN = "_clean"  # as embedrun/evaluation/clean.py, which imports torch, ends the keys of clean scores
_MOST_ROWS = 24  # of one suite; of one with more those that matter most stand open
# Column, and how its heading reads.
_HEADINGS = {
    "before": "untrained",
    "value": "trained",
    "gain": "difference",
    "interval": "95 % interval",
    "clean": "unseen rows only",
    "paper": "paper",
    "to_paper": "to the paper",
}


@dataclass(frozen=True)
class ScoreRow:
    """One score.

    Args:
        key: of `results.json`.
        main: whether it stands for the run.
        cells: as written, by column.
    """

    key: str
    main: bool
    cells: dict[str, str]


@dataclass(frozen=True)
class Suite:
    """The scores of one suite.

    Args:
        name: the first part of their keys.
        rows: that stand open.
        folded: the rest of a long suite.
    """

    name: str
    rows: tuple[ScoreRow, ...]
    folded: tuple[ScoreRow, ...]


@dataclass(frozen=True)
class ScoreTable:
    """All scores of a run.

    Args:
        headings: of the columns that hold anything, by column.
        suites: in the order of the results; those of dev splits last.
        clean: whether there are scores without the rows that were trained on.
        lost: published numbers that the run has no score for, by key.
    """

    headings: dict[str, str]
    suites: tuple[Suite, ...]
    clean: bool
    lost: dict[str, str]


def table(results: Mapping[str, Any], published: Mapping[str, float]) -> ScoreTable:
    """From `results.json`.

    Args:
        results: as read; may lack anything.
        published: the paper's numbers, by key.
    """
    scores, before = numbers(results.get("scores")), numbers(results.get("baseline"))
    main = results.get("main")
    main = main.get("name") if isinstance(main, Mapping) else None
    rows: dict[str, list[ScoreRow]] = {}
    for key in (key for key in scores if not key.endswith(_CLEAN)):
        cells = _cells(key, scores, before.get(key), number(published.get(key)), interval(results, key))
        rows.setdefault(key.partition("/")[0], []).append(ScoreRow(key, key == main, cells))
    every = [row for own in rows.values() for row in own]
    headings = {
        column: heading for column, heading in _HEADINGS.items() if any(row.cells[column] for row in every)
    }
    if "before" not in headings and "value" in headings:
        headings["value"] = "value"
    suites = sorted(
        (_suite(name, own) for name, own in rows.items()), key=lambda one: one.name.endswith("_dev")
    )
    lost = {key: score(key, number(value)) for key, value in published.items() if key not in scores}
    return ScoreTable(headings, tuple(suites), "clean" in headings, lost)


def _cells(
    key: str,
    scores: Mapping[str, float],
    before: float | None,
    paper: float | None,
    ends: tuple[float, float] | None,
) -> dict[str, str]:
    value, clean = scores[key], scores.get(key + _CLEAN)
    same = clean is not None and score(key, clean) == score(key, value)
    return {
        "before": "" if before is None else score(key, before),
        "value": score(key, value),
        "gain": "" if before is None else score(key, value - before, sign="+"),
        "interval": "" if ends is None else f"{score(key, ends[0])} to {score(key, ends[1])}",
        "clean": "" if clean is None else "the same" if same else score(key, clean),
        "paper": "" if paper is None else score(key, paper),
        "to_paper": "" if paper is None else score(key, value - paper, sign="+"),
    }


def _suite(name: str, rows: list[ScoreRow]) -> Suite:
    if len(rows) <= _MOST_ROWS:
        return Suite(name, tuple(rows), ())
    # Of a long suite the main metric on whole sets: sts/sts12/spearman, not sts/sts12.x/spearman.
    main = next((row.key for row in rows if row.main), rows[0].key)
    metric = main.rpartition("/")[2]
    wanted = [row for row in rows if _stands_out(row) or _is_of(row.key, metric)]
    if len(wanted) > _MOST_ROWS:
        wanted = [row for row in rows if _stands_out(row)]
    return Suite(name, tuple(wanted), tuple(row for row in rows if row not in wanted))


def _stands_out(row: ScoreRow) -> bool:
    return row.main or bool(row.cells["paper"]) or row.key.split("/")[1:2] == ["avg"]


def _is_of(key: str, metric: str) -> bool:
    task, _, own = key.rpartition("/")
    return own == metric and "." not in task
