import math

import pytest
import torch
from no_cost import assert_costs_and_moves_nothing
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


def test_equal_scores_give_zero_attached_to_the_graph():
    left, right, _ = batch()
    left.requires_grad_()
    loss = Cosent()(left, right, torch.ones(5))
    assert_costs_and_moves_nothing(loss, left)


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
