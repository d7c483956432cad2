"""Retrieval of captions: whether those of one image find each other."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import torch

from embedrun.evaluation.intervals import interval, mean_draws
from embedrun.evaluation.scores import Encode, Progress, Scores, Source, joined, with_only
from embedrun.rows import Rows

Similarity = Literal["cosine", "dot"]

_BLOCK = 2**22  # products held at a time; 16 MB


def comparable(vectors: np.ndarray, similarity: Similarity) -> np.ndarray:
    """Vectors, float32, whose inner product is the similarity, ``(texts, dim)``; a zero vector stays zero.

    They are scaled to unit length for `cosine` and unchanged for `dot`.
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

    `vectors` are float32, ``(texts, dim)``, finite; `group` is that of each text, ``(texts,)``; `queries` are
    indices of texts, ``(queries,)``. `progress` is called with the queries done and all of them.
    """
    # A matrix product may round the same sum differently in another column, which would break a tie.
    distinct, column = np.unique(vectors, axis=0, return_inverse=True)  # (distinct, dim) and (texts,)
    group, queries = np.asarray(group), np.asarray(queries, dtype=np.int64)  # (texts,) and (queries,)
    ranks: list[np.ndarray] = []
    step = max(1, _BLOCK // max(1, len(vectors)))
    for start in range(0, len(queries), step):
        block = queries[start : start + step]  # (some queries,)
        products = (vectors[block] @ distinct.T)[:, column.ravel()]  # (some queries, texts)
        for query, row in zip(block, products, strict=True):
            members = np.flatnonzero(group == group[query])  # (members,)
            before = [(row > row[place]).sum() + (row[:place] == row[place]).sum() for place in members]
            ranks.append(1 + np.array(before, dtype=np.int64))
        if progress is not None:
            progress(len(ranks), len(queries))
    return ranks


def strict(ranks: np.ndarray) -> bool:
    """Whether the nearest texts are exactly the group: as many as it has, in any order.

    The ranks are those of all its members, the query among them, ``(members,)``.
    """
    return int(ranks.max()) == len(ranks)


def ranks_of_others(ranks: np.ndarray, query: int) -> np.ndarray:
    """The ranks of the other members where the query itself is not ranked, ``(members - 1,)``.

    `query` is the query's index among all members, whose ranks are given, ``(members,)``.
    """
    others = np.delete(ranks, query)  # (members - 1,)
    return others - (others > ranks[query])


SetName = Literal["flickr30k", "flickr8k", "mscoco"]
Split = Literal["test", "dev"]
_SETS = ("flickr30k", "flickr8k", "mscoco")
_WITH_DEV = ("flickr30k",)


class Retrieval:
    r"""Rank all captions of a split by their inner product with the first caption of each image.

    Source: Li and Li 2024 (AnglE), Sec. 4.5, on Flickr30k test: strict accuracy 12.9 (AnglE), 10.4 (SimCSE,
    supervised) and 5.2 (SBERT). With *q* queries, one an image, of which query *i* has the captions
    :math:`C_i` and the first :math:`|C_i|` captions :math:`T_i` of its ranking, itself among them,

    .. math:: \text{strict\_accuracy} = \frac{100}{q} \sum_i [T_i = C_i]

    and, with the query itself left out of its ranking and of :math:`C_i`,

    .. math:: \text{recall\_at\_}k = \frac{100}{q} \sum_i \frac{|T_{i,k} \cap C_i|}{|C_i|}, \qquad
              \text{mrr} = \frac{100}{q} \sum_i \frac{1}{\text{rank of the first of } C_i}

    Of equal products the earlier caption comes first; so, where two images share a caption, does that of the
    earlier image. Products are exact, in float32.

    The paper does not say which images are its test split, whether vectors are scaled to unit length, or how
    ties go, and has five captions everywhere; ten images of COCO have six, and need six. Departures: recall
    and MRR are not in the paper.

    Keys are `retrieval/<set>/strict_accuracy`, `/recall_at_<k>` and `/mrr`, of a dev split
    `retrieval_dev/...`, each with an interval by resampling the queries. They are undefined where the
    squared length of a vector is not finite. With four others, recall at 1 is 25 at most. Sets are not
    averaged; the strict accuracy of the first stands for the task.

    Args:
        sets: which. Flickr8k is all of it, since it has no split here.
        split: of the sets; only Flickr30k has `dev`.
        similarity: `cosine`, the inner product of vectors of unit length, or `dot`, of the vectors as
            they are; the same for an encoder that gives unit length.
        recall_at: every *k*, > 0; may be empty.
    """

    def __init__(
        self,
        *,
        sets: list[SetName] = ["flickr30k"],  # noqa: B006 - never changed
        split: Split = "test",
        similarity: Similarity = "cosine",
        recall_at: list[int] = [1, 5, 10],  # noqa: B006 - never changed
    ) -> None:
        if not sets:
            raise ValueError(f"Retrieval: sets must name at least one of {', '.join(_SETS)}; got {sets}")
        undivided = [name for name in sets if name not in _WITH_DEV]
        if split == "dev" and undivided:
            raise ValueError(
                f"Retrieval: {', '.join(undivided)} has no dev split, only {', '.join(_WITH_DEV)} has; "
                "use split=test"
            )
        if any(k < 1 for k in recall_at):
            raise ValueError(f"Retrieval: recall_at must be whole numbers > 0, got {recall_at}")
        self.sets, self.recall_at = list(dict.fromkeys(sets)), list(dict.fromkeys(recall_at))
        self.split: Split = split
        self.similarity: Similarity = similarity
        self._suite = "retrieval" if split == "test" else f"retrieval_{split}"

    def sources(self) -> dict[str, Source]:
        """The split of each set, by set."""
        return {name: Source("captions", self.split, {"set": name}) for name in self.sets}

    def parts(self) -> dict[str, "Retrieval"]:
        """One task for each set."""
        return {name: with_only(self, sets=[name]) for name in self.sets}

    def total(self, parts: Mapping[str, Scores]) -> Scores:
        """The main score: the strict accuracy of the first set. There is no average."""
        return Scores({}, f"{self._suite}/{self.sets[0]}/strict_accuracy")

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """Scores, intervals and one prediction for each query.

        A prediction has `correct` (0 or 1), `rank` (from 1, of the first other caption) and `query` (its row
        in the split, from 0); there are none where the scores are undefined. `rows` are texts with a `group`
        of two or more. `progress` is called with the queries of a set that are done and all of them.
        """
        parts = {name: self._set(name, rows[name], encode, progress) for name in self.sets}
        return joined(parts, self.total(parts))

    def _set(self, name: str, rows: Rows, encode: Encode, progress: Progress | None) -> Scores:
        vectors = encode(list(rows.texts["text"]))  # (captions, dim)
        prefix = f"{self._suite}/{name}"
        if not torch.isfinite(vectors.square().sum(dim=-1)).all():  # else every product is finite too
            metrics = ["strict_accuracy", *(f"recall_at_{k}" for k in self.recall_at), "mrr"]
            undefined = {f"{prefix}/{metric}": math.nan for metric in metrics}
            return Scores(undefined, f"{prefix}/strict_accuracy")
        group = rows.targets["group"]  # (captions,)
        queries = np.unique(group, return_index=True)[1]  # (images,): the first caption of each
        table = comparable(vectors.numpy(), self.similarity)  # (captions, dim)
        ranks = member_ranks(table, group, queries, progress)
        others = [ranks_of_others(members, 0) for members in ranks]  # the query is the first of its group
        first = np.array([other.min() for other in others])  # (images,)
        correct = np.array([strict(members) for members in ranks], dtype=np.int64)  # (images,)
        values: dict[str, np.ndarray] = {"strict_accuracy": correct}
        for k in self.recall_at:
            values[f"recall_at_{k}"] = np.array([(other <= k).mean() for other in others])  # (images,)
        values["mrr"] = 1 / first  # (images,)
        intervals = {}
        for metric, column in values.items():
            low, high = interval(mean_draws(column))
            intervals[f"{prefix}/{metric}"] = (100 * low, 100 * high)
        columns = {"correct": correct.tolist(), "rank": first.tolist(), "query": queries.tolist()}
        return Scores(
            scores={f"{prefix}/{metric}": 100 * float(column.mean()) for metric, column in values.items()},
            main=f"{prefix}/strict_accuracy",
            predictions={f"{self._suite}_{name}": columns},
            intervals=intervals,
        )
