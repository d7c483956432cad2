import pytest
import torch

from embedrun.loss.cosine import cosine, normalize, normalize_pairs, widen


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


@pytest.mark.parametrize("scale", [1e-15, 1e15, 1e30])
def test_direction_does_not_depend_on_the_scale(scale: float):
    vectors = (torch.tensor([[3.0, 4.0]]) * scale).requires_grad_()
    unit = normalize(vectors)
    torch.testing.assert_close(unit.detach(), torch.tensor([[0.6, 0.8]]))
    unit.sum().backward()
    assert vectors.grad is not None
    torch.testing.assert_close(vectors.grad * scale, torch.tensor([[0.032, -0.024]]))


def test_vector_too_short_for_a_finite_gradient_counts_as_zero():
    vectors = torch.tensor([[1e-30, 0.0]], requires_grad=True)
    unit = normalize(vectors)
    unit.sum().backward()
    assert unit.tolist() == [[0.0, 0.0]]
    assert vectors.grad is not None
    assert vectors.grad.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_bad_entry_is_not_hidden_as_a_zero_vector(bad: float):
    assert normalize(torch.tensor([[bad, 1.0]])).isnan().any()


def test_half_becomes_float32_and_double_stays():
    assert widen(torch.ones(1, dtype=torch.float16)).dtype == torch.float32
    assert widen(torch.ones(1, dtype=torch.bfloat16)).dtype == torch.float32
    assert widen(torch.ones(1, dtype=torch.float64)).dtype == torch.float64


def test_cosine_of_opposite_right_angled_and_zero_vectors():
    left = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    right = torch.tensor([[-5.0, 0.0], [0.0, 7.0], [1.0, 1.0]])
    assert cosine(left, right).tolist() == [-1.0, 0.0, 0.0]


def test_one_vector_is_not_broadcast_over_many():
    with pytest.raises(ValueError, match=r"got \(1, 4\) and \(3, 4\)"):
        normalize_pairs(torch.ones(1, 4), torch.ones(3, 4))


def test_gradient_agrees_with_finite_differences():
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(3, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    right = torch.randn(3, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(cosine, (left, right))
