"""Rows that an encoder is held against: a user's, and a few training rows where there is no dev split."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from embedrun.dataset.split import held_out
from embedrun.rows import MappedTexts, Rows

SHARE = 20  # one row in so many
MOST = 1_000  # rows
FEWEST = 20  # rows; a rank correlation of fewer says next to nothing


@dataclass(frozen=True)
class Held:
    """Training rows, and those held out of them.

    Args:
        train: the rows that are left, in file order; all of them where none is held out.
        dev: the others as scored pairs, in file order; None where none is held out.
        rows: how many were held out: of a triplet there are several pairs.
        reason: why none is, else empty.
    """

    train: Rows
    dev: Rows | None = None
    rows: int = 0
    reason: str = ""


def hold_out(rows: Rows, seed: int) -> Held:
    """Hold out 5 % of the training rows at random, 1,000 at most; they share no text with the others.

    None is held out of fewer than 400 rows, where hardly any group of rows that share texts is small enough,
    or where the scores of what was drawn are all equal.

    Args:
        rows: that can be `ranked`.
        seed: of the draw; it and the rows alone decide.
    """
    most = min(MOST, len(rows) // SHARE)
    if most < FEWEST:
        least = SHARE * FEWEST
        return Held(
            rows, reason=f"and {len(rows):,} training rows are too few to hold out 5 % (at least {least})"
        )
    _, places = rows.distinct(list(rows.texts))
    index = np.stack(list(places.values()), axis=1)  # (rows, views)
    taken = held_out(index, most, seed)  # (held out,)
    if len(taken) < FEWEST:
        return Held(rows, reason="and nearly all training rows share texts, directly or through others")
    dev = ranked(replace(rows.part(taken), split="dev"))
    if np.ptp(dev.targets["score"]) == 0:
        return Held(rows, reason="and nearly all training rows have the same score")
    is_left = np.ones(len(rows), dtype=bool)  # (rows,)
    is_left[taken] = False
    return Held(rows.part(np.flatnonzero(is_left)), dev, len(taken))


def is_ranked(form: str, targets: Collection[str]) -> bool:
    """Whether rows of this form with these targets can be pairs with a score."""
    return form == "triplet" or (form == "pair" and not {"score", "label"}.isdisjoint(targets))


def ranked(rows: Rows) -> Rows:
    """Rows as pairs with a score, which an encoder is held against.

    A label stands for a score of 1 (entailment), 0.5 (neutral) or 0; of a triplet the anchor with its
    positive has score 1, with each negative 0.
    """
    if rows.form == "triplet":
        return _as_pairs(rows)
    if "score" in rows.targets:
        return rows
    score = 1 - rows.targets["label"] / 2  # (rows,)
    return replace(rows, targets={"score": score, **rows.targets}, kept=None)


def _as_pairs(rows: Rows) -> Rows:
    anchor, *others = rows.texts.values()
    scores = np.zeros((len(others), len(rows)))  # (views, rows)
    scores[0] = 1
    return replace(
        rows,
        form="pair",
        texts={"left": _joined([anchor] * len(others)), "right": _joined(others)},
        targets={"score": scores.ravel()},
        kept=None,
    )


def _joined(columns: Sequence[Sequence[str]]) -> MappedTexts:
    mapped = [column for column in columns if isinstance(column, MappedTexts)]
    return MappedTexts(mapped[0].table, np.concatenate([column.table_index for column in mapped]))
