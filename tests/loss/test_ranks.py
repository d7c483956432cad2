import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from embedrun.loss.ordered_pairs import Ties, ranks, run_begins


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        ("average", [4, 2.5, 1, 2.5]),
        ("min", [4, 2, 1, 2]),
        ("dense", [3, 2, 1, 2]),
        ("ordinal", [4, 2, 1, 3]),
    ],
)
def test_ties_by_hand(ties: Ties, expected: list[float]):
    assert ranks(torch.tensor([9.0, 5.0, 1.0, 5.0]), ties).tolist() == expected


@given(st.lists(st.integers(0, 9), max_size=60), st.sampled_from(["average", "min", "dense", "ordinal"]))
def test_ranks_are_those_of_scipy(scores: list[int], ties: Ties):
    assert ranks(torch.tensor(scores, dtype=torch.int64), ties).tolist() == rankdata(scores, ties).tolist()


def test_close_fractions_and_large_integers_are_told_apart():
    assert ranks(torch.tensor([4 + 1e-15, 4.0], dtype=torch.float64), "average").tolist() == [2, 1]
    assert ranks(torch.tensor([2**53 + 1, 2**53]), "average").tolist() == [2, 1]


def test_runs_begin_where_the_first_equal_score_stands():
    assert run_begins(torch.tensor([1, 1, 2, 5, 5, 5])).tolist() == [0, 0, 2, 3, 3, 3]
    assert run_begins(torch.tensor([7, 7])).tolist() == [0, 0]
    assert run_begins(torch.tensor([])).tolist() == []
