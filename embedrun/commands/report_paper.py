"""The papers' numbers for a run: those of the table rows that ask for its configuration and any seed."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedrun.commands.run_index import RunIndex
from embedrun.config import presets
from embedrun.errors import DataError
from embedrun.runs.reading import RunFiles, is_run
from embedrun.table.identity import RUN
from embedrun.table.preset import Cell, Row, Table, load, names

_MODEL = "model"  # folder of a run directory


def printed(run: RunFiles) -> tuple[dict[str, float], str]:
    """The numbers that the papers print for the configuration of a run.

    A run in a reduced setting has none, neither has one with any other value of an option that decides its
    scores, and neither has a training run under a name of the user's own: only the rows of its name are
    composed. Where two tables print different numbers, that of the first counts.

    Args:
        run: finished or not.

    Returns:
        The numbers by the key of `results.json`, and where they are printed; both may be empty.
    """
    asked = list(_asked(run))
    if not asked:
        return {}, ""
    from embedrun.commands.table_cells import Cells

    cells, keys = Cells([]), [one.key for one in RunIndex(_with_first(run)).measured if one.path == run.path]
    numbers: dict[str, float] = {}
    sources: dict[str, None] = {}
    for table, row, cell in asked:
        (slot,) = cells.find(replace(table, rows=(replace(row, cells=(cell,)),)), [0])
        found = _numbers(table, row, cell) if [slot.key] == keys else {}
        numbers = found | numbers
        if any(numbers[key] == value for key, value in found.items()):
            sources[row.source] = None
    return numbers, "; ".join(sources)


def _asked(run: RunFiles) -> Iterator[tuple[Table, Row, Cell]]:
    """The cells that may be this run, by what needs no composition: its name, or the model that it scores."""
    command = "train" if "training" in run.config else "evaluate"
    wanted = _trained(run.config) if command == "train" else _scored(run)
    for name in names() if wanted else ():
        # Every run is asked when it ends, and nearly all are in no table: what cannot be there is not parsed.
        text = (presets.folder() / "table" / f"{name}.yaml").read_text(encoding="utf-8")
        if any(one in text for one in wanted):
            yield from _with_one_of(load(name), command, wanted)


def _with_one_of(table: Table, command: str, wanted: set[str]) -> Iterator[tuple[Table, Row, Cell]]:
    for row in table.rows:
        for cell in row.cells:
            if cell.command == command and cell.not_runnable is None and wanted & {*cell.overrides}:
                yield table, row, cell


def _trained(config: dict[str, Any]) -> set[str]:
    """Overrides one of which a row has that trains under the name of this run."""
    name = config.get("name")
    return {f"name={name}", *(f"+experiment={one}" for one in _experiments(name))}


def _scored(run: RunFiles) -> set[str]:
    """Overrides one of which a row has that scores the model of this run."""
    first = _first(run)
    name = None if first is None else _read(first).get("name")
    return {f"model={run.config.get('model')}", *(f"model={RUN}{one}" for one in _experiments(name))}


def _experiments(name: Any) -> list[str]:
    """The experiments whose runs have a name."""
    files = sorted((presets.folder() / "experiment").glob("*.yaml"))
    named = re.compile(rf"^name: {re.escape(str(name))}\s*(#.*)?$", re.MULTILINE)
    return [file.stem for file in files if named.search(file.read_text(encoding="utf-8"))]


def _read(folder: Path) -> dict[str, Any]:
    try:
        return RunFiles.read(folder).config
    except DataError:
        return {}


def _with_first(run: RunFiles) -> list[RunFiles]:
    """The run, and those that it starts from or scores, as far as they are there and can be read."""
    found = {run.path: run}
    while (folder := _first(run)) is not None and folder not in found:
        try:
            run = found[folder] = RunFiles.read(folder)
        except DataError:
            break
    return list(found.values())


def _first(run: RunFiles) -> Path | None:
    backbone = run.config.get("backbone")
    name = run.config.get("model") or (backbone.get("name") if isinstance(backbone, dict) else None)
    if not isinstance(name, str) or "/" not in name:
        return None
    path = Path(name)
    folder = path.parent if path.name == _MODEL else path
    try:
        return folder if is_run(folder) else None
    except OSError:  # a name that is too long, a folder that may not be looked into
        return None


def _numbers(table: Table, row: Row, cell: Cell) -> dict[str, float]:
    found = {}
    for column in table.columns:
        value = row.published.get(column.heading)
        if column.key is not None and column.heading in cell.headings and isinstance(value, int | float):
            found[column.key] = float(value)
    return found
