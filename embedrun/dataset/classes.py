"""Texts with a class: what a loss for classes trains on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedrun.dataset.pairs import Layout, OfUser, OnBadRow, Source, columns_of, layout
from embedrun.rows import Rows
from embedrun.store.columns import sentence, shown


def _class(value: object) -> str:
    """The name of a class: text that is not blank, or a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"expected a class, text or a whole number, got {shown(value)}")
    return sentence(str(value)).strip()


@dataclass(frozen=True)
class _OfClasses(Layout):
    @property
    def views(self) -> Mapping[str, str]:
        return {"text": "text"}

    @property
    def targets(self) -> tuple[str, ...]:
        return ("category",)

    @property
    def rules(self) -> dict[str, Any]:
        return {self.columns["text"]: sentence, self.columns["class"]: _class}


class Classes(OfUser):
    """One text a row with its class, a word or a whole number: texts of a class are alike.

    Dev and test splits are scored pairs, as `Pairs` reads them.

    Args:
        path: training file or folder of shards, as of `Pairs`, or `hf://datasets/OWNER/NAME`.
        dev: pairs with a score that select the checkpoint; null for none.
        test: pairs with a score; null for none.
        columns: our name to the file's name, for `text` and `class`; null for these or usual names.
        pair_columns: the same for dev and test; null for `text1`, `text2` and `score`.
        separator: of fields of `.csv` and `.tsv`, `\\t` for a tab; null for a comma and a tab.
        on_bad_row: `refuse`, or `skip`, which leaves faulty rows out and lists them in `Rows.skipped`.
        config: of the data set of the hub; null for its default one.
        revision: commit, branch or tag there; null for the newest. The commit is noted in the run.
        splits: `{train: NAME}`, the hub's split that is trained on; null for `train`.
    """

    name = "classes"
    form = "text"
    targets = ("category",)

    def __init__(
        self,
        *,
        path: str,
        dev: str | None = None,
        test: str | None = None,
        columns: dict[str, str] | None = None,
        pair_columns: dict[str, str] | None = None,
        separator: str | None = None,
        on_bad_row: OnBadRow = "refuse",
        config: str | None = None,
        revision: str | None = None,
        splits: dict[str, str] | None = None,
    ) -> None:
        source = Source(path, dev, test, separator, on_bad_row, config, revision, splits)
        known = columns_of(source, columns, ("text", "class"))
        if set(known.columns) != {"text", "class"}:
            raise ValueError(f"Classes: columns must name text and class, got {dict(known.columns)}")
        self._numbers: dict[str, int] = {}  # of the classes, in the order of the file
        held_out = layout("Classes", "pair_columns", "pair", pair_columns)
        train = _OfClasses("text", known.columns, "columns")
        super().__init__(train, held_out, source, accepted=("train",), said=known.said)

    def of_columns(self, layout: Layout, columns: Mapping[str, list[Any]]) -> Rows:
        """Rows with the number of their class."""
        if not isinstance(layout, _OfClasses):
            return super().of_columns(layout, columns)
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in columns.get("class", [])]
        targets = {"category": np.array(numbers, np.int64)}
        return Rows(self.name, "train", "text", {"text": columns.get("text", [])}, targets)
