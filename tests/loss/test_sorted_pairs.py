"""Both sums over ordered pairs, sorted, against their definition pair by pair."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from torch import Tensor

from embedrun.loss import ordered_pairs
from embedrun.loss.ordered_pairs import (
    Ties,
    log_sum_by_sorting,
    log_sum_over_agreeing_pairs,
    log_sum_over_ordered_pairs,
    log_sum_over_ranked_pairs,
)

Loss = Callable[[Tensor], Tensor]


@pytest.fixture(autouse=True, scope="module")
def always_sort():
    """No batch is small here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered_pairs, "SORTED_FROM", {"cpu": 1, "cuda": 1})
        yield


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
}


@settings(max_examples=100)
@given(**BATCHES, targets=st.sampled_from([1, 2, 5, 50, 10**6]))
def test_ordered_pairs_equal_the_definition(seed: int, rows: int, spread: float, targets: int):
    value, generator = draw(seed, rows, spread)
    target = torch.randint(targets, (rows,), generator=generator).double()  # few targets: many ties
    ordered = target[:, None] > target[None, :]
    assert_same(lambda v: log_sum_over_ordered_pairs(v, target), value, ordered)


@settings(max_examples=200)
@given(
    **BATCHES,
    scores=st.sampled_from([1, 2, 5, 50, 10**6]),
    interval=st.sampled_from([0, 0.5, 0.75, 1, 2, 16]),
    ties=st.sampled_from(["average", "min", "dense", "ordinal"]),
)
def test_ranked_pairs_equal_the_definition(
    seed: int, rows: int, spread: float, scores: int, interval: float, ties: Ties
):
    value, generator = draw(seed, rows, spread)
    score = torch.randint(scores, (rows,), generator=generator).double()
    rank = torch.from_numpy(rankdata(score.numpy(), method=ties).astype(float))
    ordered = rank[:, None] - rank[None, :] > interval
    assert_same(lambda v: log_sum_over_ranked_pairs(v, score, interval=interval, ties=ties), value, ordered)


@settings(max_examples=100)
@given(**BATCHES, labels=st.integers(1, 20), scores=st.sampled_from([1, 2, 5, 50, 10**6]))
def test_agreeing_pairs_equal_the_definition(seed: int, rows: int, spread: float, labels: int, scores: int):
    value, generator = draw(seed, rows, spread)
    label = torch.randint(labels, (rows,), generator=generator)
    score = torch.randint(scores, (rows,), generator=generator).double()
    ordered = (label[:, None] > label[None, :]) & (score[:, None] < score[None, :])
    assert_same(lambda v: log_sum_over_agreeing_pairs(v, label, score), value, ordered)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), rows=st.integers(2, 300))
def test_order_of_the_rows_does_not_matter(seed: int, rows: int):
    value, generator = draw(seed, rows, 20.0)
    label = torch.randint(3, (rows,), generator=generator)
    score = torch.randint(10, (rows,), generator=generator).double()
    order = torch.randperm(rows, generator=generator)
    losses: list[tuple[Loss, Loss]] = [
        (
            lambda v: log_sum_over_ordered_pairs(v, score),
            lambda v: log_sum_over_ordered_pairs(v, score[order]),
        ),
        (
            lambda v: log_sum_over_agreeing_pairs(v, label, score),
            lambda v: log_sum_over_agreeing_pairs(v, label[order], score[order]),
        ),
    ]
    for plain, permuted in losses:
        total, gradient = value_and_gradient(plain, value)
        other, other_gradient = value_and_gradient(permuted, value[order])
        torch.testing.assert_close(total, other, rtol=1e-12, atol=1e-15)
        torch.testing.assert_close(gradient[order], other_gradient, rtol=1e-10, atol=1e-12)


def test_sum_by_hand():
    # Keys 3, 1, 2: the first row is above the other two, the last above the second.
    value = torch.tensor([0.5, 9.0, 2.0], dtype=torch.float64)
    key = torch.tensor([3, 1, 2])
    expected = math.log(1 + math.exp(9 - 0.5) + math.exp(2 - 0.5) + math.exp(9 - 2))
    assert log_sum_by_sorting(value, key).item() == pytest.approx(expected, rel=1e-14)
    # More than 1 apart are the first and the second row alone.
    assert log_sum_by_sorting(value, key, interval=1).item() == pytest.approx(
        math.log(1 + math.exp(8.5)), rel=1e-14
    )
    # Only the third row is on a higher level than a row with a larger key.
    level = torch.tensor([0, 0, 1])
    assert log_sum_by_sorting(value, key, level=level).item() == pytest.approx(
        math.log(1 + math.exp(1.5)), rel=1e-14
    )


@pytest.mark.parametrize("level", [None, torch.zeros(4), torch.arange(4)])
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_no_pair_costs_nothing_and_has_a_zero_gradient(rows: int, level: Tensor | None):
    value = torch.zeros(rows, dtype=torch.float64, requires_grad=True)
    key = torch.ones(rows) if level is None else torch.arange(rows)
    total = log_sum_by_sorting(value, key, level=None if level is None else level[:rows])
    total.backward()
    assert total.item() == 0
    assert value.grad is not None
    assert value.grad.tolist() == [0.0] * rows


@pytest.mark.parametrize("leveled", [False, True])
@pytest.mark.parametrize("interval", [0, 2])
def test_gradient_agrees_with_finite_differences(leveled: bool, interval: int):
    value, generator = draw(5, 12, 2.0)
    key = torch.randint(6, (12,), generator=generator)
    level = torch.randint(3, (12,), generator=generator) if leveled else None
    loss = lambda v: log_sum_by_sorting(v, key, interval=interval, level=level)  # noqa: E731
    assert torch.autograd.gradcheck(loss, (value.requires_grad_(),))


@pytest.mark.parametrize("rows", [1, 300])
def test_constant_targets_cost_exactly_nothing(rows: int):
    value, _ = draw(7, rows, 20.0)
    for loss in (
        lambda v: log_sum_over_ordered_pairs(v, torch.ones(rows)),
        lambda v: log_sum_over_agreeing_pairs(v, torch.ones(rows), torch.arange(float(rows))),
        lambda v: log_sum_over_agreeing_pairs(v, torch.arange(rows) % 3, torch.ones(rows)),
    ):
        total, gradient = value_and_gradient(loss, value)
        assert total.item() == 0
        assert gradient.count_nonzero() == 0


def test_extreme_values_neither_overflow_nor_lose_the_small_shares():
    # The largest inversion is the loss. Of the 2 against 1 and 3 against 0 rows only e^-1000 parts are left.
    value = torch.tensor([0.0, 1000.0, -1000.0, 1e4], dtype=torch.float64)
    total, gradient = value_and_gradient(
        lambda v: log_sum_over_ordered_pairs(v, torch.tensor([3, 2, 1, 0])), value
    )
    assert total.item() == 11000  # 1e4 against -1000
    assert gradient.tolist() == [0.0, 0.0, -1.0, 1.0]


def test_gradient_keeps_its_digits_across_forty_orders_of_magnitude():
    # Every row is in order, and by more and more, so that all shares are tiny and none cancels another.
    value = torch.tensor([0, 20, 45, 75, 110, 150], dtype=torch.float64)
    target = torch.arange(6)
    _, gradient = value_and_gradient(lambda v: log_sum_over_ordered_pairs(v, target), value)
    _, expected = by_definition(value, target[:, None] > target[None, :])
    torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=0)
    assert 0 < gradient.abs().min() < 1e-15


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64], ids=str
)
def test_targets_of_any_type_are_compared_as_they_are(dtype: torch.dtype):
    value, generator = draw(8, 40, 5.0)
    target = torch.randint(0, 9, (40,), generator=generator).to(dtype)
    ordered = target[:, None] > target[None, :]
    assert_same(lambda v: log_sum_over_ordered_pairs(v, target), value, ordered)
    label = torch.arange(40) % 3
    ordered = (label[:, None] > label[None, :]) & (target[:, None] < target[None, :])
    assert_same(lambda v: log_sum_over_agreeing_pairs(v, label, target), value, ordered)


def test_large_integers_and_close_fractions_do_not_tie():
    for target in (
        torch.tensor([2**53 + 1, 2**53]),
        torch.tensor([4.0 + 1e-12, 4.0], dtype=torch.float64),
    ):
        assert log_sum_over_ordered_pairs(torch.zeros(2), target).item() == pytest.approx(math.log(2))


def test_result_has_the_type_of_the_values_and_float32_rounds_once():
    value, _ = draw(9, 4096, 20.0)
    target = torch.arange(4096.0).flip(0)
    total, gradient = value_and_gradient(lambda v: log_sum_over_ordered_pairs(v, target), value.float())
    assert total.dtype == gradient.dtype == torch.float32
    expected, of_all_pairs = by_definition(value.float().double(), target[:, None] > target[None, :])
    torch.testing.assert_close(total, expected.float(), rtol=1e-7, atol=0)
    torch.testing.assert_close(gradient, of_all_pairs.float(), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("interval", "ties"), [(0, "min"), (2, "average"), (0, "ordinal")])
def test_a_sum_without_levels_does_not_wait_for_a_device(interval: float, ties: Ties):
    value = torch.empty(3000, dtype=torch.float64, device="meta", requires_grad=True)  # nothing can be read
    loss = log_sum_by_sorting(value, torch.empty(3000, device="meta"), interval=interval, ties=ties)
    loss.backward()
    assert value.grad is not None


def test_equal_values_far_below_another_keep_their_pair():
    # e^-2000 is no number beside e^0, but the first two rows cost e^0 among themselves.
    value = torch.tensor([-2000.0, -2000.0, 0.0], dtype=torch.float64)
    total, gradient = value_and_gradient(lambda v: log_sum_over_ordered_pairs(v, torch.arange(3)), value)
    assert total.item() == pytest.approx(math.log(2))
    assert gradient.tolist() == pytest.approx([0.5, -0.5, 0])


def test_nan_among_the_values_is_noticed():
    value = torch.tensor([1.0, math.nan, 2.0])
    assert log_sum_over_ordered_pairs(value, torch.tensor([0, 1, 2])).isnan()
