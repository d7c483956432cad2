"""Sums over ordered pairs, and ranks."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata
from torch import Tensor

from embedrun.loss import ordered_pairs
from embedrun.loss.ordered_pairs import (
    SORTED_FROM,
    Ties,
    log_sum_over_agreeing_pairs,
    log_sum_over_ordered_pairs,
    log_sum_over_ranked_pairs,
    ranks,
    shares_of_pairs,
)


def test_sum_runs_over_pairs_with_a_larger_first_target():
    value = torch.tensor([1.0, 2.0, 4.0])
    target = torch.tensor([2, 0, 1])  # ordered: (0, 1), (0, 2), (2, 1)
    expected = math.log(1 + math.exp(2 - 1) + math.exp(4 - 1) + math.exp(2 - 4))
    torch.testing.assert_close(log_sum_over_ordered_pairs(value, target), torch.tensor(expected))


def test_ties_form_no_pair():
    value = torch.tensor([5.0, 0.0, 3.0])
    target = torch.tensor([1.0, 1.0, 0.0])
    expected = math.log(1 + math.exp(3 - 5) + math.exp(3 - 0))
    torch.testing.assert_close(log_sum_over_ordered_pairs(value, target), torch.tensor(expected))


def test_targets_are_not_rounded():
    # As float32 or as whole numbers these two would tie.
    target = torch.tensor([4.0 + 1e-12, 4.0], dtype=torch.float64)
    torch.testing.assert_close(log_sum_over_ordered_pairs(torch.zeros(2), target), torch.tensor(math.log(2)))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_without_ordered_pairs_the_value_and_the_gradient_are_exactly_zero(rows: int):
    value = torch.arange(rows, dtype=torch.float32).requires_grad_()
    loss = log_sum_over_ordered_pairs(value, torch.ones(rows))
    loss.backward()
    assert loss.item() == 0
    assert value.grad is not None
    assert value.grad.tolist() == [0.0] * rows


def test_large_exponents_do_not_overflow():
    value = torch.tensor([0.0, 1000.0], requires_grad=True)
    loss = log_sum_over_ordered_pairs(value, torch.tensor([1, 0]))
    loss.backward()
    assert loss.item() == 1000
    assert value.grad is not None
    assert value.grad.tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("shape", [(3, 1), (1,), (4,)])
def test_targets_of_another_shape_are_refused(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match="one target for each row"):
        log_sum_over_ordered_pairs(torch.zeros(3), torch.zeros(shape))


@pytest.mark.parametrize("rows", [SORTED_FROM["cpu"] - 1, SORTED_FROM["cpu"]])
def test_large_batches_are_sorted_and_small_ones_are_not(rows: int, monkeypatch: pytest.MonkeyPatch):
    calls = []

    def count(*given: Tensor, **options: object) -> Tensor:
        calls.append(given)
        return torch.tensor(0.0)

    monkeypatch.setattr(ordered_pairs, "log_sum_by_sorting", count)
    value, target, label = torch.zeros(rows), torch.arange(rows), torch.arange(rows) % 2
    log_sum_over_ordered_pairs(value, target)
    log_sum_over_agreeing_pairs(value, label, target)
    assert len(calls) == (2 if rows == SORTED_FROM["cpu"] else 0)


def test_interval_leaves_out_scores_of_near_ranks():
    value = torch.tensor([1.0, 2.0, 4.0])
    score = torch.tensor([30.0, 1.0, 0.0])  # ranks 3, 2, 1: the outer two alone are more than 1 apart
    expected = math.log(1 + math.exp(4 - 1))
    total = log_sum_over_ranked_pairs(value, score, interval=1, ties="average")
    torch.testing.assert_close(total, torch.tensor(expected))


def test_agreeing_pairs_have_a_larger_label_and_a_smaller_score():
    value = torch.tensor([1.0, 2.0, 4.0, 8.0])
    label = torch.tensor([2, 1, 0, 1])
    score = torch.tensor([0.1, 0.6, 0.6, 0.0])  # (0, 1), (0, 2) and (3, 2); 1 and 2 have one score
    expected = math.log(1 + math.exp(2 - 1) + math.exp(4 - 1) + math.exp(4 - 8))
    torch.testing.assert_close(log_sum_over_agreeing_pairs(value, label, score), torch.tensor(expected))


@pytest.mark.parametrize(("labels", "scores", "named"), [((2,), (3,), "label"), ((3,), (3, 1), "score")])
def test_label_or_score_of_another_shape_is_refused(
    labels: tuple[int, ...], scores: tuple[int, ...], named: str
):
    with pytest.raises(ValueError, match=f"one {named} for each row"):
        log_sum_over_agreeing_pairs(torch.zeros(3), torch.zeros(labels), torch.zeros(scores))


def test_shares_count_ordered_pairs_and_those_that_the_values_contradict():
    # Targets 3, 2, 2, 1: five of six pairs are ordered. Values 0, 1, 5, 1 contradict (0,1), (0,2), (0,3), and
    # leave (1,3) undecided.
    value, target = torch.tensor([0.0, 1.0, 5.0, 1.0]), torch.tensor([3, 2, 2, 1])
    active, violated = shares_of_pairs(value, target[:, None] > target[None, :])
    assert active.item() == pytest.approx(5 / 6)
    assert violated.item() == pytest.approx(3 / 5)


def test_shares_of_one_row_are_zero():
    active, violated = shares_of_pairs(torch.ones(1), torch.zeros(1, 1, dtype=torch.bool))
    assert (active.item(), violated.item()) == (0, 0)


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
