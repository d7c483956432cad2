"""Retrieval of documents for queries: nDCG, MRR, recall, MAP and precision, by exact search."""

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedrun.evaluation.intervals import interval, mean_draws
from embedrun.evaluation.scores import Encode, Progress, Scores, Source, joined, unheard, with_only
from embedrun.rows import Rows

_NANO = "hf://datasets/zeta-alpha-ai/Nano"
NANO_BEIR = (
    "ArguAna", "ClimateFEVER", "DBPedia", "FEVER", "FiQA2018", "HotpotQA", "MSMARCO", "NFCorpus", "NQ",
    "QuoraRetrieval", "SCIDOCS", "SciFact", "Touche2020",
)  # fmt: skip
_QUERIES, _DOCUMENTS = 256, 2**15  # compared at a time: 32 MB of products
Metric = Literal["ndcg", "mrr", "recall", "map", "precision"]


def nearest_documents(
    queries: Tensor, documents: Tensor, many: int, progress: Progress = unheard
) -> tuple[np.ndarray, np.ndarray]:
    """The documents of the largest inner products with each query, and these; both ``(queries, many)``.

    Of equal products the earlier document comes first. The search is exact, in float32, on the device of the
    vectors, ``(queries, dim)`` and ``(documents, dim)``; its memory does not grow with the documents.
    """
    many = min(many, len(documents))
    best = []
    for begin in range(0, len(queries), _QUERIES):
        block = queries[begin : begin + _QUERIES]  # (some queries, dim)
        keys = torch.empty(len(block), 0, dtype=torch.int64, device=queries.device)
        for first in range(0, len(documents), _DOCUMENTS):
            found = _keys(block @ documents[first : first + _DOCUMENTS].T, first, many)
            keys = torch.cat([keys, found], dim=1).sort(dim=1, descending=True).values[:, :many]
        best.append(keys.cpu())
        progress(min(begin + _QUERIES, len(queries)), len(queries))
    keys = torch.cat(best)  # (queries, many)
    rows = (2**32 - 1) - (keys & (2**32 - 1))
    ordered = (keys >> 32).to(torch.int32)
    products = (ordered ^ ((ordered >> 31) & 0x7FFFFFFF)).view(torch.float32)
    return rows.numpy(), products.numpy()


def _keys(products: Tensor, first: int, many: int) -> Tensor:
    """Of each query the largest products as whole numbers in their order, the earlier of two equals larger.

    The upper half is the product: the bits of a float32 are ordered as whole numbers are once those of a
    negative one are turned round. The lower half counts documents down, from `first`.
    """
    width = min(many + 1, products.shape[1])
    best, places = products.topk(width, dim=1)  # (queries, width) each
    if many < width and (best[:, -1] == best[:, -2]).any():  # topk takes any of those tied with the last
        width = int((products >= best[:, -1:]).sum(dim=1).max())
        best, places = products.topk(width, dim=1)
    bits = (best + 0.0).view(torch.int32)  # -0.0 is 0.0
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()  # (queries, width)
    return (ordered << 32) | ((2**32 - 1) - (first + places))


class Ir:
    r"""Rank all documents for each query by the similarity of their vectors.

    Of query *q* with :math:`R_q` documents of a grade above 0 and the grades :math:`g_{q,1}, g_{q,2}, \dots`
    of its ranking, as trec_eval has them (Voorhees and Harman 2005, TREC):

    .. math:: \text{ndcg@}k = \frac{\sum_{i \le k} g_{q,i} / \log_2(i + 1)}{\text{the same of the best
              ranking}}, \qquad
              \text{mrr@}k = \frac{1}{\text{rank of the first relevant one}} \text{ or } 0

    .. math:: \text{recall@}k = \frac{\text{relevant ones to rank } k}{R_q}, \qquad
              \text{precision@}k = \frac{\text{relevant ones to rank } k}{k}, \qquad
              \text{map@}k = \frac{1}{R_q} \sum_{i \le k, g_{q,i} > 0} \text{precision@}i

    each × 100 and averaged over the queries, with an interval by resampling them. Of equal products the
    document with the larger id comes first, as in trec_eval. A query without a relevant document is left out
    and counted in the notes. Queries and documents get the prompts of their roles. Departure:
    sentence-transformers divides map@k by *k* where that is less than :math:`R_q`.

    Keys are `<label>/ndcg@10` and so on, of other splits `<label>_dev/...`; of several NanoBEIR sets
    `<label>_<set>/...` and their means, `<label>/...`.

    Args:
        path: a folder in BEIR's layout (`queries.jsonl`, `corpus.jsonl`, `qrels/SPLIT.tsv`), or a data set of
            the hub, `hf://datasets/OWNER/NAME`.
        queries: file with `_id` and `text`, in place of that in `path`: `.jsonl`, `.tsv`, `.csv`, `.parquet`.
        corpus: the same for documents, with `title` if there is one.
        qrels: file with `query-id`, `corpus-id`, and `score` unless all are 1, in place of that in `path`.
        revision: commit, branch or tag of the hub; null for the newest.
        nano: sets of NanoBEIR, `[SciFact, NFCorpus]`, or `[all]`, in place of files: 50 queries each.
        split: which judgements.
        label: first part of the keys; null for the name of the task.
        similarity: `cosine`, or `dot`, of the vectors as they are.
        ndcg, mrr, recall, map, precision: ranks *k* of each metric, > 0; may be empty.
        main: the metric that stands for the task.
    """

    def __init__(
        self,
        *,
        path: str | None = None,
        queries: str | None = None,
        corpus: str | None = None,
        qrels: str | None = None,
        revision: str | None = None,
        nano: list[str] | None = None,
        split: Literal["train", "dev", "test"] = "test",
        label: str | None = None,
        similarity: Literal["cosine", "dot"] = "cosine",
        ndcg: list[int] = [10],  # noqa: B006 - never changed
        mrr: list[int] = [10],  # noqa: B006 - never changed
        recall: list[int] = [10, 100],  # noqa: B006 - never changed
        map: list[int] = [100],  # noqa: B006 - never changed
        precision: list[int] = [10],  # noqa: B006 - never changed
        main: str = "ndcg@10",
    ) -> None:
        files = {"path": path, "queries": queries, "corpus": corpus, "qrels": qrels, "revision": revision}
        self._sets = _sets(nano, files)
        self.split, self.label, self.similarity, self.main = split, label, similarity, main
        ranks: dict[Metric, list[int]] = {
            "ndcg": ndcg, "mrr": mrr, "recall": recall, "map": map, "precision": precision
        }  # fmt: skip
        self._metrics = [(name, k) for name, all_ranks in ranks.items() for k in dict.fromkeys(all_ranks)]
        if any(k < 1 for _, k in self._metrics):
            raise ValueError("Ir: ndcg, mrr, recall, map and precision are lists of ranks > 0")
        if main not in (names := [f"{name}@{k}" for name, k in self._metrics]):
            raise ValueError(f"Ir: main must be one of {', '.join(names)}; got {main!r}")

    def _key(self, name: str = "") -> str:
        """First part of the keys of one set, or of their means."""
        label = self.label or "ir"
        if self.split != "test" and not label.endswith(f"_{self.split}"):
            label += f"_{self.split}"
        return f"{label}_{name}" if name else label

    def sources(self) -> dict[str, Source]:
        """Judgements and documents of each set."""
        return {
            f"{name}{part}": Source("judged", self.split, {**options, "part": part, "label": self._key(name)})
            for name, options in self._sets.items()
            for part in ("qrels", "corpus")
        }

    def parts(self) -> dict[str, "Ir"]:
        """One task for each set."""
        if "" in self._sets:
            return {"whole": self}
        return {name: with_only(self, _sets={name: options}) for name, options in self._sets.items()}

    def total(self, parts: Mapping[str, Scores]) -> Scores:
        """The means over the sets."""
        if "" in self._sets:
            return Scores({}, f"{self._key()}/{self.main}")
        return Scores(
            {
                f"{self._key()}/{name}@{k}": math.fsum(
                    part.scores[f"{self._key(place)}/{name}@{k}"] for place, part in parts.items()
                ) / len(parts)
                for name, k in self._metrics
            },
            f"{self._key()}/{self.main}",
        )  # fmt: skip

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """Scores, intervals, and of each query, by its number, the main metric, in [0, 1], as its prediction.

        `rows` are as `Judged` reads them. `progress` is called with queries done and all of them.
        """
        parts = {
            name: self._scored(
                self._key(name), rows[f"{name}qrels"], rows[f"{name}corpus"], encode, progress or unheard
            )
            for name in self._sets
        }
        own = Scores({}, f"{self._key(next(iter(self._sets)))}/{self.main}")
        return joined(parts, own)

    def _scored(self, key: str, judged: Rows, corpus: Rows, encode: Encode, progress: Progress) -> Scores:
        grades, query = np.maximum(judged.targets["score"], 0), judged.targets["query"]  # (judgements,) each
        numbers = np.unique(query[grades > 0])  # (queries,): those with a relevant document
        known, rows = np.unique(query, return_index=True)  # (judged queries,) each: number, first judgement
        left_out = len(known) - len(numbers)
        first: list[int] = rows[np.searchsorted(known, numbers)].tolist()
        texts = [judged.texts["left"][row] for row in first]
        place: dict[str, int] = {}  # of a document among distinct ones, whose products are equal bit for bit
        column = np.array([place.setdefault(text, len(place)) for text in corpus.texts["text"]])
        queries = encode(texts, role="query")  # (queries, dim)
        documents = encode(list(place), role="document")  # (distinct documents, dim)
        squares = torch.cat([side.square().sum(dim=-1) for side in (queries, documents)])
        if not len(numbers) or not torch.isfinite(squares).all():
            undefined = {f"{key}/{name}@{k}": math.nan for name, k in self._metrics}
            return Scores(undefined, f"{key}/{self.main}")
        if self.similarity == "cosine":
            queries, documents = normalize(queries, dim=-1), normalize(documents, dim=-1)
        device = "cuda" if torch.cuda.is_initialized() else "cpu"
        most = max(k for _, k in self._metrics)
        found = nearest_documents(queries.to(device), documents.to(device), most, progress)
        gains, ideal = _gains(judged, numbers, _documents(*found, column, most))
        values = {f"{name}@{k}": _METRICS[name](gains, ideal, k) for name, k in self._metrics}  # (queries,)
        intervals = {}
        for name, of_query in values.items():
            low, high = interval(mean_draws(of_query))
            intervals[f"{key}/{name}"] = (100 * low, 100 * high)
        return Scores(
            {f"{key}/{name}": 100 * float(of_query.mean()) for name, of_query in values.items()},
            f"{key}/{self.main}",
            {f"{key}_{self.main}": {"value": values[self.main].tolist(), "query": numbers.tolist()}},
            intervals,
            notes={"queries_without_relevant": {key: left_out}} if left_out else {},
        )


def _sets(nano: list[str] | None, files: dict[str, str | None]) -> dict[str, dict[str, str]]:
    """The options of each data set, by the name of a set of NanoBEIR, else under ''."""
    given = {name: value for name, value in files.items() if value is not None}
    if nano is not None:
        names = list(NANO_BEIR) if nano == ["all"] else list(dict.fromkeys(nano))
        if given or not names or not set(names) <= set(NANO_BEIR):
            raise ValueError(
                f"Ir: nano is a list of {', '.join(NANO_BEIR)}, or [all], without files; got {nano} {given}"
            )
        return {name: {"path": f"{_NANO}{name}"} for name in names}
    if "path" not in given and not {"queries", "corpus", "qrels"} <= given.keys():
        raise ValueError(
            "Ir: give path=FOLDER with queries.jsonl, corpus.jsonl and qrels/SPLIT.tsv, or the files "
            f"queries, corpus and qrels, or nano=[SciFact]; got {given}"
        )
    return {"": given}


def _documents(texts: np.ndarray, products: np.ndarray, column: np.ndarray, most: int) -> list[np.ndarray]:
    """The ranking of each query, at most so many documents, from that of distinct texts.

    `texts` and `products` are of each query, ``(queries, ranks)``; `column` is the text of each document.
    """
    order = np.argsort(column, kind="stable")  # (documents,): those of one text are neighbours
    begins = np.concatenate([[0], np.cumsum(np.bincount(column))])  # (texts + 1,)
    ranked = []
    for row, values in zip(texts, products, strict=True):
        documents = [order[begins[text] : begins[text + 1]] for text in row]
        value = np.repeat(values, [len(each) for each in documents])
        both = np.concatenate(documents)
        ranked.append(both[np.lexsort((both, -value))][:most])
    return ranked


def _gains(judged: Rows, numbers: np.ndarray, ranked: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Grades of the ranking of each query, and of the best ranking, both ``(queries, ranks)``.

    `numbers` are those of the queries, ascending; a document without a judgement has grade 0.
    """
    grades = np.maximum(judged.targets["score"], 0)  # (judgements,)
    query, document = judged.targets["query"], judged.targets["document"]  # (judgements,) each
    ideal = np.zeros((len(numbers), max(len(ranked[0]), int(np.bincount(query).max()))))
    gains = np.zeros((len(numbers), len(ranked[0])))
    order = np.argsort(query, kind="stable")  # (judgements,): those of a query are neighbours
    begins, ends = (np.searchsorted(query[order], numbers, side) for side in ("left", "right"))
    for row, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        own = order[begin:end]  # (judgements of the query,)
        best = np.sort(grades[own])[::-1]
        ideal[row, : len(best)] = best
        grade = dict(zip(document[own].tolist(), grades[own].tolist(), strict=True))
        gains[row] = [grade.get(place, 0.0) for place in ranked[row].tolist()]
    return gains, ideal


def _ndcg(gains: np.ndarray, ideal: np.ndarray, k: int) -> np.ndarray:
    return _dcg(gains, k) / _dcg(ideal, k)


def _dcg(gains: np.ndarray, k: int) -> np.ndarray:
    gains = gains[:, :k]  # (queries, k)
    return gains @ (1 / np.log2(np.arange(2, gains.shape[1] + 2)))


def _mrr(gains: np.ndarray, ideal: np.ndarray, k: int) -> np.ndarray:
    relevant = gains[:, :k] > 0  # (queries, k)
    return np.where(relevant.any(axis=1), 1 / (1 + relevant.argmax(axis=1)), 0.0)


def _recall(gains: np.ndarray, ideal: np.ndarray, k: int) -> np.ndarray:
    return (gains[:, :k] > 0).sum(axis=1) / (ideal > 0).sum(axis=1)


def _precision(gains: np.ndarray, ideal: np.ndarray, k: int) -> np.ndarray:
    return (gains[:, :k] > 0).sum(axis=1) / k


def _map(gains: np.ndarray, ideal: np.ndarray, k: int) -> np.ndarray:
    relevant = gains[:, :k] > 0  # (queries, k)
    precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    return (precision * relevant).sum(axis=1) / (ideal > 0).sum(axis=1)


_METRICS = {"ndcg": _ndcg, "mrr": _mrr, "recall": _recall, "map": _map, "precision": _precision}
