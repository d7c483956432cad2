import pytest
import torch

from embedrun.loss.masked_triplet import MaskedTriplet

# Cosines with the first copy 1 and 0, with the second 0.6 and 0.8: gaps -0.4 and 0.8.
TEXT = torch.tensor([[3.0, 0.0], [0.0, 2.0]])
ONCE = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
TWICE = torch.tensor([[0.6, 0.8], [0.6, 0.8]])


def test_cost_is_how_much_nearer_the_second_copy_is():
    torch.testing.assert_close(MaskedTriplet()(TEXT, ONCE, TWICE), torch.tensor((0 + 0.8) / 2))


def test_mean_is_over_the_rows_with_masked_copies():
    term = MaskedTriplet(margin=0.5)
    for maskable, expected in (([True, False], 0.1), ([False, True], 1.3), ([True, True], 0.7)):
        loss = term(TEXT, ONCE, TWICE, torch.tensor(maskable))
        torch.testing.assert_close(loss, torch.tensor(expected))


@pytest.mark.parametrize(
    ("margin", "maskable", "active", "violated"),
    [
        (0.0, None, 1.0, 0.5),
        (0.5, None, 1.0, 1.0),
        (0.0, [True, False], 0.5, 0.0),
        (0.0, [False, True], 0.5, 1.0),
        (0.0, [False, False], 0.0, 0.0),
    ],
)
def test_comparisons_count_maskable_rows_and_those_within_the_margin(
    margin: float, maskable: list[bool] | None, active: float, violated: float
):
    given = () if maskable is None else (torch.tensor(maskable),)
    shares = MaskedTriplet(margin=margin).comparisons(TEXT, ONCE, TWICE, *given)
    assert [share.item() for share in shares] == [active, violated]


def test_rows_that_cannot_be_masked_are_idle():
    reason = "no training row is long enough to be masked"
    assert MaskedTriplet().idle(16, torch.tensor([False, False])) == reason
    assert MaskedTriplet().idle(16, torch.tensor([False, True])) is None
