"""The numbers that a paper prints for a run's configuration, and the texts of its worst pairs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from embedrun import family
from embedrun.config import presets
from embedrun.dataset import DataSet
from embedrun.dataset.named import data_split, unreadable
from embedrun.dataset.split import hold_out
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain
from embedrun.report.diff import STS_SETS, Predictions, files, score_key
from embedrun.report.facts import at
from embedrun.report.scores import ScoredPairs
from embedrun.rows import Rows
from embedrun.runs.reading import RunFiles, run_behind
from embedrun.store import Store
from embedrun.table.cells import Cells, measured
from embedrun.table.preset import RUN, Cell, Row, Table, load, names


def printed(run: RunFiles) -> tuple[dict[str, float], str]:
    """The numbers that the papers print for the configuration of a run, by the key of `results.json`.

    None are printed for a run in a reduced setting, for a run with any other value of an option that decides
    its scores, or for a training run under a name of the user's own: only the rows of its name are composed.
    Where two tables print different numbers, that of the first counts. The second value says where they are
    printed; both may be empty.
    """
    candidates = list(_candidates(run))
    if not candidates:
        return {}, ""
    cells, keys = Cells([]), [one.key for one in measured(_with_first(run)) if one.path == run.path]
    numbers: dict[str, float] = {}
    sources: dict[str, None] = {}
    for table, row, cell in candidates:
        (slot,) = cells.find(replace(table, rows=(replace(row, cells=(cell,)),)), [0])
        found = _numbers(table, row, cell) if [slot.key] == keys else {}
        numbers = found | numbers
        if any(numbers[key] == value for key, value in found.items()):
            sources[row.source or table.source] = None
    return numbers, "; ".join(sources)


def _candidates(run: RunFiles) -> Iterator[tuple[Table, Row, Cell]]:
    """The cells that may be this run, without composing them: by its name, or the model that it scores."""
    command = "train" if "training" in run.config else "evaluate"
    wanted = _overrides(run)
    for name in names():
        # This runs at the end of every run, and nearly all are in no table: what cannot match is not parsed.
        text = (presets.folder() / "table" / f"{name}.yaml").read_text(encoding="utf-8")
        if any(override in text for override in wanted):
            table = load(name)
            for row in table.rows:
                for cell in row.cells:
                    if cell.command == command and cell.not_runnable is None and wanted & {*cell.overrides}:
                        yield table, row, cell


def _overrides(run: RunFiles) -> set[str]:
    """Overrides of which a row has one that trains under the name of this run, or scores its model."""
    if "training" in run.config:
        name = run.config.get("name")
        return {f"name={name}", *(f"+experiment={one}" for one in _experiments(name))}
    first = _first(run)
    names = [] if first is None else _experiments(first.config.get("name"))
    return {f"model={run.config.get('model')}", *(f"model={RUN}{one}" for one in names)}


def _experiments(name: object) -> list[str]:
    """The experiments whose runs have a name."""
    paths = sorted((presets.folder() / "experiment").glob("*.yaml"))
    named = re.compile(rf"^name: {re.escape(str(name))}\s*(#.*)?$", re.MULTILINE)
    return [path.stem for path in paths if named.search(path.read_text(encoding="utf-8"))]


def _with_first(run: RunFiles) -> list[RunFiles]:
    """The run, and those that it starts from or scores, as far as they exist and can be read."""
    found = {run.path: run}
    while (first := _first(run)) is not None and first.path not in found:
        try:
            run = found[first.path] = RunFiles.read(first.path)
        except DataError:
            break
    return list(found.values())


def _first(run: RunFiles) -> RunFiles | None:
    return run_behind(run.config.get("model") or at(run.config, "backbone.name"))


def _numbers(table: Table, row: Row, cell: Cell) -> dict[str, float]:
    found = {}
    for column in table.columns:
        value = row.published.get(column.heading)
        if column.key and column.heading in cell.headings and isinstance(value, int | float):
            found[column.key] = float(value)
    return found


_OWN = re.compile(r"(.+)_(train|dev|test)")  # predictions on a split of the run's own data set
_GONE = "so that only the rows are named."


def scored_pairs(run: RunFiles) -> tuple[list[ScoredPairs], list[str]]:
    """Every set of graded pairs that a run has predictions on, and what cannot be read, a line each.

    The set of the main score comes first, those of dev splits last, those of STS in the papers' order.
    """
    found, remarks = [], []
    for name, path in files(run.path).items():
        try:
            predictions = Predictions.read(path)
        except DataError as fault:
            remarks += [problem.replace(str(path), f"predictions/{path.name}") for problem in fault.problems]
            continue
        if predictions.kind == "correlation" and predictions.gold is not None:
            texts, missing = _texts(run, name, predictions.gold)
            key = score_key(name, run.scores)
            found.append(ScoredPairs(name, key, predictions.gold, predictions.predicted, texts, missing))
    main = run.main.get("name")
    order = {name: place for place, name in enumerate(STS_SETS)}
    found.sort(key=lambda one: (one.key != main, one.name.endswith("_dev"), order.get(one.name, len(order))))
    return found, remarks


def _texts(run: RunFiles, name: str, gold: np.ndarray) -> tuple[tuple[list[str], list[str]] | None, str]:
    """Both texts of every pair, or why there are none."""
    try:
        dataset, split = _data_set(run.config, name)
        store = Store.find(run.config.get("data_dir"))
        was_held_out = split == "dev" and split not in dataset.splits  # out of the training rows
        read = "train" if was_held_out else split
        if unreadable([(dataset, read)], store):
            return None, f"The texts of {name} are not in the data folder that EMBEDRUN_DATA names, {_GONE}"
        rows = dataset.read(read, store)
        if was_held_out:
            rows = hold_out(rows, run.config["dataset"].get("split_seed", 42)).dev or rows
    except (ConfigError, DataError, KeyError, ValueError, TypeError, AttributeError, ImportError, OSError):
        return None, f"The texts of {name} cannot be read again, {_GONE}"
    if not _same(rows, gold, run.environment.get("data")):
        return None, f"The rows of {name} at hand are not those that this run read, {_GONE}"
    return (list(rows.texts["left"]), list(rows.texts["right"])), ""


def _data_set(config: Plain, name: str) -> tuple[DataSet, str]:
    """The data set and the split that a prediction file is on.

    Raises:
        ValueError: if no data set has that name.
    """
    if name in STS_SETS:
        return data_split(name, "test")
    own, part = config.get("dataset"), _OWN.fullmatch(name)
    if isinstance(own, Mapping) and part:
        options = {key: value for key, value in own.items() if key not in ("name", "prompts")}
        dataset: DataSet = family.find("dataset", str(own.get("name")))(**options)
        if dataset.name == part[1]:
            return dataset, part[2]
    return data_split(name, "test")


def _same(rows: Rows, gold: np.ndarray, read: object) -> bool:
    """Whether these are the rows that were scored, by the run's fingerprints and by their human scores."""
    if rows.form != "pair" or len(rows) != len(gold) or not isinstance(read, Mapping):
        return False
    name = f"{rows.name}/{rows.split}"
    known = [value for key, value in read.items() if key == name or key.startswith(f"{name}.")]
    return rows.fingerprint() in known and np.array_equal(rows.targets["score"], gold)
