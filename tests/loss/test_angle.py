import math
from typing import Any

import pytest
import torch
from torch import Tensor

from embedrun.loss.angle import Angle, Delta, complex_angle

DELTAS: tuple[Delta, ...] = ("sum", "phase", "modulus")


def batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    left = torch.randn(4, 6, dtype=torch.float64, generator=generator)
    right = torch.randn(4, 6, dtype=torch.float64, generator=generator)
    return left, right, torch.tensor([4.8, 0.0, 4.2, 4.2], dtype=torch.float64)


def delta_of(left: list[float], right: list[float], delta: Delta) -> float:
    return complex_angle(torch.tensor([left]), torch.tensor([right]), delta).item()


def test_sum_adds_real_and_imaginary_part_before_the_absolute_value():
    # z = 3 + 4i, w = 2i: real part 8, imaginary part -6, norms 5 and 2.
    assert delta_of([3.0, 4.0], [0.0, 2.0], "sum") == pytest.approx(abs(8 - 6) / (5 * 2))
    # Swapped, the imaginary part changes its sign.
    assert delta_of([0.0, 2.0], [3.0, 4.0], "sum") == pytest.approx(abs(8 + 6) / (5 * 2))


def test_phase_averages_the_angles_between_complex_numbers():
    # z = (1, i), w = (i, -2i): a quarter turn and a half turn.
    assert delta_of([1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, -2.0], "phase") == pytest.approx(0.75 * math.pi)


def test_number_without_a_phase_counts_as_no_difference():
    # z = (1, 0), w = (i, i): a quarter turn, and nothing to compare.
    assert delta_of([1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], "phase") == pytest.approx(math.pi / 4)


@pytest.mark.parametrize("delta", DELTAS)
def test_odd_width_is_padded_with_one_zero(delta: Delta):
    left, right, _ = batch()
    zero = torch.zeros(4, 1, dtype=torch.float64)
    padded = complex_angle(torch.cat((left[:, :5], zero), 1), torch.cat((right[:, :5], zero), 1), delta)
    torch.testing.assert_close(complex_angle(left[:, :5], right[:, :5], delta), padded)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("swapped", [False, True])
def test_gradient_is_finite_where_the_formula_has_none(delta: Delta, swapped: bool):
    left = [
        [1.0, 0.0, 2.0, 0.0],  # one complex number is zero on both sides
        [1.0, 0.0, 2.0, 0.0],  # one is zero on one side
        [1.0, 1e-30, 2.0, 1e-30],  # one complex number is all but zero
        [1.0, 1e-21, 2.0, 1e-21],  # its square underflows
        [1.0, 1e-15, 2.0, 1e-15],  # its square does not
        [1.0, 0.0, 0.0, 0.0],  # real against imaginary: |0 + 0|, or its parts 0
    ]
    right = [
        [3.0, 0.0, 1.0, 0.0],
        [3.0, 1.0, 1.0, 1.0],
        [3.0, 1.0, 1.0, 1.0],
        [3.0, 1.0, 1.0, 1.0],
        [3.0, 1.0, 1.0, 1.0],
        [0.0, 1.0, 0.0, 0.0],
    ]
    views = [torch.tensor(side, requires_grad=True) for side in ((right, left) if swapped else (left, right))]
    with torch.autograd.detect_anomaly():
        loss = Angle(delta=delta)(*views, torch.arange(6))
        loss.backward()
    assert torch.isfinite(loss)
    for view in views:
        assert view.grad is not None
        assert torch.isfinite(view.grad).all()


def test_modulus_is_one_and_has_an_exactly_zero_gradient():
    left, right, score = batch()
    left.requires_grad_()
    assert complex_angle(left, right, "modulus").tolist() == [1.0] * 4
    loss = Angle(delta="modulus")(left, right, score)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(1 + 5))  # 4.8 over three others, 4.2 twice over 0
    assert left.grad is not None
    assert left.grad.count_nonzero() == 0


@pytest.mark.parametrize(
    ("delta", "direction", "violated"),
    [
        # Deltas 1, 0.2, |0.6 + 0.8| = 1.4; phases 0, 0.93 and 0.93; scores falling.
        ("sum", "similar_large", 2 / 3),  # the third is above both others
        ("sum", "similar_small", 1 / 3),  # the second is below the first
        ("phase", "similar_small", 0),
        ("phase", "similar_large", 2 / 3),  # the first has the smallest difference; the others tie
        ("modulus", "similar_large", 0),
    ],
)
def test_comparisons_count_pairs_whose_deltas_contradict_the_direction(
    delta: Delta, direction: Any, violated: float
):
    left = torch.tensor([[1.0, 0.0]]).repeat(3, 1)
    right = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.6, -0.8]])
    active, found = Angle(delta=delta, direction=direction).comparisons(left, right, torch.tensor([3, 2, 1]))
    assert active.item() == 1
    assert found.item() == pytest.approx(violated)
