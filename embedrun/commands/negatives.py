"""What each loss term compares in a batch, in words: negatives of an anchor, or pairs in order."""

from collections.abc import Mapping
from typing import Any

from embedrun.commands.losses import Losses

_ALONE = "each row by itself, no negatives"


def compared(losses: Losses, rows: int) -> dict[str, str]:
    """What a batch gives each term to compare, at most: equal scores, copies of a text and labels take some.

    Args:
        losses: of the run.
        rows: of a batch, over all processes.
    """
    found = {}
    for key, term in losses.terms.items():
        views = [name for name, way in losses.ways[key].items() if way.key in losses.passes]
        found[key] = _RULES.get(type(term).__name__, _other)(term, rows, views)
    return found


def _infonce(term: Any, rows: int, views: list[str]) -> str:
    if "negative" not in views:
        return _negatives(rows - 1, "the positives of other rows")
    return _negatives(2 * rows - 1, f"{rows - 1:,} positives of other rows, {rows:,} hard negatives")


def _in_batch_negatives(term: Any, rows: int, views: list[str]) -> str:
    if term.sides == "two":
        return _negatives(2 * rows - 2, "both texts of other rows; each text is an anchor")
    return _negatives(rows - 1, "the second texts of other rows")


def _arccon(term: Any, rows: int, views: list[str]) -> str:
    if term.negatives == "both":
        return _negatives(2 * rows - 2, "both vectors of other rows")
    return _negatives(rows - 1, f"the {term.negatives} vectors of other rows")


def _negatives(count: int, which: str) -> str:
    return f"{count:,} negatives an anchor: {which}"


def _ordered(term: Any, rows: int, views: list[str]) -> str:
    return f"up to {_pairs(rows):,} pairs of rows, those of unequal score"


def _rank_margin(term: Any, rows: int, views: list[str]) -> str:
    apart = int(term.interval)
    return f"up to {_pairs(rows - apart):,} pairs of rows, those more than {term.interval:g} ranks apart"


def _gated(term: Any, rows: int, views: list[str]) -> str:
    which = {"label": "unequal label", "score": "unequal score"}.get(
        term.gate, "unequal label and score, in like order"
    )
    return f"up to {_pairs(rows):,} pairs of rows, those of {which}"


def _pairs(rows: int) -> int:
    return max(rows, 1) * max(rows - 1, 0) // 2


def _triplet(term: Any, rows: int, views: list[str]) -> str:
    return "a triplet a row, of those long enough to be masked; no negatives"


def _list(term: Any, rows: int, views: list[str]) -> str:
    return f"the order of {rows:,} texts, for each row"


def _alone(term: Any, rows: int, views: list[str]) -> str:
    return _ALONE


def _other(term: Any, rows: int, views: list[str]) -> str:
    return f"whatever it does with {rows:,} rows"  # a term from outside


_RULES: Mapping[str, Any] = {
    "Infonce": _infonce,
    "InBatchNegatives": _in_batch_negatives,
    "Arccon": _arccon,
    "Cosent": _ordered,
    "Angle": _ordered,
    "RankMargin": _rank_margin,
    "GatedAngular": _gated,
    "MaskedTriplet": _triplet,
    "RankDistillation": _list,
    "RankConsistency": _list,
    "Mse": _alone,
    "MseEmbeddings": _alone,
    "SoftmaxNli": _alone,
}
