"""The texts beside an anchor as one list: which of them a row has, and how alike each is to the anchor."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from embedrun.loss.cosine import cosine, widen
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
