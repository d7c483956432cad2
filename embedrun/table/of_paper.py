"""The table of a paper from the runs that are there: its cells, its curve, its statistics of data."""

import hashlib
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embedrun import plot
from embedrun.backbone.tokens import tokens_of
from embedrun.config.check import nearest
from embedrun.console import clean, say
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, read_json
from embedrun.store import Store
from embedrun.table.cells import Cells, Seeds
from embedrun.table.preset import Figure, Table
from embedrun.table.sheet import Counted, Sheet, sheet_of

if TYPE_CHECKING:
    from embedrun.rows import Rows

PLOTS = Path("outputs") / "tables"


def sheet_for(
    table: Table,
    cells: Cells,
    seeds: Seeds | None = None,
    *,
    plots: Path = PLOTS,
    statistics_from: tuple[str | None, Path | None] = (None, None),
) -> Sheet:
    """The table with what was measured beside what is printed; the plot of a figure is written.

    Args:
        seeds: None: see `Cells.find`.
        plots: folder of the plots; is made if need be.
        statistics_from: for rows of statistics: a data folder or None for the store, and a folder with a
            tokenizer or None.

    Raises:
        ConfigError: if an override of the cells is refused.
        DataError: if the data of statistics is there and cannot be read.
    """
    slots = cells.find(table, seeds)
    counted = _counted(table, plots, *statistics_from)
    sheet = sheet_of(
        table, slots, scale=cells.scale, extra=cells.extra, counted=counted, default=cells.seeds(table)
    )
    if table.figure is not None:
        draw(table, table.figure, sheet, plots)
    return sheet


def _counted(table: Table, plots: Path, data_dir: str | None, tokenizer: Path | None) -> Counted | None:
    if table.statistics is None:
        return None
    return counted(table, Source(Store.find(data_dir).root, tokenizer, plots))


@dataclass(frozen=True)
class Point:
    """One row: its x, and the measured and the printed y; None where there is none.

    `sd` is over the seeds, None below two.
    """

    x: float
    mean: float | None
    sd: float | None
    paper: float | None


def points(table: Table, figure: Figure, sheet: Sheet) -> dict[float | None, list[Point]]:
    """The points of a figure by the line that they are on, None where there is a single one; sorted by x."""
    (column,) = [place for place, each in enumerate(table.columns) if each.key == figure.y]
    lines: dict[float | None, list[Point]] = {}
    for row, shown in sorted(zip(table.rows, sheet.rows, strict=True), key=lambda both: both[0].x or 0.0):
        entry = shown.entries[column]
        paper = entry.paper if isinstance(entry.paper, int | float) else None
        if row.x is not None:
            lines.setdefault(row.line, []).append(Point(row.x, entry.mean, entry.sd, paper))
    return {line: lines[line] for line in sorted(lines, key=lambda line: line or 0.0)}


_TITLE = 75  # characters a line


def draw(table: Table, figure: Figure, sheet: Sheet, folder: Path) -> Path | None:
    """The plot of a figure; None where nothing was measured, or where it cannot be written.

    Plots of other runs get another file: its name has the setting, and a hash of the overrides.
    """
    if not any(entry.mean is not None for entry in sheet.entries):
        say(f"{table.name}: nothing is measured, so no curve is drawn")
        return None
    curves = points(table, figure, sheet)
    lines = {
        "" if line is None else f"{figure.line} = {line:g}": [
            (point.x, point.mean, point.sd) for point in curve if point.mean is not None
        ]
        for line, curve in curves.items()
    }
    printed = [
        (point.x, point.paper) for curve in curves.values() for point in curve if point.paper is not None
    ]
    axes = figure.x, next(column.heading for column in table.columns if column.key == figure.y)
    words = [sheet.name.replace("/", "_"), *([sheet.scale] if sheet.scale else [])]
    title = [sheet.title]
    if sheet.scale:
        title.append(f"reduced setting {sheet.scale}: not a reproduction")
    if sheet.overrides:
        words.append(hashlib.sha256("\n".join(sheet.overrides).encode()).hexdigest()[:8])
        text = clean(f"every run with {', '.join(sheet.overrides)}")
        title += textwrap.wrap(text, _TITLE, break_on_hyphens=False)
    best, heading = _best(figure, sheet), "\n".join(title)
    path = folder / f"{'_'.join(words)}.png"
    if plot.write_plot(path, lambda path: plot.sweep(lines, printed, best, axes, heading, path)):
        say(f"the curve is in {path}")
        return path
    return None


def _best(figure: Figure, sheet: Sheet) -> tuple[float, str] | None:
    if figure.best is None or sheet.scale:
        return None
    line = "" if figure.best_line is None else f" at {figure.line} = {figure.best_line:g}"
    return figure.best, f"the paper's optimum, {figure.best:g}{line}"


_LONG = 512  # tokens; AnglE, Sec. 4.1, calls longer texts long
_TOKENIZER = ("google-bert/bert-base-uncased", "tokenizer.json")


@dataclass(frozen=True)
class Source:
    """Where to look for the numbers.

    Args:
        folder: output of the command that the table names, or a data store.
        tokenizer: folder with `tokenizer.json`; None: BERT's, where the hub's cache has it.
        plots: folder of plots; None for no plot.
    """

    folder: Path
    tokenizer: Path | None = None
    plots: Path | None = None


def counted(table: Table, source: Source) -> Counted:
    """The numbers for the rows of statistics of a table, which has `statistics`.

    The file that the table names is preferred; where the store has the data set without that file, its rows
    are read and counted.

    Raises:
        DataError: if the file or the rows are there and cannot be read.
    """
    assert table.statistics is not None, "rows of statistics say what they are read from"
    file = table.statistics.file
    name = Path(file).name
    for path in (source.folder / file, source.folder / "nli" / name):
        content = _read(path)
        # Lengths are of tokens here, and the command may have counted words.
        if content is not None and (not _asks_for_lengths(table) or content.get("length_unit") == "tokens"):
            return Counted(content, str(path))
    if name not in _COUNTS:
        raise ConfigError(
            f"table/{table.name}.yaml: statistics.file: nothing counts what is in {name!r}"
            f"{nearest(name, _COUNTS)} (there are: {', '.join(_COUNTS)})"
        )
    return _COUNTS[name](table, source)


def _read(path: Path) -> Plain | None:
    try:
        content = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        raise DataError(f"{path}: cannot be read as JSON ({fault})") from fault
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds no object; it is not what the command wrote")
    return content


def _asks_for_lengths(table: Table) -> bool:
    paths = [path for row in table.rows for keys in (row.keys or {}).values() for path in keys]
    return any(path.endswith("long_texts") for path in paths)


def _github_issues(table: Table, source: Source) -> Counted:
    """Pairs of each split and, where the table asks for it, the share of long texts."""
    from embedrun.dataset.published import GithubIssues

    dataset, store = GithubIssues(), Store(source.folder)
    if lacking := [text for split in dataset.splits for text in dataset.problems(split, store)]:
        return Counted(lacks=_lacks(lacking[0]))
    count = None
    if _asks_for_lengths(table):
        file = _tokenizer(source.tokenizer)
        if file is None:
            return Counted(lacks="Lengths in tokens need --tokenizer DIR, the folder of a BERT model")
        count = tokens_of(file, "--tokenizer")
    splits, lengths = {}, {}
    for split in dataset.splits:
        rows = dataset.read(split, store)
        score = rows.targets["score"]  # (rows,)
        splits[split] = {"positive": int((score == 1).sum()), "negative": int((score == 0).sum())}
        if count is not None:
            lengths[split] = _lengths(rows, count)  # (texts,)
            splits[split]["long_texts"] = round(100 * float((lengths[split] > _LONG).mean()), 2)
    if lengths and source.plots is not None:
        path = _plot(table, source.plots)
        plot.write_plot(path, lambda path: plot.lengths(lengths, "tokens", _LONG, path))
    return Counted({"splits": splits}, f"the rows of {dataset.name} in {source.folder}")


def _scores_by_label(table: Table, source: Source) -> Counted:
    """Pairs and mean score of each label."""
    from embedrun.dataset.nli import Merged, NliScored, by_label

    folder = source.folder
    dataset = NliScored(path=str(folder)) if (folder / "nli_scored.jsonl.gz").is_file() else NliScored()
    store = Store(folder)
    if lacking := dataset.problems("train", store):
        return Counted(lacks=_lacks(lacking[0]))
    rows = dataset.read("train", store)
    groups = Merged(rows.targets["label"], rows.targets["score"]).groups()
    if source.plots is not None:
        axis, title = "mean cosine of the teachers", "Scores by label"
        plot.write_plot(_plot(table, source.plots), lambda path: plot.histogram(groups, axis, title, path))
    return Counted(by_label(groups), f"the rows of {dataset.name} in {folder}")


# By the name of the file that the table reads.
_COUNTS: dict[str, Callable[[Table, Source], Counted]] = {
    "provenance.json": _github_issues,
    "scores_by_label.json": _scores_by_label,
}


def _plot(table: Table, folder: Path) -> Path:
    return folder / f"{table.name.replace('/', '_')}.png"


def _lacks(problem: str) -> str:
    """Why there is nothing to count: what is missing, without the remedies, which the table has itself."""
    return f"No data to count: {problem.partition(';')[0]}"


def _lengths(rows: "Rows", count: Callable[[Sequence[str]], list[int]]) -> np.ndarray:
    """Tokens of every text of the rows, ``(2 x rows,)``."""
    both = zip(*rows.texts.values(), strict=True)
    return np.array(count([text for pair in both for text in pair]))


def _tokenizer(folder: Path | None) -> Path | None:
    """The tokenizer's file; None where none was given and BERT's is not in the hub's cache.

    Raises:
        DataError: if the folder has none.
    """
    if folder is not None:
        if not (folder / _TOKENIZER[1]).is_file():
            raise DataError(f"--tokenizer: no {_TOKENIZER[1]} in {str(folder)!r}; name the folder of a model")
        return folder / _TOKENIZER[1]
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(*_TOKENIZER)
    return Path(found) if isinstance(found, str) else None
