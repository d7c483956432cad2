import math

import pytest
import torch

from embedrun.loss.cosine import (
    angle,
    cosine,
    cosines,
    normalize,
    turned_cosine,
)


def test_zero_vector_stays_zero_with_zero_gradient():
    vectors = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    unit = normalize(vectors)
    unit.sum().backward()
    assert unit[0].tolist() == [0.0, 0.0]
    assert vectors.grad is not None
    assert vectors.grad[0].tolist() == [0.0, 0.0]
    # (1 - u (u·1)) / 5 with u = (.6, .8)
    torch.testing.assert_close(vectors.grad[1], torch.tensor([0.032, -0.024]))


@pytest.mark.parametrize("scale", [1e-18, 1e-9, 1e15])
def test_direction_does_not_depend_on_the_scale(scale: float):
    vectors = (torch.tensor([[3.0, 4.0]]) * scale).requires_grad_()
    unit = normalize(vectors)
    torch.testing.assert_close(unit.detach(), torch.tensor([[0.6, 0.8]]))
    unit.sum().backward()
    assert vectors.grad is not None
    torch.testing.assert_close(vectors.grad * scale, torch.tensor([[0.032, -0.024]]))


def test_angles_in_radians():
    left = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    right = torch.tensor([[5.0, 0.0], [0.0, 7.0], [-3.0, 0.0], [1.0, math.sqrt(3)]])
    expected = torch.tensor([0, math.pi / 2, math.pi, math.pi / 3])
    torch.testing.assert_close(angle(left, right), expected, rtol=1e-6, atol=1e-6)


def test_zero_vector_is_at_a_right_angle_to_everything():
    left = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    right = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0]], requires_grad=True)
    found = angle(left, right)
    found.sum().backward()
    torch.testing.assert_close(found.detach(), torch.full((3,), math.pi / 2))
    for side in (left, right):
        assert side.grad is not None
        assert side.grad.count_nonzero() == 0


@pytest.mark.parametrize("small", [1e-3, 1e-12, 1e-18])
def test_small_angle_keeps_its_digits_and_its_gradient(small: float):
    # The cosine of the smaller three is 1 in float32; the slope of the angle in the second entry is 1.
    left = torch.tensor([[1.0, 0.0]])
    right = torch.tensor([[1.0, small]], requires_grad=True)
    found = angle(left, right)
    found.backward()
    assert found.item() == pytest.approx(small, rel=1e-5)
    assert right.grad is not None
    assert right.grad.tolist() == [pytest.approx([0, 1], abs=2e-3)]


def test_cosine_of_every_row_with_every_column():
    rows = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    columns = torch.tensor([[5.0, 0.0], [3.0, 4.0], [-1.0, 0.0]])
    torch.testing.assert_close(cosines(rows, columns), torch.tensor([[1.0, 0.6, -1.0], [0.0, 0.0, 0.0]]))


def test_pair_with_a_bad_entry_is_nan_and_the_others_are_not():
    left, right = torch.eye(4), torch.ones(4, 4)
    left[3, 0] = math.nan
    for function in (cosine, turned_cosine, angle):
        assert function(left, right).isnan().tolist() == [False, False, False, True]
