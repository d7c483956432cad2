"""The sum over ordered pairs against its definition pair by pair, and ranks."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from torch import Tensor

from embedrun.loss.ordered_pairs import Ties, log_sum_over_ordered_pairs, shares_of_pairs

Loss = Callable[[Tensor], Tensor]
ALL_TIES = ("average", "min", "dense", "ordinal")


def by_definition(value: Tensor, ordered: Tensor) -> tuple[Tensor, Tensor]:
    """log(1 + Σ e^(v_j - v_i)) over the marked pairs, and its gradient, from every pair."""
    gap = (value[None, :] - value[:, None]).masked_fill(~ordered, -torch.inf)  # (rows, rows)
    total = torch.logsumexp(torch.cat((gap.flatten(), torch.zeros(1, dtype=value.dtype))), dim=0)
    share = (gap - total).exp()  # (rows, rows)
    return total, share.sum(dim=0) - share.sum(dim=1)


def value_and_gradient(loss: Loss, value: Tensor) -> tuple[Tensor, Tensor]:
    leaf = value.clone().requires_grad_()
    total = loss(leaf)
    total.backward()
    assert leaf.grad is not None
    return total.detach(), leaf.grad


def assert_same(loss: Loss, value: Tensor, ordered: Tensor) -> None:
    total, gradient = value_and_gradient(loss, value)
    expected, of_all_pairs = by_definition(value, ordered)
    # 1 + Σ eˣ has a spacing of 2e-16: below that a small logarithm has no more digits to compare.
    torch.testing.assert_close(total, expected, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(gradient, of_all_pairs, rtol=1e-10, atol=1e-12)


def draw(seed: int, rows: int, spread: float) -> tuple[Tensor, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(rows, dtype=torch.float64, generator=generator) * 2 - 1) * spread, generator


# One seed gives all rows: shrinking to a small batch is worth more than shrinking single numbers.
BATCHES = {
    "seed": st.integers(0, 2**31),
    "rows": st.integers(0, 300),
    "spread": st.sampled_from([0.0, 1e-3, 1.0, 20.0, 500.0]),
    "scores": st.sampled_from([1, 2, 5, 50, 10**6]),  # few of them: many ties
}


@settings(max_examples=80)
@given(**BATCHES, interval=st.sampled_from([0, 0.5, 0.75, 1, 2, 16, 1e30]), ties=st.sampled_from(ALL_TIES))
def test_ranked_pairs_equal_the_definition(
    seed: int, rows: int, spread: float, scores: int, interval: float, ties: Ties
):
    value, generator = draw(seed, rows, spread)
    score = torch.randint(scores, (rows,), generator=generator).double()
    rank = torch.from_numpy(rankdata(score.numpy(), method=ties).astype(float))
    ordered = rank[:, None] - rank[None, :] > interval
    assert_same(lambda v: log_sum_over_ordered_pairs(v, score, interval=interval, ties=ties), value, ordered)


@settings(max_examples=60)
@given(**BATCHES, labels=st.integers(1, 20))
def test_levelled_pairs_equal_the_definition_in_any_order_of_the_rows(
    seed: int, rows: int, spread: float, labels: int, scores: int
):
    value, generator = draw(seed, rows, spread)
    label = torch.randint(labels, (rows,), generator=generator)
    score = torch.randint(scores, (rows,), generator=generator).double()
    for order in (torch.arange(rows), torch.randperm(rows, generator=generator)):
        level, target = label[order], score[order]
        ordered = (target[:, None] > target[None, :]) & (level[:, None] < level[None, :])
        moved = value[order]
        assert_same(
            lambda v, t=target, g=level: log_sum_over_ordered_pairs(v, t, level=g, levels=labels),
            moved,
            ordered,
        )


def test_sum_by_hand():
    # Targets 3, 1, 2: the first row is above the other two, the last above the second.
    value = torch.tensor([0.5, 9.0, 2.0], dtype=torch.float64)
    target = torch.tensor([3, 1, 2])
    for options, gaps in (
        ({}, [9 - 0.5, 2 - 0.5, 9 - 2]),
        ({"interval": 1}, [9 - 0.5]),  # more than 1 apart are the first and the second row alone
        ({"level": torch.tensor([0, 0, 1])}, [2 - 0.5]),  # one row is on a higher level than one above it
    ):
        expected = math.log(1 + sum(map(math.exp, gaps)))
        found = log_sum_over_ordered_pairs(value, target, **options)
        assert found.item() == pytest.approx(expected, rel=1e-14)


def test_extreme_values_neither_overflow_nor_lose_the_small_shares():
    # The largest inversion is the loss. Of the 2 against 1 and 3 against 0 rows only e^-1000 parts are left.
    value = torch.tensor([0.0, 1000.0, -1000.0, 1e4], dtype=torch.float64)
    total, gradient = value_and_gradient(
        lambda v: log_sum_over_ordered_pairs(v, torch.tensor([3, 2, 1, 0])), value
    )
    assert total.item() == 11000  # 1e4 against -1000
    assert gradient.tolist() == [0.0, 0.0, -1.0, 1.0]
    # Every row is in order, and by more and more, so that all shares are tiny and none cancels another.
    value = torch.tensor([0, 20, 45, 75, 110, 150], dtype=torch.float64)
    target = torch.arange(6)
    _, gradient = value_and_gradient(lambda v: log_sum_over_ordered_pairs(v, target), value)
    _, expected = by_definition(value, target[:, None] > target[None, :])
    torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=0)
    assert 0 < gradient.abs().min() < 1e-15
    # e^-2000 is no number beside e^0, but the first two rows cost e^0 among themselves.
    value = torch.tensor([-2000.0, -2000.0, 0.0], dtype=torch.float64)
    total, gradient = value_and_gradient(lambda v: log_sum_over_ordered_pairs(v, torch.arange(3)), value)
    assert total.item() == pytest.approx(math.log(2))
    assert gradient.tolist() == pytest.approx([0.5, -0.5, 0])


def test_shares_count_ordered_pairs_and_those_that_the_values_contradict():
    # Targets 3, 2, 2, 1: five of six pairs are ordered. Values 0, 1, 5, 1 contradict (0,1), (0,2), (0,3), and
    # leave (1,3) undecided.
    value, target = torch.tensor([0.0, 1.0, 5.0, 1.0]), torch.tensor([3, 2, 2, 1])
    active, violated = shares_of_pairs(value, target[:, None] > target[None, :])
    assert active.item() == pytest.approx(5 / 6)
    assert violated.item() == pytest.approx(3 / 5)
    active, violated = shares_of_pairs(torch.ones(1), torch.zeros(1, 1, dtype=torch.bool))
    assert (active.item(), violated.item()) == (0, 0)
