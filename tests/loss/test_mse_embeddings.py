import torch

from embedrun.loss.mse_embeddings import MseEmbeddings

# Two teachers of widths 2 and 1; behind the narrow vector stands what is never read.
TEACHER = torch.tensor([[[1.0, 0.0], [2.0, 99.0]]])  # (1, teachers, widest)


def by_hand() -> MseEmbeddings:
    """(x, y) becomes (x, y, x + y + 1)."""
    term = MseEmbeddings(dim=2, teacher_dims=(2, 1))
    weight, bias = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([0.0, 0.0, 1.0])
    term.load_state_dict({"projection.weight": weight, "projection.bias": bias})
    return term


def test_projection_is_held_against_the_teachers_side_by_side():
    # (1, 2) becomes (1, 2, 4); the teachers say (1, 0, 2).
    loss = by_hand()(torch.tensor([[1.0, 2.0]]), TEACHER)
    torch.testing.assert_close(loss, torch.tensor((0 + 4 + 4) / 3))


def test_two_sides_count_alike():
    # The second text, (1, 0), becomes (1, 0, 2): exactly what the teachers say.
    left, right = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0]])
    loss = by_hand()(left, TEACHER, right, TEACHER)
    torch.testing.assert_close(loss, torch.tensor((8 / 3 + 0) / 2))
