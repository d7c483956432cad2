"""Counts, lengths and scores of a data set, for the tables that print them: from a file, or counted anew."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embedrun.backbone.tokens import tokens_of
from embedrun.config.check import nearest
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, read_json
from embedrun.plot import write_plot
from embedrun.store import Store
from embedrun.table.preset import Table
from embedrun.table.rows import Counted

if TYPE_CHECKING:
    from embedrun.rows import Rows


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
        found = _read(path)
        if found is not None and _is_in_tokens(found, table):
            return Counted(found, str(path))
    if name not in _COUNTS:
        raise ConfigError(
            f"table/{table.name}.yaml: statistics.file: nothing counts what is in {name!r}"
            f"{nearest(name, _COUNTS)} (there are: {', '.join(_COUNTS)})"
        )
    return _COUNTS[name](table, source)


def _read(path: Path) -> Plain | None:
    try:
        found = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        raise DataError(f"{path}: cannot be read as JSON ({fault})") from fault
    if not isinstance(found, dict):
        raise DataError(f"{path}: holds no object; it is not what the command wrote")
    return found


def _is_in_tokens(found: Plain, table: Table) -> bool:
    """Whether lengths, where the table has any, are counted in tokens and not in words."""
    return not _asks_for_lengths(table) or found.get("length_unit") == "tokens"


def _asks_for_lengths(table: Table) -> bool:
    paths = (path for row in table.rows for own in row.keys.values() for path in own)
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
        from embedrun import plot

        path = source.plots / f"{table.name.replace('/', '_')}.png"
        write_plot(path, lambda path: plot.lengths(lengths, "tokens", _LONG, path))
    return Counted({"splits": splits}, f"the rows of {dataset.name} in {source.folder}")


def _scores_by_label(table: Table, source: Source) -> Counted:
    """Pairs and mean score of each label."""
    from embedrun.dataset.nli_scored import Merged, NliScored, by_label

    folder = source.folder
    dataset = NliScored(path=str(folder)) if (folder / "nli_scored.jsonl.gz").is_file() else NliScored()
    store = Store(folder)
    if lacking := dataset.problems("train", store):
        return Counted(lacks=_lacks(lacking[0]))
    rows = dataset.read("train", store)
    groups = Merged(rows.targets["label"], rows.targets["score"]).groups()
    if source.plots is not None:
        from embedrun import plot

        path = source.plots / f"{table.name.replace('/', '_')}.png"
        write_plot(
            path,
            lambda path: plot.histogram(groups, "mean cosine of the teachers", "Scores by label", path),
        )
    return Counted(by_label(groups), f"the rows of {dataset.name} in {folder}")


# By the name of the file that the table reads.
_COUNTS: dict[str, Callable[[Table, Source], Counted]] = {
    "provenance.json": _github_issues,
    "scores_by_label.json": _scores_by_label,
}


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
