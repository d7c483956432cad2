"""Retrieval of documents: files in BEIR's layout, metrics by hand and against trec_eval's."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from embedrun.dataset.judged import Judged
from embedrun.dataset.mix import with_roles
from embedrun.errors import DataError
from embedrun.evaluation.ir import Ir, nearest_documents
from embedrun.experiment import scoring
from embedrun.experiment.scoring import Scorer
from embedrun.store import Store

# Products with the query "x": 3, 2, 2, 1.
PLACES = {
    "x": [1.0, 0.0],
    "y": [0.0, 1.0],
    "a": [3.0, 0.0],
    "b": [2.0, 1.0],
    "c": [2.0, 5.0],
    "d": [1.0, 2.0],
}


def encode(texts, /, *, role=None):
    assert role in ("query", "document")
    return torch.tensor([PLACES[text] for text in texts], dtype=torch.float32)


def beir(folder, qrels, *, corpus="abcd", queries="xy"):
    for name, texts in (("corpus", corpus), ("queries", queries)):
        lines = [json.dumps({"_id": f"{text}{place}", "text": text}) for place, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    (folder / "qrels").mkdir(exist_ok=True)
    text = "\n".join("\t".join(map(str, row)) for row in [("query-id", "corpus-id", "score"), *qrels])
    (folder / "qrels" / "test.tsv").write_text(text)
    return str(folder)


def rows_of(task):
    sources = task.sources().items()
    return {key: with_roles(Judged(**source.options), source.split, Store.find()) for key, source in sources}


def test_the_scores_by_hand(tmp_path):
    # x ranks a, then c before b (equal products, the larger id first), then d; y ranks c, d, b, a.
    path = beir(tmp_path, [("x0", "b1", 2), ("x0", "d3", 1), ("x0", "a0", 0), ("y1", "c2", 1)])
    task = Ir(
        path=path, similarity="dot", ndcg=[3], mrr=[3], recall=[3], map=[4], precision=[2], main="ndcg@3"
    )
    found = task.score(rows_of(task), encode)
    # x: gain 2 at rank 3, the best ranking has 2 at 1 and 1 at 2.
    ndcg = (2 / math.log2(4)) / (2 + 1 / math.log2(3))
    assert found.scores == {
        "ir/ndcg@3": pytest.approx(100 * (ndcg + 1) / 2),
        "ir/mrr@3": pytest.approx(100 * (1 / 3 + 1) / 2),
        "ir/recall@3": pytest.approx(100 * (1 / 2 + 1) / 2),
        "ir/map@4": pytest.approx(100 * ((1 / 3 + 2 / 4) / 2 + 1) / 2),
        "ir/precision@2": pytest.approx(100 * (0 + 1 / 2) / 2),
    }
    assert found.predictions == {
        "ir_ndcg@3": {"value": [pytest.approx(ndcg), pytest.approx(1.0)], "query": [0, 1]}
    }


def test_a_query_without_a_relevant_document_is_left_out_and_counted(tmp_path):
    task = Ir(path=beir(tmp_path, [("x0", "a0", 1), ("y1", "a0", 0)]), mrr=[1])
    found = task.score(rows_of(task), encode)
    assert found.scores["ir/mrr@1"] == 100
    assert found.notes == {"queries_without_relevant": {"ir": 1}}


def test_equal_texts_are_two_documents_of_one_product(tmp_path):
    task = Ir(path=beir(tmp_path, [("x0", "a0", 1)], corpus="aab"), mrr=[10])
    assert task.score(rows_of(task), encode).scores["ir/mrr@10"] == 50  # a1 comes before a0


def test_a_judgement_of_an_absent_document_is_named(tmp_path):
    path = beir(tmp_path, [("x0", "nowhere", 1), ("z9", "a0", 1)])
    with pytest.raises(DataError) as fault:
        Judged(part="qrels", path=path).read("test", Store.find())
    query, document = fault.value.problems
    assert "judges the query 'z9', which is not among the 2 of its file; give the whole" in query
    assert "judges the document 'nowhere', which is not among the 4 of its file" in document


@pytest.mark.slow
def test_metrics_are_those_of_trec_eval_ties_included(tmp_path):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    random = np.random.default_rng(0)
    texts = {f"t{number}": random.integers(-2, 3, size=4).astype(np.float32) for number in range(300)}
    names = list(texts)
    ids = random.permutation(1000)[:300]
    corpus = "\n".join(
        json.dumps({"_id": str(name), "text": text}) for name, text in zip(ids, names, strict=True)
    )
    (tmp_path / "corpus.jsonl").write_text(corpus)
    queries = "\n".join(json.dumps({"_id": f"q{place}", "text": names[place]}) for place in range(40))
    (tmp_path / "queries.jsonl").write_text(queries)
    qrels = {
        f"q{place}": {str(ids[row]): int(random.integers(0, 4)) for row in random.permutation(300)[:30]}
        for place in range(40)
    }
    rows = [
        "query-id\tcorpus-id\tscore",
        *(f"{q}\t{d}\t{g}" for q, own in qrels.items() for d, g in own.items()),
    ]
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("\n".join(rows))

    def known(wanted, /, *, role=None):
        return torch.from_numpy(np.stack([texts[text] for text in wanted]))

    ks = [1, 10, 100]
    task = Ir(path=str(tmp_path), similarity="dot", ndcg=ks, recall=ks, map=ks, precision=ks, mrr=[300])
    found = task.score(rows_of(task), known)
    run = {
        f"q{place}": {
            str(name): float(texts[names[place]] @ texts[text]) for name, text in zip(ids, names, strict=True)
        }
        for place in range(40)
    }
    at = ",".join(map(str, ks))
    measures = {f"ndcg_cut.{at}", f"recall.{at}", f"map_cut.{at}", f"P.{at}", "recip_rank"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run).values()
    name_of = {"ndcg": "ndcg_cut", "recall": "recall", "map": "map_cut", "precision": "P"}
    wanted = {f"ir/{ours}@{k}": f"{name}_{k}" for ours, name in name_of.items() for k in ks}
    wanted["ir/mrr@300"] = "recip_rank"
    means = {key: 100 * np.mean([query[name] for query in theirs]) for key, name in wanted.items()}
    assert found.scores == pytest.approx(means, abs=1e-6)


def test_other_judgements_never_stand_in_for_those_of_dev(monkeypatch, tmp_path):
    beir(tmp_path, [("x0", "a0", 1)])

    def files_of(_: str, *, config: str, **__: object) -> SimpleNamespace:
        if config == "qrels":
            return SimpleNamespace(splits={"train": [tmp_path / "qrels" / "test.tsv"]})
        return SimpleNamespace(splits={config: [tmp_path / f"{config}.jsonl"]})

    monkeypatch.setattr("embedrun.dataset.judged.hub.files_of", files_of)
    judged = Judged(part="qrels", path="hf://datasets/some/set")
    assert list(judged.read("test", Store.find()).texts["left"]) == ["x"]
    with pytest.raises(DataError, match=r"no dev judgements \(there are: train\)"):
        judged.read("dev", Store.find())


@pytest.mark.parametrize(
    "many", [20, 100]
)  # topk gives arbitrary ones of equal products where many are wanted
def test_search_in_blocks_is_that_of_a_whole_sort(monkeypatch, many):
    from embedrun.evaluation import ir

    monkeypatch.setattr(ir, "_DOCUMENTS", 700)
    monkeypatch.setattr(ir, "_QUERIES", 3)
    random = np.random.default_rng(1)
    queries, documents = (
        torch.from_numpy(random.integers(-2, 3, (n, 3)).astype(np.float32)) for n in (10, 2000)
    )
    queries[:, 0], queries[0] = 0, torch.tensor([1.0, 0, 0])
    documents[:, 0] = torch.from_numpy(random.permutation(2000).astype(np.float32))  # the first has no ties
    rows, products = nearest_documents(queries, documents, many)
    whole = (queries @ documents.T).numpy()
    order = np.argsort(-whole, axis=1, kind="stable")[:, :many]
    assert (rows == order).all()
    assert (products == np.take_along_axis(whole, order, axis=1)).all()


def test_stored_vectors_of_queries_and_documents_have_one_calibration(monkeypatch, tmp_path):
    task = Ir(path=beir(tmp_path, [("x0", "a0", 1)]), mrr=[1])
    encoder = SimpleNamespace(
        dim=2,
        scale=lambda vectors: vectors,
        encode=lambda texts, *, role, **_: encode(texts, role=role).numpy(),
    )
    ranges = []

    def compared(vectors, dtype, given):
        ranges.append(given.tolist())
        return vectors

    monkeypatch.setattr(scoring, "compared", compared)
    Scorer({"ir": task}, {"ir": rows_of(task)}, 4096, vectors=("int8",)).score(encoder, "score")
    assert len(ranges) == 2
    assert ranges[0] == ranges[1] == [[1.0, 0.0], [3.0, 5.0]]  # of x, a, b, c and d together
