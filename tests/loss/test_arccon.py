import math

import pytest
import torch
from torch import Tensor

from embedrun.loss.arccon import Arccon, Negatives
from embedrun.loss.infonce import Infonce

# Angles to the positives 0 and 36.87 degrees (cosine 0.8).
TEXT = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
AGAIN = torch.tensor([[2.0, 0.0], [0.6, 0.8]])


def batch(rows: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(11)
    text, noise = torch.randn(2, rows, 6, dtype=torch.float64, generator=generator)
    return text, text + noise


def degrees(angle: float) -> Tensor:
    return torch.tensor([[math.cos(math.radians(angle)), math.sin(math.radians(angle))]])


def test_beyond_half_a_turn_the_cosine_rises_again():
    # 150 + 60 degrees: cos 210°, not held at cos 180° = -1.
    text, again = torch.cat((degrees(0), degrees(90))), torch.cat((degrees(150), degrees(240)))
    loss = Arccon(margin=60, temperature=1.0, negatives="first")(text, again)
    torch.testing.assert_close(loss, torch.tensor(math.log(1 + math.exp(0 - math.cos(math.radians(210))))))


def test_without_a_margin_it_is_infonce_without_hard_negatives():
    text, again = (view.requires_grad_() for view in batch())
    ours = Arccon(margin=0, negatives="second")(text, again)
    theirs = Infonce()(text, again)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    for one, other in zip(
        torch.autograd.grad(ours, (text, again)), torch.autograd.grad(theirs, (text, again)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("margin", "negatives", "violated"),
    [
        (0, "second", 0.0),  # positives 1 and 0.8, negatives 0.6 and 0
        (60, "second", 1.0),  # positives 0.5 and cos 96.87° = -0.12
        (60, "first", 0.5),  # negatives 0 and 0
        (60, "both", 0.75),  # the first row's 0.6 but not its 0; the second row's two
    ],
)
def test_comparisons_count_negatives_nearer_than_the_positive_with_its_margin(
    margin: float, negatives: Negatives, violated: float
):
    shares = Arccon(margin=margin, negatives=negatives).comparisons(TEXT, AGAIN)
    assert [share.item() for share in shares] == [1, violated]
