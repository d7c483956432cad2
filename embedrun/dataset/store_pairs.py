"""Data sets of the store that are one file of pairs a split, graded or labelled."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from embedrun.errors import DataError
from embedrun.rows import Rows
from embedrun.store import Store
from embedrun.store.catalogue import Catalogue, published_problems
from embedrun.store.columns import Rule, as_scores, score, sentence


class OfStore:
    """What data sets of the store share: a split is one file, unless `files` says otherwise.

    `pattern` is its name in the store, with `{name}` and `{split}` in it.
    """

    name: str
    splits: tuple[str, ...]
    pattern: str

    def files(self, split: str, store: Store) -> list[str]:
        """The files of the split, by their names in the store."""
        self.require(split)
        return [self.pattern.format(name=self.name, split=split)]

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read."""
        return store.missing(self.files(split, store))

    def require(self, split: str) -> None:
        """Raise a ValueError for a split that is not there."""
        if split not in self.splits:
            raise ValueError(f"{self.name}: no split {split!r} (it has: {', '.join(self.splits)})")


def require_published(store: Store, file: str, rows: int, labels: Sequence[object] = ()) -> None:
    """Compare the rows and the labels of a JSON Lines file with the published numbers of `conf/hub.yaml`.

    `embedrun data check` does so too, but nobody has to call it, and a part of a test set gives other scores
    under the same name: with 20 of SUBJ's 5,000 subjective sentences, as in a copy that was long in use, a
    classifier that always predicts the other class has an accuracy of 99.6. `labels` are of every row, or
    none where the file has none.

    Raises:
        DataError: with every number that differs, and what to do.
    """
    known = _catalogue().file(file)
    if known is None:
        return
    values: Mapping[str, Sequence[object]] = {"label": labels} if labels else {}
    path = store.path(file)
    problems = published_problems(path, known, rows, values, first=1)
    if known.rows is not None and rows != known.rows:
        name = _catalogue().data_set_of(file)
        problems.append(
            f"{path}: a part of a data set gives other scores under the same name (a SUBJ of 5,020 rows has "
            f"spoilt published averages); fetch the whole with `embedrun data get {name} --from DIR`"
        )
    if problems:
        raise DataError(problems)


@cache
def _catalogue() -> Catalogue:
    return Catalogue.read()


def read_binary(store: Store, file: str, *, name: str, split: str) -> Rows:
    """Pairs in file order; `score` is 1 where the label is, else 0.

    AnglE's Table 3 is the Spearman correlation of the cosine with this score. Where all of one label have the
    same gold rank, that correlation stays below 1 for every model whose cosines differ within a label.

    Raises:
        DataError: if the file is missing or faulty, or differs from its published numbers.
    """
    rules: dict[str, Rule] = {"sentence1": sentence, "sentence2": sentence, "label": _label}
    typed = read_columns(store, file, rules)
    require_published(store, file, len(typed["label"]), typed["label"])
    return Rows(
        name=name,
        split=split,
        form="pair",
        texts={"left": typed["sentence1"], "right": typed["sentence2"]},
        targets={"score": as_scores(typed["label"])},
    )


def _label(value: object) -> int:
    if type(value) is not int or value not in (0, 1):
        raise ValueError(f"expected 0 or 1, got {repr(value)[:40]}")
    return value


Rules = Mapping[str, Rule]  # for each wanted column, what makes a value or raises ValueError


def read_columns(store: Store, file: str, rules: Rules) -> dict[str, list[Any]]:
    """Typed columns of a file of the store.

    Raises:
        DataError: if the file is missing, or any row breaks a rule; every such row is named.
    """
    return store.typed(file, rules)


def read_sts(store: Store, file: str, *, name: str, split: str) -> Rows:
    """Pairs with a score from 0 to 5 and the subset that each was drawn from, in file order.

    Raises:
        DataError: if the file is missing or faulty.
    """
    rules = {
        "subset": sentence,
        "sentence1": sentence,
        "sentence2": sentence,
        "score": partial(score, low=0, high=5),
    }
    typed = read_columns(store, file, rules)
    return Rows(
        name=name,
        split=split,
        form="pair",
        texts={"left": typed["sentence1"], "right": typed["sentence2"]},
        targets={"score": as_scores(typed["score"])},
        subset=typed["subset"],
    )
