"""Pairs with a binary label as scored pairs: what MRPC, QQP and QNLI have in common."""

from collections.abc import Callable
from typing import Any

from embedrun.dataset.columns import as_scores, convert, sentence
from embedrun.dataset.published import require_published
from embedrun.rows import Rows
from embedrun.store import LineFaults, Store


def read_binary(store: Store, file: str, *, name: str, split: str) -> Rows:
    """Pairs in file order; `score` is 1 where the label is, else 0.

    AnglE's Table 3 is the Spearman correlation of the cosine with this score. Where all of one label have
    the same gold rank, that correlation stays below 1 for every model whose cosines differ within a label.

    Args:
        store: where the file is.
        file: its name in the store.
        name: of the data set.
        split: of it.

    Raises:
        DataError: if the file is missing or faulty, or has not the numbers that are published of it.
    """
    rules: dict[str, Callable[[Any], Any]] = {"sentence1": sentence, "sentence2": sentence, "label": _label}
    raw = store.read_jsonl(file, list(rules))
    faults = LineFaults(store.path(file))
    typed = convert(raw, rules, range(1, len(raw["label"]) + 1), faults)
    faults.check()
    require_published(store, file, len(typed["label"]), typed["label"])
    return Rows(
        name=name,
        split=split,
        form="pair",
        texts={"left": typed["sentence1"], "right": typed["sentence2"]},
        targets={"score": as_scores(typed["label"])},
    )


def _label(value: Any) -> int:
    if type(value) is not int or value not in (0, 1):
        raise ValueError(f"expected 0 or 1, got {repr(value)[:40]}")
    return value
