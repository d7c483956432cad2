"""Queries with lists of positives and of hard negatives, some of which are drawn for each epoch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from embedrun.dataset.pairs import Layout, OfUser, OnBadRow, Source, columns_of, layout
from embedrun.rows import Lists, Rows
from embedrun.store.columns import score, sentence, shown

_ANCHOR, _TEXTS = "anchor", ("positive", "negative")
_SCORES = {"positive_scores": "positive", "negative_scores": "negative"}  # by the texts that they are of


@dataclass(frozen=True)
class _Unequal:
    """Scores that are more or fewer than the texts beside them."""

    texts: int
    scores: int


def _list(value: object, item: Any, what: str) -> list[Any]:
    """A list of values that fit the rule `item`; one value alone counts as a list of it."""
    if isinstance(value, _Unequal):
        raise ValueError(f"{value.scores} scores for {value.texts} texts; give one for each")
    values = [value] if isinstance(value, str | int | float) else value
    if not isinstance(values, Sequence):
        raise ValueError(f"expected a list of {what}, got {shown(value)}")
    if not values:
        raise ValueError(f"the list of {what} is empty; leave the row out, or the column")
    return [item(one) for one in values]


@dataclass(frozen=True)
class _Ranked(Layout):
    @property
    def views(self) -> Mapping[str, str]:
        return {"left": _ANCHOR, "right": "item"}

    @property
    def targets(self) -> tuple[str, ...]:
        known = ("listed",) if self.columns.keys() & _SCORES.keys() else ()
        return ("row", "score", *known)

    @property
    def rules(self) -> dict[str, Any]:
        texts, numbers = (
            partial(_list, item=sentence, what="texts"),
            partial(_list, item=score, what="numbers"),
        )
        by_name = {_ANCHOR: sentence, **dict.fromkeys(_TEXTS, texts), **dict.fromkeys(_SCORES, numbers)}
        return {column: by_name[name] for name, column in self.columns.items()}


class Ranked(OfUser):
    """A text with a list of those that answer it, and perhaps one of those that do not, each with its score.

    In each epoch a row has one of its positives, or `positives` rows have different ones, and `negatives` of
    its hard negatives, drawn by seed and epoch without repeats. A row with fewer has all that it has. This is
    the form of BGE's training files (`query`, `pos`, `neg`, `pos_scores`, `neg_scores`; Xiao et al. 2024,
    arXiv:2309.07597). No list may be empty, and scores are as many as their texts. Dev and test splits are
    scored pairs, as `Pairs` reads them; without a dev split, the lists that are held out are scored as pairs,
    1 with a positive and 0 with a negative.

    Args:
        path: training file or folder of shards, `.jsonl` or `.parquet`, or `hf://datasets/OWNER/NAME`.
        dev: pairs with a score that select the checkpoint; null for none.
        test: pairs with a score; null for none.
        columns: our name to the file's name, for `anchor`, `positive`, and where there are any `negative`,
            `positive_scores` and `negative_scores`; null for the usual names. Scores are of a teacher, on any
            scale: the target `scores` of losses on lists.
        pair_columns: the same for dev and test; null for `text1`, `text2` and `score`.
        positives: rows an epoch that a row of the file gives, each with another positive.
        negatives: hard negatives a row; null: 1 where there are any.
        on_bad_row: `refuse`, or `skip`, which leaves faulty rows out and lists them in `Rows.skipped`.
        config: of the data set of the hub; null for its default one.
        revision: commit, branch or tag there; null for the newest. The commit is noted in the run.
        splits: `{train: NAME}`, the hub's split that is trained on; null for `train`.
        split_seed: of the rows that are held out to select, where there is no dev split.
    """

    name = "ranked"
    kinds = (".jsonl", ".parquet")

    def __init__(
        self,
        *,
        path: str,
        dev: str | None = None,
        test: str | None = None,
        columns: dict[str, str] | None = None,
        pair_columns: dict[str, str] | None = None,
        positives: int = 1,
        negatives: int | None = None,
        on_bad_row: OnBadRow = "refuse",
        config: str | None = None,
        revision: str | None = None,
        splits: dict[str, str] | None = None,
        split_seed: int = 42,
    ) -> None:
        source = Source(path, dev, test, None, on_bad_row, config, revision, splits, split_seed=split_seed)
        known = columns_of(source, columns, (_ANCHOR, "positive"), ("negative", *_SCORES))
        names = known.columns
        if not {_ANCHOR, "positive"} <= set(names) <= {_ANCHOR, *_TEXTS, *_SCORES}:
            raise ValueError(
                f"Ranked: columns must name anchor and positive, and may name negative, positive_scores and "
                f"negative_scores; got {dict(names)}"
            )
        if "positive_scores" in names and "negative" in names and "negative_scores" not in names:
            raise ValueError(
                f"Ranked: columns names positive_scores without negative_scores; got {dict(names)}"
            )
        has_negatives = "negative" in names
        self.negatives = int(has_negatives) if negatives is None else negatives
        if positives < 1 or self.negatives < 0 or (self.negatives and not has_negatives):
            raise ValueError(
                "Ranked: positives must be at least 1 and negatives at least 0, and 0 without a column of "
                f"them; got {positives} and {negatives}"
            )
        self.positives = positives
        held_out = layout("Ranked", "pair_columns", "pair", pair_columns)
        super().__init__(
            _Ranked("pair", names, "columns"), held_out, source, accepted=("train",), said=known.said
        )
        self.form = "triplet" if self.negatives else "pair"
        self.views = ("left", "right", *(f"negative_{place + 1}" for place in range(self.negatives)))
        self.roles = {"left": "query"} | dict.fromkeys(self.views[1:], "document")
        self.targets = ("scores",) if "listed" in _Ranked("pair", names, "").targets else ()

    def checked(self, raw: Mapping[str, Sequence[object]], layout: Layout) -> Mapping[str, Sequence[object]]:
        """The raw columns, with a fault in place of scores that are more or fewer than their texts."""
        columns = dict(raw)
        for scores, texts in _SCORES.items():
            if scores in layout.columns and texts in layout.columns:
                both = zip(raw[layout.columns[texts]], raw[layout.columns[scores]], strict=True)
                columns[layout.columns[scores]] = [
                    _Unequal(len(some), len(numbers))
                    if isinstance(some, list) and isinstance(numbers, list) and len(some) != len(numbers)
                    else numbers
                    for some, numbers in both
                ]
        return columns

    def of_columns(self, layout: Layout, columns: Mapping[str, list[Any]]) -> Rows:
        """A pair for each text of a row's lists, with score 1 for positives and 0 for negatives.

        `row` is the number of the row among those of its block, and `listed` the score in the file.
        """
        if not isinstance(layout, _Ranked):
            return super().of_columns(layout, columns)
        left, right, row, score_, listed = [], [], [], [], []
        for place, anchor in enumerate(columns.get(_ANCHOR, [])):
            for kind in _TEXTS:
                items = columns[kind][place] if kind in columns else []
                left += [anchor] * len(items)
                right += items
                row += [place] * len(items)
                score_ += [float(kind == "positive")] * len(items)
                scores = f"{kind}_scores"
                listed += columns[scores][place] if scores in columns else [math.nan] * len(items)
        targets = {"row": np.array(row, np.int64), "score": np.array(score_, np.float64)}
        if "listed" in layout.targets:
            targets["listed"] = np.array(listed, np.float64)
        return Rows(self.name, "train", "pair", {"left": left, "right": right}, targets)

    def trained(self, pairs: Rows) -> Rows:
        """The rows that are trained on, of the pairs that `read` gives; those of a row are neighbours."""
        row, is_positive = pairs.targets["row"], pairs.targets["score"] > 0  # (pairs,) each
        # A new row where the number changes, or goes back to positives: numbers start anew in each block.
        begins = np.r_[True, (row[1:] != row[:-1]) | (is_positive[1:] & ~is_positive[:-1])]  # (pairs,)
        number = np.cumsum(begins) - 1  # (pairs,)
        count = int(number[-1]) + 1
        positives = np.bincount(number, is_positive, count).astype(np.int64)  # (rows,)
        every = np.bincount(number, minlength=count)  # (rows,)
        starts = np.flatnonzero(begins)  # (rows,)
        usable = positives > 0  # (rows,): all, but where some pairs of a row are held out
        lists = Lists(pairs, starts[usable], positives[usable], every[usable] - positives[usable])
        return lists.rows(self.positives, self.negatives)
