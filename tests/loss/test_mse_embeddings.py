import pytest
import torch
from no_cost import assert_costs_and_moves_nothing
from torch import Tensor

from embedrun.loss.mse_embeddings import MseEmbeddings

# Two teachers of widths 2 and 1; behind the narrow vector stands what is never read.
TEACHER = torch.tensor([[[1.0, 0.0], [2.0, 99.0]]])  # (1, teachers, widest)


def by_hand() -> MseEmbeddings:
    """(x, y) becomes (x, y, x + y + 1)."""
    term = MseEmbeddings(dim=2, teacher_dims=(2, 1))
    weight, bias = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([0.0, 0.0, 1.0])
    term.load_state_dict({"projection.weight": weight, "projection.bias": bias})
    return term


def batch() -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(16)
    left, right = torch.randn(2, 4, 5, dtype=torch.float64, generator=generator)
    left_teacher, right_teacher = torch.randn(2, 4, 2, 3, dtype=torch.float64, generator=generator)
    return left, right, left_teacher, right_teacher


def test_projection_is_held_against_the_teachers_side_by_side():
    # (1, 2) becomes (1, 2, 4); the teachers say (1, 0, 2).
    loss = by_hand()(torch.tensor([[1.0, 2.0]]), TEACHER)
    torch.testing.assert_close(loss, torch.tensor((0 + 4 + 4) / 3))


def test_two_sides_count_alike():
    # The second text, (1, 0), becomes (1, 0, 2): exactly what the teachers say.
    left, right = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0]])
    loss = by_hand()(left, TEACHER, right, TEACHER)
    torch.testing.assert_close(loss, torch.tensor((8 / 3 + 0) / 2))


def test_zero_where_the_projection_is_the_teachers_vectors():
    right = torch.tensor([[1.0, 0.0]], requires_grad=True)
    loss = by_hand()(right, TEACHER)
    assert_costs_and_moves_nothing(loss, right)


def test_projection_goes_from_the_student_to_all_teachers():
    term = MseEmbeddings(dim=5, teacher_dims=(3, 2))
    assert {name: tuple(one.shape) for name, one in term.named_parameters()} == {
        "projection.weight": (5, 5),
        "projection.bias": (5,),
    }


def test_vectors_of_another_width_are_refused():
    *_, left_teacher, _ = batch()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        MseEmbeddings(dim=5, teacher_dims=(3, 2))(torch.zeros(4, 6), left_teacher)
