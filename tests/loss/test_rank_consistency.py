import math

import pytest
import torch

from embedrun.loss.rank_consistency import RankConsistency

AXES = torch.eye(2)
FIRST = torch.tensor([[3.0, 0.0], [3.0, 0.0]])  # in the direction of the first axis


def by_hand(share: float) -> float:
    """The divergence of (share, 1 - share) from (1/2, 1/2)."""
    middle = (share + 0.5) / 2
    total = 0.0
    for p, m in ((share, middle), (1 - share, 1 - middle)):
        total += p * math.log(p / m) + 0.5 * math.log(0.5 / m)
    return total / 2


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_divergence_of_the_two_lists_of_a_row(temperature: float):
    # Both rows of the left side see cosines (1, 0); the right side's see (1, 1) and (0, 0): a half each.
    share = 1 / (1 + math.exp(-1 / temperature))
    loss = RankConsistency(temperature=temperature)(FIRST, AXES)
    torch.testing.assert_close(loss, torch.tensor(by_hand(share)))


def test_never_above_log_two_and_near_it_for_lists_without_a_common_text():
    # Each left text is nearest to its own right text, and each right text to the left text after its own.
    angles = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64) * math.pi / 3  # a full turn
    left = torch.stack((angles.cos(), angles.sin()), dim=1)
    shifted = angles + 0.6 * math.pi / 3  # nearer to the next left text than to its own
    right = torch.stack((shifted.cos(), shifted.sin()), dim=1)
    loss = RankConsistency(temperature=1e-3)(left, right)
    assert 0.99 * math.log(2) < loss.item() <= math.log(2)
