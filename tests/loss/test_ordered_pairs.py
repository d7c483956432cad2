import math

import pytest
import torch

from embedrun.loss.ordered_pairs import log_sum_over_ordered_pairs


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
