import math

import pytest
import torch

from embedrun.loss.cosent import Cosent


def test_one_inverted_pair_costs_log_one_plus_e():
    left = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # cosines 1 and 0
    score = torch.tensor([0.0, 1.0])  # the second pair should outrank the first
    loss = Cosent(temperature=1.0)(left, right, score)
    torch.testing.assert_close(loss, torch.tensor(math.log(1 + math.e)))


def test_comparisons_count_different_scores_and_those_that_the_cosines_contradict():
    left = torch.tensor([[1.0, 0.0]]).repeat(4, 1)
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [3.0, 4.0]])  # cosines 1, 0, 0.6, 0.6
    score = torch.tensor([0.0, 1.0, 2.0, 2.0])
    active, violated = Cosent().comparisons(left, right, score)
    assert active.item() == pytest.approx(5 / 6)  # the last two tie
    assert violated.item() == pytest.approx(3 / 5)  # all others should be above the first
