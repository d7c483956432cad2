"""A user's own sentence pairs, from a TSV, CSV or JSON Lines file."""

from pathlib import Path

from embedrun.config.spelling import nearest
from embedrun.dataset.columns import as_labels, as_scores, convert, label, score, sentence
from embedrun.dataset.records import KINDS, kind, read_table
from embedrun.rows import Rows
from embedrun.store import Store

_RULES = {"text1": sentence, "text2": sentence, "score": score, "label": label}
_TARGETS = ("score", "label")


class Pairs:
    """Sentence pairs with a score, an NLI label or both.

    Every row is held against the rules below; a file with a faulty row is refused, and the message names the
    first 20 faulty lines. Nothing is skipped.

    - `text1`, `text2`: not empty.
    - `score`: a finite number on any scale, higher is more similar.
    - `label`: 0 entailment, 1 neutral, 2 contradiction.

    Args:
        path: training file, relative to the caller's folder: `.tsv` (header, no quoting), `.csv` (header, RFC
            4180 quoting) or `.jsonl` (an object a line), UTF-8, each also with `.gz`.
        dev: file of the dev split; null for none.
        test: file of the test split; null for none.
        columns: our name to the file's name, one map for all splits; null for `text1`, `text2` and `score`
            under these names. It gives the targets: a target that it leaves out is not read.

    Raises:
        ValueError: if the map has an unknown name, lacks a text or every target, or uses a column twice.
    """

    name = "pairs"
    form = "pair"

    def __init__(
        self,
        *,
        path: str,
        dev: str | None = None,
        test: str | None = None,
        columns: dict[str, str] | None = None,
    ) -> None:
        self._columns = (
            {name: name for name in ("text1", "text2", "score")} if columns is None else dict(columns)
        )
        _check_map(self._columns)
        given = {"train": path, "dev": dev, "test": test}
        self._paths = {split: Path(name).expanduser() for split, name in given.items() if name is not None}
        self.splits = tuple(self._paths)
        self.targets = tuple(name for name in _TARGETS if name in self._columns)

    def files(self, split: str, store: Store) -> list[str]:
        """Files of the store that the split reads: none."""
        return []

    def file(self, split: str) -> Path:
        """The user's own file of a split."""
        if split not in self._paths:
            raise ValueError(f"Pairs: no split {split!r}; give dataset.{split}=FILE")
        return self._paths[split]

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read; nothing is read."""
        if split not in self._paths:
            return [f"dataset.{split}: no file given; pass dataset.{split}=FILE"]
        option = "dataset.path" if split == "train" else f"dataset.{split}"
        path = self._paths[split]
        if kind(path) is None:
            return [f"{option}: {str(path)!r} must end in {', '.join(KINDS)}, or one of these and .gz"]
        if path.is_dir():
            return [f"{option}: {str(path)!r} is a folder; give one file"]
        if not path.is_file():
            return [f"{option}: no file {str(path)!r}{_neighbour(path)} (looked in {path.absolute().parent})"]
        return []

    def read(self, split: str, store: Store) -> Rows:
        """The pairs of the split, in file order.

        Raises:
            DataError: if the file is missing or any row is faulty.
        """
        path = self.file(split)
        table = read_table(path, list(self._columns.values()))
        rules = {theirs: _RULES[ours] for ours, theirs in self._columns.items()}
        typed = convert(table.columns, rules, table.lines, table.faults)
        table.faults.check()
        values = {ours: typed[theirs] for ours, theirs in self._columns.items()}
        arrays = {"score": as_scores, "label": as_labels}
        return Rows(
            name=self.name,
            split=split,
            form=self.form,
            texts={"left": values["text1"], "right": values["text2"]},
            targets={target: arrays[target](values[target]) for target in self.targets},
        )


def _check_map(columns: dict[str, str]) -> None:
    for name in columns:
        if name not in _RULES:
            hint = nearest(str(name), _RULES)
            raise ValueError(f"Pairs: columns has no key {name!r}{hint} (keys: {', '.join(_RULES)})")
    for name in ("text1", "text2"):
        if name not in columns:
            raise ValueError(f"Pairs: columns lacks {name!r}; it needs text1, text2 and score or label")
    if not any(name in columns for name in _TARGETS):
        raise ValueError("Pairs: columns names neither score nor label; a loss needs at least one of them")
    if len(set(columns.values())) < len(columns):
        raise ValueError(f"Pairs: columns uses one column of the file twice: {columns}")


def _neighbour(path: Path) -> str:
    folder = path.parent
    return nearest(path.name, [entry.name for entry in folder.iterdir()]) if folder.is_dir() else ""
