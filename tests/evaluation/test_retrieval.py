"""Captions, and exact ranks among them."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from minilm import minilm_folder
from torch import Tensor

from embedrun.dataset.published import Captions
from embedrun.encoder import Encoder
from embedrun.evaluation import retrieval
from embedrun.evaluation.retrieval import (
    Retrieval,
    comparable,
    member_ranks,
    strict,
)
from embedrun.rows import Rows
from embedrun.store import Store

# Products with a: 1, 0.9, 0.2; 0.5, 0, 0.3. With d: 0.5, 0.45, 0.1; 4.25, 6, 2.15.
PLACES = {"a": [1, 0], "b": [0.9, 0], "c": [0.2, 0], "d": [0.5, 2], "e": [0, 3], "f": [0.3, 1]}


def encode(texts: list[str]) -> Tensor:
    return torch.tensor([PLACES[text] for text in texts], dtype=torch.float32)


def captions(name: str, *images: str, split: str = "test") -> Rows:
    """One caption a letter."""
    group = np.array([number for number, image in enumerate(images) for _ in image], dtype=np.int64)
    return Rows(name, split, "text", {"text": list("".join(images))}, {"group": group})


def test_the_scores_by_hand():
    # The first three for a are a, b, d: wrong. For d they are e, d, f: right.
    # The others without the query: b, d, f, c for a, ranks 1 and 4; e, f for d, ranks 1 and 2.
    task = Retrieval(similarity="dot", recall_at=[1, 2, 4])
    found = task.score({"flickr30k": captions("flickr30k", "abc", "def")}, encode)
    assert found.scores == {
        "retrieval/flickr30k/strict_accuracy": pytest.approx(50),
        "retrieval/flickr30k/recall_at_1": pytest.approx(50),
        "retrieval/flickr30k/recall_at_2": pytest.approx(75),  # (1/2 + 2/2) / 2
        "retrieval/flickr30k/recall_at_4": pytest.approx(100),
        "retrieval/flickr30k/mrr": pytest.approx(100),
    }
    assert found.main == "retrieval/flickr30k/strict_accuracy"
    assert found.predictions == {
        "retrieval_flickr30k": {"correct": [0, 1], "rank": [1, 1], "query": [0, 3]},
    }


def test_an_image_with_six_captions_needs_six():
    def correct(*images: str) -> list[int]:
        found = Retrieval(sets=["mscoco"]).score({"mscoco": captions("mscoco", *images)}, encode)
        return found.predictions["retrieval_mscoco"]["correct"]

    # Cosines with d: f 0.999, e 0.970, b 0.243.
    assert correct("dddddf", "ea")[0] == 1
    assert correct("dddddb", "ea")[0] == 0
    assert correct("ddddd", "ea")[0] == 1


@pytest.mark.parametrize("bad", [math.nan, 1e30])
def test_a_vector_that_is_not_finite_makes_the_scores_undefined(bad):
    def broken(texts: list[str]) -> Tensor:
        vectors = encode(texts)
        vectors[4, 1] = bad
        return vectors

    found = Retrieval(recall_at=[3]).score({"flickr30k": captions("flickr30k", "abc", "def")}, broken)
    assert len(found.scores) == 3
    assert all(math.isnan(value) for value in found.scores.values())
    assert found.predictions == {}


@pytest.mark.realdata
@pytest.mark.slow
def test_strict_accuracy_of_minilm_on_the_captions_of_flickr30k():
    encoder, rows = (
        Encoder.load(minilm_folder()),
        Captions().read("test", Store.find(os.environ["EMBEDRUN_DATA"])),
    )
    found = Retrieval(similarity="cosine").score(
        {"flickr30k": rows}, lambda texts: torch.from_numpy(encoder.encode(texts))
    )
    low, high = found.intervals[found.main]
    assert found.scores[found.main] == pytest.approx(12.0, abs=0.1)  # one query of 1,000 is 0.1
    assert 9.5 < low < 10.5 < 13.5 < high < 14.5


GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "metrics.json").read_text(encoding="utf-8"))
CASES = [case for case in GOLDEN["cases"] if case["metric"] == "strict_accuracy"]

# Products with the first: 1, 0.9, 0.2; 0.5, 0, 0.3. With the fourth: 0.5, 0.45, 0.1; 4.25, 6, 2.15.
VECTORS = np.array([[1, 0], [0.9, 0], [0.2, 0], [0.5, 2], [0, 3], [0.3, 1]], dtype=np.float32)
GROUP = [0, 0, 0, 1, 1, 1]


def test_golden_strict_accuracy():
    assert len(CASES) == 2
    for case in CASES:
        given = case["inputs"]
        assert {given["group"].count(given["group"][query]) for query in given["queries"]} == {given["k"]}
        vectors = np.array(given["embeddings"], dtype=np.float32)
        ranks = member_ranks(comparable(vectors, "cosine"), given["group"], given["queries"])
        assert np.mean([strict(each) for each in ranks]) == case["expected"]


def test_ranks_count_what_is_nearer_the_query_itself_among_it():
    found = member_ranks(VECTORS, GROUP, [0, 3])
    assert [ranks.tolist() for ranks in found] == [[1, 2, 5], [2, 1, 3]]
    assert [strict(ranks) for ranks in found] == [False, True]


def test_the_ranks_are_those_of_a_stable_sort_in_blocks_of_any_size(monkeypatch):
    generator = np.random.default_rng(1)
    vectors = generator.integers(-2, 3, (60, 4)).astype(np.float32)  # whole numbers: exact, with many ties
    group = generator.permutation(np.repeat(np.arange(15), 4))
    expected = []
    for query in range(60):
        order = np.argsort(-(vectors @ vectors[query]), kind="stable").tolist()
        expected.append([1 + order.index(place) for place in np.flatnonzero(group == group[query])])
    for block in (1, 60 * 7, 2**22):
        monkeypatch.setattr(retrieval, "_BLOCK", block)
        found = member_ranks(vectors, group, np.arange(60))
        assert [ranks.tolist() for ranks in found] == expected
