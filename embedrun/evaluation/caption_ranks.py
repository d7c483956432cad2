"""Exact nearest neighbours by inner product: where the texts of a query's own group stand in its ranking."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Literal

import numpy as np

Similarity = Literal["cosine", "dot"]

_BLOCK = 2**22  # products held at a time; 16 MB


def comparable(vectors: np.ndarray, similarity: Similarity) -> np.ndarray:
    """Vectors whose inner product is the similarity, ``(texts, dim)``; a zero vector stays zero.

    Args:
        vectors: float32, ``(texts, dim)``.
        similarity: `cosine`, for which they are scaled to unit length, or `dot`, as they are.
    """
    if similarity == "dot":
        return vectors
    length = np.linalg.norm(vectors, axis=1, keepdims=True)  # (texts, 1)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)


def member_ranks(
    vectors: np.ndarray,
    group: Sequence[int] | np.ndarray,
    queries: Sequence[int] | np.ndarray,
    progress: Callable[[int, int], None] | None = None,
) -> list[np.ndarray]:
    """The rank of every text of each query's group, from 1, ``(members,)`` each, in the order of the texts.

    All texts are ranked by their inner product with the query, which is one of them, the largest first. Of
    equal products the earlier text comes first; equal vectors have equal products, bit for bit.

    Args:
        vectors: float32, ``(texts, dim)``, finite.
        group: of each text, ``(texts,)``.
        queries: places of texts, ``(queries,)``.
        progress: called with the queries done and all of them.
    """
    # A matrix product may round the same sum differently in another column, which would break a tie.
    first: dict[bytes, int] = {}
    each = [first.setdefault(blake2b(row.tobytes()).digest(), len(first)) for row in vectors]
    column = np.array(each, dtype=np.int64)  # (texts,): of its vector among the distinct ones
    distinct = vectors[np.unique(column, return_index=True)[1]]  # (distinct, dim)
    names = np.asarray(group)  # (texts,)
    members = _members(names)
    found = []
    queries = np.asarray(queries, dtype=np.int64)  # (queries,)
    step = max(1, _BLOCK // max(1, len(vectors)))
    for start in range(0, len(queries), step):
        block = queries[start : start + step]  # (some queries,)
        products = (vectors[block] @ distinct.T)[:, column]  # (some queries, texts)
        own = zip(products, names[block].tolist(), strict=True)
        found += [_ranks(row, members[name]) for row, name in own]
        if progress is not None:
            progress(len(found), len(queries))
    return found


def strict(ranks: np.ndarray) -> bool:
    """Whether the nearest texts are exactly the group: as many as it has, in any order.

    Args:
        ranks: of all its members, the query among them, ``(members,)``.
    """
    return int(ranks.max()) == len(ranks)


def ranks_of_others(ranks: np.ndarray, query: int) -> np.ndarray:
    """The ranks of the other members where the query itself is not ranked, ``(members - 1,)``.

    Args:
        ranks: of all members, ``(members,)``.
        query: which of them the query is.
    """
    others = np.delete(ranks, query)  # (members - 1,)
    return others - (others > ranks[query])


def strict_accuracy(
    vectors: np.ndarray,
    group: Sequence[int] | np.ndarray,
    queries: Sequence[int] | np.ndarray,
    similarity: Similarity = "cosine",
) -> float:
    """Share of the queries whose nearest texts are exactly their group, in [0, 1]; NaN of no query.

    Arguments as in :func:`member_ranks` and :func:`comparable`.
    """
    right = [strict(ranks) for ranks in member_ranks(comparable(vectors, similarity), group, queries)]
    return sum(right) / len(right) if right else float("nan")


def _members(group: np.ndarray) -> dict[int, np.ndarray]:
    """The places of each group's texts in ascending order, ``(members,)`` each."""
    order = np.argsort(group, kind="stable")  # (texts,)
    names, starts = np.unique(group[order], return_index=True)
    return dict(zip(names.tolist(), np.split(order, starts[1:]), strict=True))


def _ranks(products: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Ranks of some texts, ``(members,)``, without sorting: by counting what stands before each.

    Args:
        products: of every text, ``(texts,)``.
        places: of the wanted ones, ``(members,)``.
    """
    before = [
        np.count_nonzero(products > products[place]) + np.count_nonzero(products[:place] == products[place])
        for place in places
    ]
    return 1 + np.array(before, dtype=np.int64)  # (members,)
