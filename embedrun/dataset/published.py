"""Refuse a file of the store that is not the whole published one."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from embedrun.errors import DataError
from embedrun.store import Store
from embedrun.store.catalogue import Catalogue
from embedrun.store.counts import published_problems


def require_published(store: Store, file: str, rows: int, labels: Sequence[Any] = ()) -> None:
    """Hold the rows and the labels of a file of JSON Lines against the published numbers of `conf/hub.yaml`.

    `embedrun data check` does so too, but nobody has to call it, and a part of a test set gives other scores
    under the same name: with 20 of SUBJ's 5,000 subjective sentences, as in a copy that was long in use,
    whatever always answers with the other class has an accuracy of 99.6.

    Args:
        store: where the file is.
        file: its name in the store.
        rows: how many it has.
        labels: of every row, or none where the file has no labels.

    Raises:
        DataError: with every number that differs, and the way on.
    """
    known = _catalogue().file(file)
    if known is None:
        return
    values: Mapping[str, Sequence[Any]] = {"label": labels} if labels else {}
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
