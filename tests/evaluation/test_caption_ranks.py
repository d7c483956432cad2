import json
import math
from pathlib import Path

import numpy as np
import pytest

from embedrun.evaluation import retrieval
from embedrun.evaluation.retrieval import comparable, member_ranks, ranks_of_others, strict, strict_accuracy

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "metrics.json").read_text(encoding="utf-8"))
CASES = [case for case in GOLDEN["cases"] if case["metric"] == "strict_accuracy"]

# Products with the first: 1, 0.9, 0.2; 0.5, 0, 0.3. With the fourth: 0.5, 0.45, 0.1; 4.25, 6, 2.15.
VECTORS = np.array([[1, 0], [0.9, 0], [0.2, 0], [0.5, 2], [0, 3], [0.3, 1]], dtype=np.float32)
GROUP = [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_golden_strict_accuracy(case):
    given = case["inputs"]
    assert {given["group"].count(given["group"][query]) for query in given["queries"]} == {given["k"]}
    vectors = np.array(given["embeddings"], dtype=np.float32)
    assert strict_accuracy(vectors, given["group"], given["queries"]) == case["expected"]


def test_there_are_golden_cases():
    assert len(CASES) == 2


def test_ranks_count_what_is_nearer_the_query_itself_among_it():
    found = member_ranks(VECTORS, GROUP, [0, 3])
    assert [ranks.tolist() for ranks in found] == [[1, 2, 5], [2, 1, 3]]
    assert [strict(ranks) for ranks in found] == [False, True]
    assert strict_accuracy(VECTORS, GROUP, [0, 3], "dot") == 0.5


def test_with_unit_length_the_direction_alone_counts():
    found = comparable(np.array([[3, 4], [0, 0], [0, -2]], dtype=np.float32), "cosine")
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0], [0, -1]], rtol=1e-6)
    assert found.dtype == np.float32
    assert strict_accuracy(VECTORS, GROUP, [0, 3]) == 1  # the first three lie in one line


def test_of_no_query_the_accuracy_is_undefined():
    assert math.isnan(strict_accuracy(VECTORS, GROUP, []))


@pytest.mark.parametrize(
    ("ranks", "query", "others"),
    [([1, 2, 5], 0, [1, 4]), ([2, 1, 3], 0, [1, 2]), ([6, 1, 4], 0, [1, 4]), ([3, 2, 9], 1, [2, 8])],
)
def test_without_the_query_what_stood_behind_it_moves_up(ranks, query, others):
    assert ranks_of_others(np.array(ranks), query).tolist() == others


def test_of_equal_products_the_earlier_text_comes_first():
    same = np.zeros((4, 2), dtype=np.float32)
    found = member_ranks(same, [0, 0, 1, 1], [0, 2])
    assert [ranks.tolist() for ranks in found] == [[1, 2], [3, 4]]
    assert [strict(ranks) for ranks in found] == [True, False]


def test_the_texts_of_a_group_need_not_stand_together():
    order = [3, 0, 5, 1, 4, 2]
    found = member_ranks(VECTORS[order], np.array(GROUP)[order], [1, 0])
    assert [ranks.tolist() for ranks in found] == [[1, 2, 5], [2, 3, 1]]


def test_groups_may_differ_in_size():
    assert [ranks.tolist() for ranks in member_ranks(VECTORS, [0, 0, 1, 2, 2, 2], [0, 2])] == [[1, 2], [5]]


@pytest.mark.parametrize("block", [1, 2**22])
def test_equal_vectors_have_equal_products_wherever_they_stand(monkeypatch, block):
    # A product of a matrix with one query alone sums some columns in another order.
    monkeypatch.setattr(retrieval, "_BLOCK", block)
    single = np.random.default_rng(0).standard_normal((301, 67)).astype(np.float32)
    twice = np.concatenate([single, single[::-1]])  # (602, 67)
    for ranks in member_ranks(twice, np.zeros(602, dtype=np.int64), np.arange(40)):
        np.testing.assert_array_equal(ranks[301:][::-1], ranks[:301] + 1)


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


def test_progress_counts_queries(monkeypatch):
    monkeypatch.setattr(retrieval, "_BLOCK", 12)  # two queries of six texts
    seen = []
    member_ranks(VECTORS, GROUP, [0, 3, 4], lambda done, all_: seen.append((done, all_)))
    assert seen == [(2, 3), (3, 3)]
