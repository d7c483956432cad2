"""A loss of exactly nothing, which moves nothing."""

from torch import Tensor


def assert_costs_and_moves_nothing(loss: Tensor, *leaves: Tensor) -> None:
    loss.backward()
    assert loss.item() == 0
    for leaf in leaves:
        assert leaf.grad is not None
        assert leaf.grad.count_nonzero() == 0
