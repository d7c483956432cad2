import math

import pytest
import torch
from torch import Tensor

from embedrun.loss.cosent import Cosent


def batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    left = torch.randn(5, 6, dtype=torch.float64, generator=generator)
    right = torch.randn(5, 6, dtype=torch.float64, generator=generator)
    return left, right, torch.tensor([4.8, 4.2, 0.0, 4.2, 1.5], dtype=torch.float64)


def test_one_inverted_pair_costs_log_one_plus_e():
    left = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # cosines 1 and 0
    score = torch.tensor([0.0, 1.0])  # the second pair should outrank the first
    loss = Cosent(temperature=1.0)(left, right, score)
    torch.testing.assert_close(loss, torch.tensor(math.log(1 + math.e)))


def test_temperature_divides_the_cosines():
    left = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    loss = Cosent(temperature=0.5)(left, right, torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(loss, torch.tensor(math.log(1 + math.e**2)))


def test_only_the_order_of_the_scores_matters():
    left, right, score = batch()
    torch.testing.assert_close(Cosent()(left, right, score), Cosent()(left, right, score**3 - 100))


def test_order_of_the_rows_does_not_matter():
    left, right, score = batch()
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(
        Cosent()(left, right, score), Cosent()(left[order], right[order], score[order])
    )


def test_lengths_of_the_vectors_do_not_matter():
    left, right, score = batch()
    lengths = torch.tensor([[0.01], [3.0], [7.0], [100.0], [1.0]], dtype=torch.float64)
    torch.testing.assert_close(Cosent()(left, right, score), Cosent()(left * lengths, right / lengths, score))


def test_sides_can_be_swapped():
    left, right, score = batch()
    torch.testing.assert_close(Cosent()(left, right, score), Cosent()(right, left, score))


def test_gradient_agrees_with_finite_differences():
    left, right, score = batch()
    left.requires_grad_()
    right.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: Cosent(temperature=0.5)(x, y, score), (left, right))


def test_equal_scores_give_zero_attached_to_the_graph():
    left, right, _ = batch()
    left.requires_grad_()
    loss = Cosent()(left, right, torch.ones(5))
    loss.backward()
    assert loss.item() == 0
    assert left.grad is not None
    assert left.grad.count_nonzero() == 0


@pytest.mark.parametrize("temperature", [0.0, -0.05, math.nan])
def test_temperature_must_be_positive(temperature: float):
    with pytest.raises(ValueError, match=f"Cosent: temperature must be > 0, got {temperature}"):
        Cosent(temperature=temperature)


def test_scores_of_another_shape_are_refused():
    left, right, score = batch()
    with pytest.raises(ValueError, match="one target for each row"):
        Cosent()(left, right, score[:, None])


def test_comparisons_count_different_scores_and_those_that_the_cosines_contradict():
    left = torch.tensor([[1.0, 0.0]]).repeat(4, 1)
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [3.0, 4.0]])  # cosines 1, 0, 0.6, 0.6
    score = torch.tensor([0.0, 1.0, 2.0, 2.0])
    active, violated = Cosent().comparisons(left, right, score)
    assert active.item() == pytest.approx(5 / 6)  # the last two tie
    assert violated.item() == pytest.approx(3 / 5)  # all others should be above the first


def test_comparisons_are_those_of_the_first_512_rows():
    left = torch.tensor([[1.0, 0.0]]).repeat(600, 1)
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(300, 1)
    score = torch.tensor([1.0, 0.0]).repeat(300)
    score[512:], right[512:] = 2.0, torch.tensor([-1.0, 0.0])  # the highest score at the lowest cosine
    active, violated = Cosent().comparisons(left, right, score)
    assert active.item() == pytest.approx(256 * 256 / (512 * 511 / 2))
    assert violated.item() == 0
    assert Cosent().comparisons(left[400:], right[400:], score[400:])[1] > 0


def test_comparisons_of_one_row_are_none():
    left, right, score = batch()
    assert [share.item() for share in Cosent().comparisons(left[:1], right[:1], score[:1])] == [0, 0]


def test_batch_that_cannot_be_ordered_is_idle():
    one = "a batch of one row has nothing to compare; raise training.batch_size"
    assert Cosent().idle(1) == one
    assert Cosent().idle(8, torch.ones(5)) == "all scores of the training rows are equal"
    assert Cosent().idle(8, torch.tensor([0.1, 0.1, 0.2])) is None
    assert Cosent().idle(2) is None
