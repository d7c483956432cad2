"""A few of a user's training rows, held out to pick the checkpoint where there is no dev split."""

from dataclasses import dataclass, replace

import numpy as np

from embedrun.dataset.pairs import ranked
from embedrun.dataset.split import held_out
from embedrun.rows import Rows

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
