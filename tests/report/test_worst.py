import numpy as np
import pytest

from embedrun.report.scores import ScoredPairs, ranks, worst


def pairs(gold: list[float], predicted: list[float], **more) -> ScoredPairs:
    return ScoredPairs("stsb", "sts/stsb/spearman", np.array(gold), np.array(predicted), **more)


def test_a_rank_is_the_share_below_with_half_of_the_equals():
    np.testing.assert_allclose(ranks(np.array([3.0, 1.0, 3.0, 2.0])), [75, 12.5, 75, 37.5])


def test_pairs_come_by_the_difference_of_their_ranks():
    # By gold 0 1 2 3; by cosine 0 3 1 2: rank differences 0, 2, 1, 1.
    found = worst(pairs([0, 1, 2, 3], [0.1, 0.9, 0.2, 0.3]))
    assert found is not None
    assert [row.row for row in found.rows] == [2, 3, 4]  # the first pair is ranked right
    first = found.rows[0]
    assert (first.gold, first.predicted, first.gold_rank, first.predicted_rank) == (
        "1.00",
        "0.900",
        37.5,
        87.5,
    )


def test_ten_are_shown_with_their_texts():
    left, right = [f"l{row}" for row in range(50)], [f"r{row}" * 300 for row in range(50)]
    found = worst(pairs(list(range(50)), list(range(0, -50, -1)), texts=(left, right)))
    assert found is not None
    assert len(found.rows) == 10
    assert found.rows[0].texts[0] == "l0"
    assert len(found.rows[0].texts[1]) == 400
    assert found.rows[0].texts[1].endswith("…")


def test_pairs_without_a_finite_cosine_are_left_out_and_counted():
    found = worst(pairs([0, 1, 2], [np.nan, 0.9, -0.25]))
    assert found is not None
    assert (found.pairs, found.left_out) == (2, 1)
    assert [row.row for row in found.rows] == [2, 3]
    assert found.rows[1].predicted == "−0.250"


@pytest.mark.parametrize("predicted", [[], [np.nan]])
def test_a_set_without_a_finite_cosine_has_no_worst(predicted):
    assert worst(pairs([0.0] * len(predicted), predicted)) is None
