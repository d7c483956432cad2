import math
from typing import Any

import pytest
import torch
from torch import Tensor

from embedrun.loss.rank_distillation import Method, RankDistillation

E = math.e
AXES = torch.eye(2)


def teacher(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows)[:, None]  # (rows, 1 teacher, widest)


def plain(method: Method, teachers: int = 1, **options: Any) -> RankDistillation:
    """Without temperatures."""
    options = {"temperature": 1.0, "teacher_temperature": 1.0} | options
    return RankDistillation(method=method, teacher_dims=(2,) * teachers, **options)


def batch(rows: int = 4) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(17)
    left, right = torch.randn(2, rows, 6, dtype=torch.float64, generator=generator)
    left_teacher, right_teacher = torch.randn(2, rows, 2, 3, dtype=torch.float64, generator=generator)
    return left, right, left_teacher, right_teacher


def test_listnet_is_the_cross_entropy_over_the_other_texts():
    # The rows' others are at cosines (0, 1), (0, 0), (1, 0). The teacher finds all texts equal: a half each.
    views = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    equal = torch.ones(3, 1, 2)
    loss = plain("listnet")(views, views, equal, equal)
    torch.testing.assert_close(loss, torch.tensor((2 * (math.log(1 + E) - 0.5) + math.log(2)) / 3))


def test_each_temperature_divides_its_own_similarities():
    views = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    loss = plain("listnet", temperature=0.5, teacher_temperature=0.25)(
        views, views, views[:, None], views[:, None]
    )
    share = E**4 / (1 + E**4)
    cost = -(share * (2 - math.log(1 + E**2)) + (1 - share) * (0 - math.log(1 + E**2)))
    torch.testing.assert_close(loss, torch.tensor((2 * cost + math.log(2)) / 3))


@pytest.mark.parametrize(
    ("right_teacher", "expected"),
    [
        # Every row: best first, the student's logits are 1, 0.
        ([[1.0, 0.0], [0.0, 1.0]], 2 * (math.log(E + 1) - 1)),
        # The other way round: 0, 1.
        ([[0.0, 1.0], [1.0, 0.0]], 2 * math.log(E + 1)),
        # Equal for the teacher: the order of the batch, 1, 0 and 0, 1.
        ([[1.0, 1.0], [1.0, 1.0]], 2 * math.log(E + 1) - 1),
    ],
)
def test_listmle_is_the_likelihood_of_the_teachers_order(right_teacher: list[list[float]], expected: float):
    loss = plain("listmle")(AXES, AXES, teacher([[1.0, 0.0], [0.0, 1.0]]), teacher(right_teacher))
    torch.testing.assert_close(loss, torch.tensor(expected / 4))  # two lists of two


def test_weights_choose_between_teachers():
    left, right, left_teacher, right_teacher = batch()
    first = plain("listnet")(left, right, left_teacher[:, :1], right_teacher[:, :1])
    second = plain("listnet")(left, right, left_teacher[:, 1:], right_teacher[:, 1:])

    def of_both(weights: list[float] | None) -> Tensor:
        term = plain("listnet", teachers=2, weights=weights)
        return term(left, right, left_teacher, right_teacher)

    torch.testing.assert_close(of_both([1, 0]), first)
    torch.testing.assert_close(of_both([0, 1]), second)
    torch.testing.assert_close(of_both(None), of_both([0.5, 0.5]))
    assert of_both([0.33, 0.67]) not in (first, second, of_both(None))


def test_weights_are_of_the_cosines_not_of_the_losses():
    # The second teacher, with two thirds of the weight, finds the other order, and decides.
    orders = torch.stack((AXES, AXES.flip(0)), dim=1)  # (rows, teachers, widest)
    own = torch.stack((AXES, AXES), dim=1)
    loss = plain("listmle", teachers=2, weights=[0.33, 0.67])(AXES, AXES, own, orders)
    torch.testing.assert_close(loss, torch.tensor(2 * math.log(E + 1) / 4))
