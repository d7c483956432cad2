import math

import pytest
import torch
from torch import Tensor

from embedrun.loss.cosent import Cosent
from embedrun.loss.ordered_pairs import Ties
from embedrun.loss.rank_margin import RankMargin

# Cosines 1, 0 and 0.6; each should be above the one before.
LEFT = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
RIGHT = torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]])
SCORE = torch.tensor([0.0, 1.0, 5.0])


def batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(19)
    left, right = torch.randn(2, 6, 5, dtype=torch.float64, generator=generator)
    return left, right, torch.tensor([4.8, 4.2, 0.0, 4.2, 1.5, 0.0])


# Scores a, a, a, b and equal cosines: every comparison adds 1 to the sum.
@pytest.mark.parametrize(
    ("ties", "counts"),
    [
        ("average", (3, 3, 0, 0)),  # ranks 2, 2, 2, 4
        ("min", (3, 3, 3, 0)),  # 1, 1, 1, 4
        ("dense", (3, 0, 0, 0)),  # 1, 1, 1, 2
        ("ordinal", (6, 3, 1, 0)),  # 1, 2, 3, 4
    ],
)
def test_ties_decide_how_far_apart_ranks_are(ties: Ties, counts: tuple[int, ...]):
    same = torch.ones(4, 2)
    score = torch.tensor([0.3, 0.3, 0.3, 0.7])
    for interval, count in enumerate(counts):
        loss = RankMargin(interval=interval, ties=ties)(same, same, score)
        torch.testing.assert_close(loss, torch.tensor(math.log(1 + count)))


@pytest.mark.parametrize("ties", ["average", "min", "dense"])
def test_interval_of_zero_is_cosent_with_one_over_the_scale_as_temperature(ties: Ties):
    left, right, score = batch()
    views = (left.requires_grad_(), right.requires_grad_())
    ours = RankMargin(interval=0, scale=20.0, ties=ties)(*views, score)
    theirs = Cosent(temperature=1 / 20)(*views, score)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    for one, other in zip(torch.autograd.grad(ours, views), torch.autograd.grad(theirs, views), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("interval", "active", "violated"),
    [
        (0, 1, 2 / 3),  # 0 and 0.6 are below 1; 0.6 is above 0
        (1, 1 / 3, 1),  # only 0.6 against 1
        (2, 0, 0),
    ],
)
def test_comparisons_count_pairs_more_than_the_interval_apart(
    interval: float, active: float, violated: float
):
    shares = RankMargin(interval=interval).comparisons(LEFT, RIGHT, SCORE)
    assert [share.item() for share in shares] == pytest.approx([active, violated])


def test_scores_of_too_few_levels_are_idle():
    score = torch.tensor([0.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    assert RankMargin(interval=2, ties="dense").idle(8, score) == (
        "with 3 different scores, ranks of ties=dense are at most 2 apart, never more than interval=2; "
        "lower the interval"
    )
    assert RankMargin(interval=1, ties="dense").idle(8, score) is None
    # Of two levels, average ranks are half a batch apart, whatever their shares.
    two = torch.tensor([0.0, 1.0, 1.0, 1.0])
    assert RankMargin(interval=16).idle(32, two) is not None
    assert RankMargin(interval=15.5).idle(32, two) is None
    assert RankMargin(interval=16, ties="min").idle(32, two) is None
