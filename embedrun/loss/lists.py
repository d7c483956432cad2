"""The texts beside an anchor as one list: which of them a row has, and how alike each is to the anchor."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from embedrun.loss.cosine import cosine, widen
from embedrun.loss.ordered_pairs import WATCHED
from embedrun.loss.terms import require_shape

Similarity = Literal["cosine", "dot"]


def similarities(left: Tensor, texts: Sequence[Tensor], similarity: Similarity) -> Tensor:
    """Of each anchor with each of its own texts, ``(rows, texts)``; all vectors are ``(rows, dim)``."""
    if similarity == "cosine":
        return torch.stack([cosine(left, text) for text in texts], dim=1)
    return torch.stack([(widen(left) * widen(text)).sum(dim=1) for text in texts], dim=1)


def require_scores(term: str, scores: Tensor, student: Tensor) -> Tensor:
    """The scores in the type of the similarities; a ValueError unless each has one, ``(rows, texts)``."""
    require_shape(term, "scores", scores, *student.shape)
    return scores.to(student.dtype)


def as_scored_pairs(
    left: Tensor,
    right: Tensor,
    score: Tensor | None,
    negatives: Sequence[Tensor | None],
    hard_negatives: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs with a score, ``(pairs, dim)`` twice and ``(pairs,)``, whatever the rows are.

    Without a `score`, each anchor with its positive has score 1, and with each of its hard negatives 0, as
    AnglE's library does it (Li and Li 2024; `DatasetFormats.B` of angle_emb 0.5.6). `hard_negatives` is how
    many each row has, ``(rows,)``; None: all.
    """
    if score is not None:
        return left, right, score
    pairs, scores = [(left, right)], [left.new_ones(len(left))]
    for place, negative in enumerate(negative for negative in negatives if negative is not None):
        is_there = slice(None) if hard_negatives is None else hard_negatives > place  # (rows,)
        pairs.append((left[is_there], negative[is_there]))
        scores.append(left.new_zeros(len(pairs[-1][0])))
    first, second = (torch.cat(side) for side in zip(*pairs, strict=True))
    return first, second, torch.cat(scores)


def first_pairs(
    left: Tensor,
    right: Tensor,
    score: Tensor | None,
    negatives: Sequence[Tensor | None],
    hard_negatives: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of the first rows, which give 512 pairs at most."""
    hard = [negative for negative in negatives if negative is not None]
    rows = WATCHED if score is not None else WATCHED // (1 + len(hard))
    numbers = None if hard_negatives is None else hard_negatives[:rows]
    first = None if score is None else score[:rows]
    return as_scored_pairs(left[:rows], right[:rows], first, [one[:rows] for one in hard], numbers)
