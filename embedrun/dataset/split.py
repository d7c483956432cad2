"""One file divided by a seed, with no text on two sides, and rows that an encoder is held against."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from embedrun.config.check import nearest
from embedrun.errors import DataError
from embedrun.rows import MappedTexts, Rows

By = Literal["group", "row"]  # what is kept together: rows that share a text, or each row alone
SPLITS = ("train", "dev", "test")
_STREAM = 0x73706C69  # beside the seed, so that no other draw by the same seed is this one
_LARGE = 100  # a group of more than one row in so many is placed by its size
_TOLERANCE = 0.02  # by which a share may be missed


def share_problems(option: str, shares: Mapping[str, float]) -> list[str]:
    """What is wrong with the share of each split; `option` begins the messages."""
    problems = [
        f"{option}: no split is named {name!r}{nearest(str(name), SPLITS)} (splits: {', '.join(SPLITS)})"
        for name in shares
        if name not in SPLITS
    ]
    positive = [share for share in shares.values() if isinstance(share, int | float) and share > 0]  # no nan
    is_whole = len(positive) == len(shares) and abs(math.fsum(positive) - 1) <= 1e-9
    if "train" not in shares or not is_whole:
        problems.append(
            f"{option}: needs a share above 0 of train and of each other split, which add up to 1, such as "
            f"{{train: 0.9, dev: 0.1}}; got {dict(shares)}"
        )
    return problems


def divide(
    index: np.ndarray, shares: Mapping[str, float], seed: int, *, by: By = "group"
) -> dict[str, np.ndarray]:
    """Divide rows into splits at random.

    Rows that share a text, directly or through other rows, are one group and stay together. The groups are
    shuffled by the seed. Those of more than a hundredth of all rows come first, the largest before others,
    each to the split that lacks most rows. The rest follow as shuffled and fill up train, dev and test, one
    after the other; a group on a border goes where most of it is, so that none of them moves a border by more
    than half a hundredth. The large ones are in train more often than by chance.

    `index` is the place of each text among the distinct ones, ``(rows, views)``. Gives row numbers by split,
    in the order of `SPLITS`, each ``(rows of the split,)``, int64 and sorted.
    """
    rows = len(index)
    names = [name for name in SPLITS if name in shares]
    wanted = np.array([shares[name] for name in names])  # (splits,)
    group = np.arange(rows) if by == "row" else _groups(index)  # (rows,)
    size = np.bincount(group)  # (groups,)
    place = _deal(size, wanted, np.random.default_rng([seed, _STREAM]))  # (groups,)
    split = place[group]  # (rows,)
    counts = np.bincount(split, minlength=len(names))  # (splits,)
    missed = np.abs(counts - wanted * rows)  # (splits,), rows
    if np.any((missed > _TOLERANCE * rows) & (missed > 1)) or not counts.all():
        percent = [
            ", ".join(f"{name} {100 * share:.4g} %" for name, share in zip(names, part, strict=True))
            for part in (wanted, counts / max(rows, 1))
        ]
        raise DataError(
            f"dataset.split: {size.max(initial=0):,} of {rows:,} rows share texts, directly or through "
            f"others, and stay together; wanted: {percent[0]}, the nearest: {percent[1]}; other shares may "
            "do, or dataset.split_by=row, which divides rows that share texts too"
        )
    return {name: np.flatnonzero(split == number) for number, name in enumerate(names)}


def held_out(index: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Some rows at random, at most `most`, that share no text with any other row, directly or through others.

    Groups as in `divide` are shuffled by the seed and taken in turn; one that no longer fits is passed over.
    Gives row numbers, ``(held out,)``, int64 and sorted; none where no group is small enough.
    """
    group = _groups(index)  # (rows,)
    size = np.bincount(group)  # (groups,)
    order = np.random.default_rng([seed, _STREAM]).permutation(len(size))  # (groups,)
    is_taken = np.zeros(len(size), dtype=bool)  # (groups,)
    while most and len(order := order[size[order] <= most]):
        fits = int(np.searchsorted(np.cumsum(size[order]), most, side="right"))
        is_taken[order[:fits]] = True
        most -= int(size[order[:fits]].sum())
        order = order[fits:]
    return np.flatnonzero(is_taken[group])


def _groups(index: np.ndarray) -> np.ndarray:
    """The group of each row, ``(rows,)``, numbered by their last rows."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows, views = index.shape
    if not rows:
        return np.zeros(0, dtype=np.int64)
    texts = int(index.max()) + 1
    first = np.tile(index[:, 0], views - 1)  # (rows * (views - 1),)
    other = index[:, 1:].T.ravel()  # (rows * (views - 1),)
    edges = coo_array((np.ones(len(first), dtype=np.int8), (first, other)), shape=(texts, texts))
    _, component = connected_components(edges, directed=False)  # (texts,)
    group = component[index[:, 0]]  # (rows,)
    # Not the numbers of scipy, which are nobody's promise.
    _, last, number = np.unique(group[::-1], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(-last))[number[::-1]]


def _deal(size: np.ndarray, wanted: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The split of each group, ``(groups,)``, by the rule of `divide`."""
    rows = int(size.sum())
    order = random.permutation(len(size))  # (groups,)
    is_large = size[order] * _LARGE > rows  # (groups,)
    large, small = order[is_large], order[~is_large]
    place = np.zeros(len(size), dtype=np.int64)  # (groups,)
    lacking = wanted * rows  # (splits,)
    for group in large[np.argsort(-size[large], kind="stable")]:  # fewer than a hundred
        place[group] = np.argmax(lacking)
        lacking[place[group]] -= size[group]
    room = np.maximum(lacking, 0)  # (splits,)
    if len(small):
        borders = np.cumsum(room)[:-1] * (size[small].sum() / room.sum())  # (splits - 1,)
        middle = np.cumsum(size[small]) - size[small] / 2  # (small groups,)
        place[small] = np.searchsorted(borders, middle)
    return place


SHARE = 20  # one row in so many is held out where there is no dev split
MOST = 1_000  # rows
FEWEST = 20  # rows; a rank correlation of fewer says next to nothing


@dataclass(frozen=True)
class Held:
    """Training rows, and those held out of them, both in file order."""

    train: Rows
    dev: Rows | None = None  # scored pairs; None where no row is held out
    rows: int = 0  # held out: of a triplet there are several pairs
    reason: str = ""  # why none is


def hold_out(rows: Rows, seed: int) -> Held:
    """Hold out 5 % of the training rows at random, 1,000 at most; they share no text with the others.

    None is held out of fewer than 400 rows, where hardly any group of rows that share texts is small enough,
    or where the scores of what was drawn are all equal. The rows, which can be `ranked`, and the seed decide.
    """
    most = min(MOST, len(rows) // SHARE)
    if most < FEWEST:
        few = f"and {len(rows):,} training rows are too few to hold out 5 % (at least {SHARE * FEWEST})"
        return Held(rows, reason=few)
    taken = held_out(rows.index(), most, seed)  # (held out,)
    if len(taken) < FEWEST:
        return Held(rows, reason="and nearly all training rows share texts, directly or through others")
    dev = ranked(replace(rows.part(taken), split="dev"))
    if np.ptp(dev.targets["score"]) == 0:
        return Held(rows, reason="and nearly all training rows have the same score")
    return Held(rows.part(np.setdiff1d(np.arange(len(rows)), taken)), dev, len(taken))


def is_ranked(form: str, targets: Collection[str]) -> bool:
    """Whether rows of this form with these targets can be pairs with a score."""
    return form == "triplet" or (form == "pair" and not {"score", "label"}.isdisjoint(targets))


def ranked(rows: Rows) -> Rows:
    """Rows as pairs with a score: 1, 0.5, 0 by label; of a triplet 1 with the positive, 0 with negatives."""
    if "score" in rows.targets:
        return rows
    if "label" in rows.targets:
        score = 1 - rows.targets["label"] / 2  # (rows,)
        return replace(rows, targets={"score": score, **rows.targets}, kept=None)
    anchor, *others = (column for column in rows.texts.values() if isinstance(column, MappedTexts))
    left, right = np.tile(anchor.places, len(others)), np.concatenate([column.places for column in others])
    texts = {"left": MappedTexts(anchor.table, left), "right": MappedTexts(anchor.table, right)}
    scores = np.repeat([1.0, *[0.0] * (len(others) - 1)], len(rows))  # (others * rows,)
    return replace(rows, form="pair", texts=texts, targets={"score": scores}, kept=None)
