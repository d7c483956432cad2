"""Graded pairs from a TSV file of the store: what STS-B, STS12 to STS16 and SICK have in common."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from embedrun.dataset.columns import as_scores, convert, score, sentence
from embedrun.rows import Rows
from embedrun.store import LineFaults, Store


def read_columns(store: Store, file: str, rules: Mapping[str, Callable[[Any], Any]]) -> dict[str, list[Any]]:
    """Typed columns of a TSV file.

    Args:
        store: where the file is.
        file: its name in the store.
        rules: for each wanted column, what makes a value of its text or raises ValueError.

    Raises:
        DataError: if the file is missing, or any row breaks a rule; every such line is named.
    """
    raw = store.read_tsv(file, list(rules))
    faults = LineFaults(store.path(file))
    rows = len(next(iter(raw.values())))
    typed = convert(raw, dict(rules), range(2, rows + 2), faults)  # line 1 is the header
    faults.check()
    return typed


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
