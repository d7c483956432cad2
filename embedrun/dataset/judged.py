"""Queries, documents and judgements of which documents answer a query, in BEIR's layout."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from embedrun.dataset.split import SPLITS
from embedrun.errors import ConfigError, DataError
from embedrun.files import expanded
from embedrun.rows import Rows
from embedrun.store import KINDS, Store, hub, kind
from embedrun.store.columns import LineFaults, Rule, any_text, convert, score, sentence, shortened, shown
from embedrun.store.read import blocks, header, neighbour

_TEXTS = {"id": ("_id", "id"), "text": ("text", "query"), "title": ("title",)}  # our name: what files call it
_QRELS = {
    "query": ("query-id", "query_id", "qid"),
    "document": ("corpus-id", "corpus_id", "docid", "doc_id"),
    "score": ("score", "relevance", "rel"),
}
_OPTIONAL = ("title", "score")


def _id(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"expected an id, text or a whole number, got {shown(value)}")
    return sentence(str(value))


_RULES: dict[str, Rule] = {"text": any_text, "title": any_text, "score": score}


@dataclass(frozen=True)
class Places:
    """Where the three kinds of rows are: each a file, or a folder or data set of the hub with all of them."""

    path: str | None
    queries: str | None
    corpus: str | None
    qrels: str | None
    revision: str | None

    def problems(self, split: str) -> list[str]:
        """Why nothing can be read there; of the hub nothing is known before."""
        if hub.on_hub(self.path):
            return hub.problems(self.path, None, self.revision)
        if self.path is not None and not (folder := expanded(self.path)).is_dir():
            return [
                f"path: no folder {str(folder)!r}{neighbour(folder)}; BEIR's layout is queries.jsonl, "
                "corpus.jsonl and qrels/SPLIT.tsv in one"
            ]
        return [
            f"{part}: no file {str(file)!r}{neighbour(file)}"
            if kind(file) in KINDS
            else f"{part}: {str(file)!r} must end in {', '.join(KINDS)}, those of text also with .gz"
            for part in ("queries", "corpus", "qrels")
            if not (file := self._file(part, split)).is_file() or kind(file) not in KINDS
        ]

    def _file(self, part: str, split: str) -> Path:
        if (named := getattr(self, part)) is not None:
            return expanded(named)
        folder = expanded(self.path or "")
        stem = folder / "qrels" / split if part == "qrels" else folder / part
        usual = ".tsv" if part == "qrels" else ".jsonl"
        choices = [stem.with_name(stem.name + end) for end in (usual, f"{usual}.gz", *KINDS)]
        return next((file for file in choices if file.is_file()), choices[0])

    def files(self, part: str, split: str) -> Sequence[Path]:
        """The files of one kind of rows; of the hub they are downloaded where its cache lacks them."""
        if self.path is None or not hub.on_hub(self.path):
            return [self._file(part, split)]
        splits = self._splits(part)
        if part != "qrels" or (len(splits) == 1 and split == "test"):  # NanoBEIR calls its only split train
            return next(iter(splits.values()))
        if split not in splits:
            raise DataError(f"{self.path}: no {split} judgements (there are: {', '.join(splits)})")
        return splits[split]

    def _splits(self, part: str) -> Mapping[str, Sequence[Path]]:
        assert self.path is not None
        try:
            return hub.files_of(self.path, config=part, revision=self.revision, kinds=KINDS).splits
        except ConfigError:
            if part != "qrels":
                raise
            return hub.files_of(self.path, config="default", revision=self.revision, kinds=KINDS).splits


def _columns(file: Path, known: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """The file's name of each column, by ours."""
    there = header(file)
    named = {ours: name for ours, names in known.items() for name in names if name in there}
    if lacking := [ours for ours in known if ours not in named and ours not in _OPTIONAL]:
        wanted = "; ".join(f"{ours}: {' or '.join(known[ours])}" for ours in lacking)
        raise DataError(f"{file}: no column for {wanted} (columns: {', '.join(there) or 'none'}); rename one")
    return named


def _read(files: Sequence[Path], known: dict[str, tuple[str, ...]]) -> dict[str, list[Any]]:
    """Typed columns by our names, without those that the files lack."""
    values: dict[str, list[Any]] = {}
    for file in files:
        columns, faults = _columns(file, known), LineFaults(file)
        rules = {name: _RULES.get(ours, _id) for ours, name in columns.items()}
        for raw, rows in blocks(file, list(rules), faults):
            typed = convert(raw, rules, rows, faults)
            for ours, name in columns.items():
                values.setdefault(ours, []).extend(typed[name])
        faults.check()
    return values


def _texts(files: Sequence[Path]) -> dict[str, str]:
    """Title and text, by id; the ids in descending order of their bytes."""
    columns = _read(files, _TEXTS)
    ids, titles = columns["id"], columns.get("title") or [""] * len(columns["id"])
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise DataError(f"{files[0]}: the id {twice!r} stands there twice; give each text an id of its own")
    texts = zip(ids, titles, columns["text"], strict=True)
    return {name: f"{title} {text}".strip() for name, title, text in sorted(texts, key=_by_id, reverse=True)}


def _by_id(row: tuple[str, str, str]) -> bytes:
    return row[0].encode()


@lru_cache(maxsize=1)  # a corpus may be large, and the judgements need its ids
def _corpus(places: Places) -> dict[str, str]:
    return _texts(places.files("corpus", ""))


class Judged:
    """One kind of the rows of a retrieval test.

    `corpus`: a text a document, its title before it; they are in descending order of the bytes of their ids,
    in which trec_eval ranks documents of equal score. `qrels`: a pair a judgement, of query and document,
    with its grade as `score`, higher for a better answer and 0 for none, and as `query` and `document` the
    number of the query and the row of the document.

    Args:
        part: which.
        label: the name of its rows.
        path: a folder in BEIR's layout, or a data set of the hub, `hf://datasets/OWNER/NAME`, with the
            configs `queries`, `corpus`, and `qrels` or `default`.
        queries: file with `_id` and `text`, in place of that in `path`.
        corpus: file with `_id`, `text`, and `title` if there is one, in place of that in `path`.
        qrels: file with `query-id`, `corpus-id`, and `score` unless all are 1, in place of that in `path`.
        revision: commit, branch or tag of the hub; null for the newest.
    """

    targets = ("score",)
    splits = SPLITS

    def __init__(
        self,
        *,
        part: Literal["corpus", "qrels"],
        label: str = "judged",
        path: str | None = None,
        queries: str | None = None,
        corpus: str | None = None,
        qrels: str | None = None,
        revision: str | None = None,
    ) -> None:
        self.name, self.form, self._part = f"{label}_{part}", "pair" if part == "qrels" else "text", part
        self.roles = {"left": "query", "right": "document"} if part == "qrels" else {"text": "document"}
        self._places = Places(path, queries, corpus, qrels, revision)

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the files cannot be read."""
        return self._places.problems(split)

    def read(self, split: str, store: Store) -> Rows:
        """The documents, or the judgements of a split; a DataError where one names a text that is absent."""
        places = self._places
        corpus = _corpus(places)
        if self._part == "corpus":
            return Rows(self.name, split, "text", {"text": list(corpus.values())})
        files = places.files("qrels", split)
        columns, queries = _read(files, _QRELS), _texts(places.files("queries", split))
        _check_known(files[0], columns, {"query": queries, "document": corpus})
        row = {name: place for place, name in enumerate(corpus)}
        number = {name: place for place, name in enumerate(dict.fromkeys(columns["query"]))}
        grades = columns.get("score") or [1.0] * len(columns["query"])
        return Rows(
            self.name,
            split,
            "pair",
            {
                "left": [queries[name] for name in columns["query"]],
                "right": [corpus[name] for name in columns["document"]],
            },
            {
                "score": np.array(grades, np.float64),
                "query": np.array([number[name] for name in columns["query"]], np.int64),
                "document": np.array([row[name] for name in columns["document"]], np.int64),
            },
        )


def _check_known(file: Path, columns: dict[str, list[Any]], texts: dict[str, dict[str, str]]) -> None:
    messages = [
        f"{file}: judges the {part} {name!r}, which is not among the {len(known):,} of its file; give the "
        "whole file, or remove the judgement"
        for part, known in texts.items()
        for name in dict.fromkeys(columns[part])
        if name not in known
    ]
    pairs = list(zip(columns["query"], columns["document"], strict=True))
    if len(set(pairs)) < len(pairs):
        messages.append(f"{file}: judges a document twice for one query; keep one judgement")
    if messages:
        raise DataError(shortened(file, messages))
