import pytest
import torch
from torch import Tensor

from embedrun.loss.mse import Mse
from embedrun.loss.terms import needs

# Cosines 1 and 0.
LEFT = torch.tensor([[2.0, 0.0], [3.0, 0.0]])
RIGHT = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
# Two teachers, the second with vectors of width 1: cosines 0.6 and 1; 0 and -1. Their means: 0.8 and -0.5.
LEFT_TEACHER = torch.tensor([[[1.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])
RIGHT_TEACHER = torch.tensor([[[3.0, 4.0], [5.0, 0.0]], [[0.0, 9.0], [-3.0, 0.0]]])


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(15)
    left, right = torch.randn(2, 4, 6, dtype=torch.float64, generator=generator)
    return left, right


def teachers() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(21)
    left, right = torch.rand(2, 4, 2, 3, generator=generator)
    return left, right


def test_precomputed_is_the_mean_square_of_cosine_minus_score():
    loss = Mse()(LEFT, RIGHT, torch.tensor([0.5, -0.25]))
    torch.testing.assert_close(loss, torch.tensor((0.5**2 + 0.25**2) / 2))


def test_teachers_are_averaged_in_their_cosines():
    loss = Mse(source="teacher")(LEFT, RIGHT, left_teacher=LEFT_TEACHER, right_teacher=RIGHT_TEACHER)
    torch.testing.assert_close(loss, torch.tensor((0.2**2 + 0.5**2) / 2))


def test_only_the_named_source_is_read():
    score, both = torch.tensor([0.5, -0.25]), (LEFT_TEACHER, RIGHT_TEACHER)
    assert torch.equal(Mse()(LEFT, RIGHT, score, *both), Mse()(LEFT, RIGHT, score))
    term = Mse(source="teacher")
    assert torch.equal(term(LEFT, RIGHT, score, *both), term(LEFT, RIGHT, None, *both))


def test_zero_where_every_cosine_is_the_score():
    left, right = LEFT.clone().requires_grad_(), RIGHT
    loss = Mse()(left, right, torch.tensor([1.0, 0.0]))
    loss.backward()
    assert loss.item() == 0
    assert left.grad is not None
    assert left.grad.count_nonzero() == 0


def test_lengths_of_the_vectors_do_not_matter():
    left, right = batch()
    score = torch.tensor([0.1, 0.9, -0.3, 0.5])
    torch.testing.assert_close(Mse()(left, right, score), Mse()(left * 7, right / 100, score))
    term, (left_teacher, right_teacher) = Mse(source="teacher"), teachers()
    one = term(left, right, None, left_teacher, right_teacher)
    torch.testing.assert_close(one, term(left, right, None, left_teacher * 5, right_teacher))


def test_gradient_agrees_with_finite_differences():
    views = tuple(view.requires_grad_() for view in batch())
    score = torch.tensor([0.1, 0.9, -0.3, 0.5])
    assert torch.autograd.gradcheck(lambda left, right: Mse()(left, right, score), views)
    term = Mse(source="teacher")
    assert torch.autograd.gradcheck(lambda left, right: term(left, right, None, *teachers()), views)


def test_unknown_source_is_refused():
    with pytest.raises(ValueError, match="Mse: source must be one of precomputed, teacher; got 'gold'"):
        Mse(source="gold")  # type: ignore[arg-type]


def test_missing_target_is_named():
    with pytest.raises(ValueError, match="Mse: source='precomputed' needs score"):
        Mse()(LEFT, RIGHT)
    with pytest.raises(ValueError, match="Mse: source='teacher' needs left_teacher and right_teacher"):
        Mse(source="teacher")(LEFT, RIGHT, left_teacher=LEFT_TEACHER)


@pytest.mark.parametrize("shape", [(2, 1), (1,), (3,)])
def test_scores_of_another_shape_are_refused(shape: tuple[int, ...]):
    # Broadcasting would hold every cosine against every score.
    with pytest.raises(ValueError, match=r"Mse: score must have shape \(2,\), got"):
        Mse()(LEFT, RIGHT, torch.zeros(shape))


def test_teachers_of_another_shape_are_refused():
    term = Mse(source="teacher")
    with pytest.raises(ValueError, match=r"left_teacher must have shape \(2, any, any\), got \(1, 2, 2\)"):
        term(LEFT, RIGHT, None, LEFT_TEACHER[:1], RIGHT_TEACHER)
    with pytest.raises(ValueError, match=r"right_teacher must have shape \(2, 2, 2\), got \(2, 1, 2\)"):
        term(LEFT, RIGHT, None, LEFT_TEACHER, RIGHT_TEACHER[:, :1])


def test_what_is_necessary_depends_on_the_source():
    sides, teachers = ["left", "right"], ["left_teacher", "right_teacher"]
    assert needs(Mse()) == (sides, ["score"], [], teachers)
    assert needs(Mse(source="teacher")) == (sides, teachers, [], ["score"])


def test_scores_that_no_cosine_reaches_are_idle():
    reason = Mse().idle(8, torch.tensor([0.0, 5.0, 2.5]))
    assert reason == "scores reach from 0 to 5, and a cosine only from -1 to 1; give scores in that range"
    assert Mse().idle(8, torch.tensor([-1.5, 0.0])) is not None
    assert Mse().idle(8, torch.tensor([-1.0, 1.0])) is None
    assert Mse(source="teacher").idle(8, torch.tensor([0.0, 5.0])) is None
    assert Mse().idle(1) is None
