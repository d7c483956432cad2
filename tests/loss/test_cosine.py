import math

import pytest
import torch
from torch import Tensor

from embedrun.loss.cosine import (
    angle,
    cosine,
    cosines,
    normalize,
    turned_cosine,
)


def test_three_four_vector_has_length_five():
    torch.testing.assert_close(normalize(torch.tensor([[3.0, 4.0]])), torch.tensor([[0.6, 0.8]]))


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


def test_cosine_of_opposite_right_angled_and_zero_vectors():
    left = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    right = torch.tensor([[-5.0, 0.0], [0.0, 7.0], [1.0, 1.0]])
    assert cosine(left, right).tolist() == [-1.0, 0.0, 0.0]


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


def by_definition(left: Tensor, right: Tensor) -> dict[str, Tensor]:
    """Each from unit vectors, step by step, for backpropagation through the steps."""
    u, v = left / left.norm(dim=1, keepdim=True), right / right.norm(dim=1, keepdim=True)
    z, w = (torch.complex(*one.chunk(2, dim=1)) for one in (u, v))
    return {
        "cosine": (u * v).sum(dim=1),
        "turned": (z.conj() * (1 + 1j) * w).sum(dim=1).real,
        "angle": 2 * torch.atan2((u - v).norm(dim=1), (u + v).norm(dim=1)),
    }


PAIRS = {"cosine": cosine, "turned": turned_cosine, "angle": angle}


def pairs_at_all_angles(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """60 pairs of 8 dimensions, 1 to 179 degrees apart, of lengths 3 and 0.2."""
    generator = torch.Generator().manual_seed(6)
    basis = torch.linalg.qr(torch.randn(60, 8, 2, dtype=torch.float64, generator=generator)).Q  # (60, 8, 2)
    turn = torch.linspace(1, 179, 60, dtype=torch.float64)[:, None].deg2rad()  # (60, 1)
    left, right = 3 * basis[..., 0], 0.2 * (turn.cos() * basis[..., 0] + turn.sin() * basis[..., 1])
    return left.to(dtype).requires_grad_(), right.to(dtype).requires_grad_()


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)], ids=str)
def test_value_and_gradients_of_a_pair_are_those_of_the_plain_steps(
    name: str, dtype: torch.dtype, tolerance: float
):
    views = pairs_at_all_angles(dtype)
    exact = [one.detach().double().requires_grad_() for one in views]
    found, expected = PAIRS[name](*views), by_definition(exact[0], exact[1])[name]
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    weight = torch.linspace(-1, 1, 60, dtype=torch.float64)
    gradients = torch.autograd.grad(found, views, weight.to(dtype))
    for one, other in zip(gradients, torch.autograd.grad(expected, exact, weight), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", PAIRS)
def test_pair_with_a_bad_entry_is_nan_and_the_others_are_not(name: str):
    left, right = (one.detach() for one in pairs_at_all_angles(torch.float32))
    left[3, 0] = math.nan
    assert PAIRS[name](left, right).isnan().nonzero().flatten().tolist() == [3]
