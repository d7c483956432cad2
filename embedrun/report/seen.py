"""Which evaluation rows the model has seen, from `contamination.json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from embedrun.console import number

_KINDS = {
    "training": ("in the training data", "Scores on rows that a model was trained on are too high."),
    "selection": ("in the dev data", "The dev data selects the checkpoint."),
}


@dataclass(frozen=True)
class SeenSet:
    """One evaluation set.

    Args:
        name: with its split.
        rows: as written.
        pairs: pairs that were seen, with their share; empty where a row is one text.
        sentences: rows of which a single text was seen, with their share.
        any: whether a whole row was seen.
    """

    name: str
    rows: str
    pairs: str
    sentences: str
    any: bool


@dataclass(frozen=True)
class Seen:
    """The evaluation sets against one kind of seen data.

    Args:
        where: `in the training data`.
        about: why it matters.
        against: the seen data sets.
        sets: each with a row or more.
        summary: in one sentence.
    """

    where: str
    about: str
    against: str
    sets: tuple[SeenSet, ...]
    summary: str


def seen(contamination: Mapping[str, Any]) -> list[Seen]:
    """From `contamination.json` as read; may lack anything."""
    found = []
    for kind, (where, about) in _KINDS.items():
        own = contamination.get(kind)
        if not isinstance(own, Mapping):
            continue
        whole = [
            one for one in _list(own.get("sets")) if isinstance(one, Mapping) and one.get("subset") is None
        ]
        sets = tuple(dict.fromkeys(map(_set, whole)))  # two tasks may score one set
        if sets:
            against = ", ".join(_named(one) for one in _list(own.get("seen")) if isinstance(one, Mapping))
            touched = [one.name for one in sets if one.any]
            found.append(Seen(where, about, against, sets, f"{_summary(touched, len(sets))} {where}."))
    return found


def _summary(touched: list[str], sets: int) -> str:
    if not touched:
        return "No evaluation row is"
    if len(touched) == sets:
        return f"All {sets} sets have rows that are" if sets > 1 else f"Rows of {touched[0]} are"
    return f"{len(touched)} of {sets} sets ({', '.join(touched)}) have rows that are"


def _set(one: Mapping[str, Any]) -> SeenSet:
    rows = number(one.get("rows")) or 0
    pairs, sentences = number(one.get("pairs")), number(one.get("sentences"))
    whole = sentences if pairs is None else pairs
    name = f"{one.get('name', '?')} {one.get('split') or ''}".strip()
    return SeenSet(name, f"{rows:,.0f}", _share(pairs, rows), _share(sentences, rows), bool(whole))


def _share(part: float | None, whole: float) -> str:
    """`5 (0.4 %)`; what is not nothing never reads as 0 %."""
    if part is None:
        return ""
    if not part:
        return "0"
    share = 100 * part / whole if whole else 0.0
    return f"{part:,.0f} ({'under 0.1' if share < 0.1 else f'{share:.1f}'} %)"


def _named(one: Mapping[str, Any]) -> str:
    rows = number(one.get("rows"))
    return f"{one.get('name', '?')} {one.get('split', '')}" + ("" if rows is None else f", {rows:,.0f} rows")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
