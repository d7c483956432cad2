"""The table of a paper from the runs that are there: its cells, its curve, its statistics of data."""

import hashlib
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from embedrun import plot
from embedrun.console import clean, number, say
from embedrun.errors import DataError
from embedrun.files import as_written, read_json
from embedrun.store import Store
from embedrun.table.cells import Cells, Seeds, Slot
from embedrun.table.preset import Figure, Table
from embedrun.table.sheet import NOT_COUNTED, Counted, Sheet, sheet_of


def sheet_for(
    table: Table,
    cells: Cells,
    seeds: Seeds | None = None,
    *,
    plots: Path = Path("outputs/tables"),
    plot_format: str = "png",
    data_dir: str | None = None,
    tokenizer: Path | None = None,
) -> Sheet:
    """The table with what was measured beside what is printed; the plot of a figure is written into `plots`.

    `plot_format` is the ending of its name: png, pdf or svg.

    Without `seeds`, see `Cells.find`. Statistics are of `data_dir`, or the store; for lengths in tokens they
    need the folder of a `tokenizer`.
    """
    slots = cells.find(table, seeds)
    numbers = NOT_COUNTED
    if table.statistics is not None:
        numbers = counted(table, Store.find(data_dir).root, tokenizer=tokenizer, plots=plots)
    sheet = sheet_of(cells.seeded(table), slots, scale=cells.scale, extra=cells.extra, counted=numbers)
    if table.figure is not None:
        draw(table, table.figure, sheet, plots, plot_format)
    if table.panels is not None:
        draw_panels(table.panels, slots, sheet, plots, plot_format)
    return sheet


# One row: its x, the mean and the standard deviation of what was measured, and the printed y.
Point = tuple[float, float | None, float | None, float | None]


def points(table: Table, figure: Figure, sheet: Sheet) -> dict[float | None, list[Point]]:
    """The points of a figure by the line that they are on, None where there is a single one; sorted by x."""
    place = [column.key for column in table.columns].index(figure.y)
    lines: dict[float | None, list[Point]] = {}
    pairs = zip(table.rows, sheet.rows, strict=True)
    for row, shown in sorted(pairs, key=lambda pair: (pair[0].line or 0.0, pair[0].x or 0.0)):
        entry = shown.entries[place]
        lines.setdefault(row.line, []).append((row.x or 0.0, entry.mean, entry.sd, number(entry.paper)))
    return lines


_TITLE = 75  # characters a line


def draw(table: Table, figure: Figure, sheet: Sheet, folder: Path, ending: str) -> None:
    """Write the plot of a figure, as far as something was measured.

    Plots of other runs get another file: its name has the setting, and a hash of the overrides.
    """
    if all(entry.mean is None for entry in sheet.entries):
        say(f"{table.name}: nothing is measured, so no curve is drawn")
        return
    curves = points(table, figure, sheet)
    lines = {
        _line_name(figure, line): [(x, mean, sd) for x, mean, sd, _ in curve if mean is not None]
        for line, curve in curves.items()
    }
    printed = [(x, paper) for curve in curves.values() for x, _, _, paper in curve if paper is not None]
    axes = figure.x, next(column.heading for column in table.columns if column.key == figure.y)
    title, best = [sheet.title], None
    if sheet.scale:
        title.append(f"reduced setting {sheet.scale}: not a reproduction")
    elif figure.best is not None:
        optimum = (f"the paper's optimum, {figure.best:g}", _line_name(figure, figure.best_line))
        best = figure.best, " at ".join(filter(None, optimum))
    if sheet.overrides:
        text = clean(f"every run with {', '.join(sheet.overrides)}")
        title += textwrap.wrap(text, _TITLE, break_on_hyphens=False)
    path = folder / f"{'_'.join(_words(sheet))}.{ending}"
    if plot.write_plot(path, lambda path: plot.sweep(lines, printed, best, axes, "\n".join(title), path)):
        say(f"the curve is in {path}")


def _words(sheet: Sheet) -> list[str]:
    """What the file of a plot is called: the table, its setting, and a hash of the overrides."""
    words = [sheet.name.replace("/", "_"), *([sheet.scale] if sheet.scale else [])]
    if sheet.overrides:
        words.append(hashlib.sha256("\n".join(sheet.overrides).encode()).hexdigest()[:8])
    return words


def draw_panels(name: str, slots: Sequence[Slot], sheet: Sheet, folder: Path, ending: str) -> None:
    """Write the plot of how the cosines of each row lie, those of its first seed, beside the gold scores."""
    import pyarrow.parquet as pq

    gold, cosines = np.empty(0), dict[str, np.ndarray]()
    for slot in slots:
        if slot.run is None or slot.row.id in cosines:
            continue
        path = slot.run.path / "predictions" / f"{name}.parquet"
        if not path.is_file():
            say(f"{path}: is not there, so {slot.row.id} has no panel")
            continue
        with as_written(path, "a prediction file with rows of gold and score", "evaluate again"):
            columns = pq.read_table(path, columns=["gold", "score"])
        own, cosine = (column.to_numpy() for column in columns.columns)  # (pairs,) each
        if cosines and not np.array_equal(own, gold):
            say(f"{path}: has other rows than the first panel, so it is left out")
            continue
        gold, cosines[slot.row.id] = own, cosine
    if not cosines:
        say(f"{sheet.name}: nothing is measured, so no panel is drawn")
        return
    path = folder / f"{'_'.join([*_words(sheet), 'panels'])}.{ending}"
    if plot.write_plot(path, lambda path: plot.panels(cosines, gold, sheet.title, path)):
        say(f"the panels are in {path}")


def _line_name(figure: Figure, line: float | None) -> str:
    return "" if line is None else f"{figure.line} = {line:g}"


_LONG = 512  # tokens; AnglE, Sec. 4.1, calls longer texts long
_TOKENIZER = ("google-bert/bert-base-uncased", "tokenizer.json")


def counted(table: Table, folder: Path, *, plots: Path, tokenizer: Path | None = None) -> Counted:
    """The numbers for the rows of statistics of a table, which has `statistics`.

    The file that the table names is preferred; where there is the data set without it, its rows are counted,
    and plotted into `plots`. `folder` is the output of the command that the table names, or a data store.
    """
    assert table.statistics is not None, "rows of statistics say what they are read from"
    name = Path(table.statistics.file).name
    in_tokens = any("long_texts" in str(row.keys) for row in table.rows)
    for path in filter(Path.is_file, (folder / table.statistics.file, folder / "nli" / name)):
        with as_written(path, "what the command wrote", f"run it again: {table.statistics.command}"):
            content = dict(read_json(path))
        # Lengths are of tokens here, and the command may have counted words.
        if not in_tokens or content.get("length_unit") == "tokens":
            return Counted(content, str(path))
    plot_at = plots / f"{table.name.replace('/', '_')}.png"
    if name == "scores_by_label.json":
        return _scores_by_label(folder, plot_at)
    if not in_tokens:
        return _github_issues(folder, None, plot_at)
    words = _tokenizer(tokenizer)
    if words is None:
        return Counted(lacks="Lengths in tokens need --tokenizer DIR, the folder of a BERT model")
    from embedrun.backbone.tokens import tokens_of  # imports torch, which no other table needs

    return _github_issues(folder, tokens_of(words, "--tokenizer"), plot_at)


def _github_issues(folder: Path, count: Callable[[Sequence[str]], list[int]] | None, path: Path) -> Counted:
    from embedrun.dataset.published import GithubIssues

    dataset, store = GithubIssues(), Store(folder)
    if lacking := [text for split in dataset.splits for text in dataset.problems(split, store)]:
        return _lacks(lacking[0])
    splits, lengths = {}, {}
    for split in dataset.splits:
        rows = dataset.read(split, store)
        score = rows.targets["score"]  # (rows,)
        splits[split] = {"positive": int((score == 1).sum()), "negative": int((score == 0).sum())}
        if count is not None:
            lengths[split] = np.array([n for texts in rows.texts.values() for n in count(texts)])  # (texts,)
            splits[split]["long_texts"] = round(100 * float((lengths[split] > _LONG).mean()), 2)
    if lengths:
        plot.write_plot(path, lambda path: plot.lengths(lengths, "tokens", _LONG, path))
    return Counted({"splits": splits}, f"the rows of {dataset.name} in {folder}")


def _scores_by_label(folder: Path, path: Path) -> Counted:
    from embedrun.dataset.nli import NliScored, by_label, grouped

    dataset = NliScored(path=str(folder)) if (folder / "nli_scored.jsonl.gz").is_file() else NliScored()
    store = Store(folder)
    if lacking := dataset.problems("train", store):
        return _lacks(lacking[0])
    rows = dataset.read("train", store)
    groups = grouped(rows.targets["label"], rows.targets["score"])
    axis, title = "mean cosine of the teachers", "Scores by label"
    plot.write_plot(path, lambda path: plot.histogram(groups, axis, title, path))
    return Counted(by_label(groups), f"the rows of {dataset.name} in {folder}")


def _lacks(problem: str) -> Counted:
    """Why there is nothing to count: what is missing, without the remedies, which the table has itself."""
    return Counted(lacks=f"No data to count: {problem.partition(';')[0]}")


def _tokenizer(folder: Path | None) -> Path | None:
    """The tokenizer's file; None where none was given and BERT's is not in the hub's cache."""
    if folder is None:
        from huggingface_hub import try_to_load_from_cache

        path = try_to_load_from_cache(*_TOKENIZER)
        return Path(path) if isinstance(path, str) else None
    if not (folder / _TOKENIZER[1]).is_file():
        raise DataError(f"--tokenizer: no {_TOKENIZER[1]} in {str(folder)!r}; name the folder of a model")
    return folder / _TOKENIZER[1]
