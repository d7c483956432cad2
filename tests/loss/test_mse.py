import pytest
import torch

from embedrun.loss.mse import Mse

# Cosines 1 and 0.
LEFT = torch.tensor([[2.0, 0.0], [3.0, 0.0]])
RIGHT = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
# Two teachers, the second with vectors of width 1: cosines 0.6 and 1; 0 and -1. Their means: 0.8 and -0.5.
LEFT_TEACHER = torch.tensor([[[1.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])
RIGHT_TEACHER = torch.tensor([[[3.0, 4.0], [5.0, 0.0]], [[0.0, 9.0], [-3.0, 0.0]]])


def test_precomputed_is_the_mean_square_of_cosine_minus_score():
    loss = Mse()(LEFT, RIGHT, torch.tensor([0.5, -0.25]))
    torch.testing.assert_close(loss, torch.tensor((0.5**2 + 0.25**2) / 2))


def test_scores_of_a_scale_are_wanted_from_0_to_1():
    # 4 and 1 of 0 to 5 are 0.8 and 0.2; the cosines are 1 and 0.
    loss = Mse(scores=[0, 5])(LEFT, RIGHT, torch.tensor([4.0, 1.0]))
    torch.testing.assert_close(loss, torch.tensor((0.2**2 + 0.2**2) / 2))
    # 1 to 5: (4 - 1) / 4 = 0.75, and 0.
    loss = Mse(scores=[1, 5])(LEFT, RIGHT, torch.tensor([4.0, 1.0]))
    torch.testing.assert_close(loss, torch.tensor(0.25**2 / 2))


@pytest.mark.parametrize("scores", [[0], [5, 0], [1, 1], [0, float("nan")], [0, 2, 5], [0, float("inf")]])
def test_a_scale_is_two_numbers_the_lower_first(scores):
    with pytest.raises(ValueError, match="Mse: scores: expected the lowest and the highest score"):
        Mse(scores=scores)


def test_scores_outside_of_their_scale_are_idle():
    term = Mse(scores=[0, 5])
    assert term.idle(8, torch.tensor([0.0, 5.0])) is None
    reason = "scores reach from 0 to 6, and scores: [0, 5] names another scale"
    assert term.idle(8, torch.tensor([0.0, 6.0])) == reason
    assert term.idle(8, torch.tensor([-1.0, 5.0])) is not None


def test_teachers_are_averaged_in_their_cosines():
    loss = Mse(source="teacher")(LEFT, RIGHT, left_teacher=LEFT_TEACHER, right_teacher=RIGHT_TEACHER)
    torch.testing.assert_close(loss, torch.tensor((0.2**2 + 0.5**2) / 2))


def test_scores_that_no_cosine_reaches_are_idle():
    reason = Mse().idle(8, torch.tensor([0.0, 5.0, 2.5]))
    assert reason == (
        "scores reach from 0 to 5, and a cosine only from -1 to 1; give scores in that range, "
        "or their scale: scores: [lowest, highest]"
    )
    assert Mse().idle(8, torch.tensor([-1.5, 0.0])) is not None
    assert Mse().idle(8, torch.tensor([-1.0, 1.0])) is None
    assert Mse(source="teacher").idle(8, torch.tensor([0.0, 5.0])) is None
