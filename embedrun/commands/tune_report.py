"""What a search has found: a table, the command that trains the best, files and plots."""

import csv
import io
import shlex
from collections.abc import Sequence
from pathlib import Path

from embedrun.commands.tune_distributions import Searched
from embedrun.commands.tune_plan import TunePlan
from embedrun.commands.tune_search import score_text
from embedrun.commands.tune_study import Row, Study
from embedrun.console import aligned, clean
from embedrun.files import write_atomically
from embedrun.runs.directory import to_yaml
from embedrun.table.spreadsheet import cell

_SHOWN = 10  # trials in the table


def table(study: Study, searched: Sequence[Searched]) -> str:
    """The best trials, and how many there are of each kind."""
    names = [one.name for one in searched]
    lines = [["trial", study.metric or "score", *names]]
    ranking = study.ranking()
    for row in ranking[:_SHOWN]:
        lines.append([str(row.number), score_text(row), *(str(row.values.get(name, "")) for name in names)])
    states = [row.state for row in study.rows()]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    best = f"the best {_SHOWN} of {len(ranking)}; " if len(ranking) > _SHOWN else ""
    return f"{aligned(lines, right=(0, 1))}\n\n{best}{counts}"


def command(overrides: Sequence[str], config_dir: Path | None) -> str:
    """The command line that trains with these overrides."""
    place = [] if config_dir is None else ["--config-dir", str(config_dir)]
    return clean(shlex.join(["embedrun", "train", *overrides, *place]))


def write(study: Study, plan: TunePlan) -> None:
    """Write `study.csv` and `best.yaml`, the overrides of the best trial; what was there is replaced."""
    text = to_csv(study.rows(), plan.searched, study.metric)
    write_atomically(study.folder / "study.csv", text)
    if (best := study.best()) is not None:
        write_atomically(study.folder / "best.yaml", to_yaml(plan.overrides(best.values)))


def to_csv(rows: Sequence[Row], searched: Sequence[Searched], metric: str | None) -> str:
    """All trials as CSV, with raw numbers; a text that a spreadsheet would compute has a `'` before it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(cell, _heading(searched, metric)))
    for row in rows:
        values = [row.values.get(one.name, "") for one in searched]
        cells = (row.number, row.state, row.score, *values, row.seconds, row.reason)
        writer.writerow(map(cell, cells))
    return out.getvalue()


def draw(study: Study, searched: Sequence[Searched]) -> None:
    """Write the plots: scores by trial, and by the value of each option."""
    from embedrun.plot.study import against, history

    rows = [row for row in study.rows() if row.score is not None]
    best, metric = study.best(), study.metric
    if best is None or metric is None:
        return
    folder = study.folder / "plots"
    points = [(row.number, row.score or 0.0, row.state == "pruned") for row in rows]
    history(points, metric, f"Study {study.folder.name}", folder / "history.png", lowest=study.lowest)
    for one in searched:
        points = [(row.values[one.name], row.score or 0.0, row.state == "pruned") for row in rows]
        place = folder / f"{one.name.replace('/', '.')}.png"
        order = one.options if one.kind == "choice" else None
        chosen = (best.values[one.name], best.score or 0.0)
        against(points, chosen, (one.name, metric), place, log=one.log, order=order)


def _heading(searched: Sequence[Searched], metric: str | None) -> list[str]:
    return ["trial", "state", metric or "score", *(one.name for one in searched), "seconds", "reason"]
