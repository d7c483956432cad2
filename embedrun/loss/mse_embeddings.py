"""Fit a projection of each vector to the vectors of frozen teachers."""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn

from embedrun.loss.terms import ALONE, require_shape


class MseEmbeddings(nn.Module):
    r"""Mean squared error between a learned projection of a vector and the teachers' vectors of its text.

    .. math:: L = \frac{1}{n d} \sum_i \bigl\| W h_i + b - t_i \bigr\|^2

    where :math:`t_i`, of width *d*, is the teachers' vectors side by side. With two sides, the mean of both.

    Source: Zhou, Huang and Miao (RAOE), Table 4, row MSE as its text describes it ("direct embedding
    distillation"); for the other reading see :class:`~embedrun.loss.mse.Mse`. Nothing is said about vectors
    of different widths. The projection stands on the side of the student, as in Romero et al. 2015
    (FitNets), arXiv:1412.6550: a projection of the teacher could reach a loss of 0 by making everything
    zero.

    Args:
        dim: length of a sentence vector; given by the run, not by a configuration.
        teacher_dims: that of each teacher's vectors; given by the run.
    """

    def __init__(self, *, dim: int, teacher_dims: Sequence[int]) -> None:
        super().__init__()
        self._teacher_dims = tuple(teacher_dims)
        self.projection = nn.Linear(dim, sum(teacher_dims))

    def forward(
        self,
        left: Tensor,
        left_teacher: Tensor,
        right: Tensor | None = None,
        right_teacher: Tensor | None = None,
    ) -> Tensor:
        """Return the scalar loss.

        Args:
            left: first texts, ``(rows, dim)``.
            left_teacher: the teachers' vectors of them, ``(rows, teachers, widest)``, zeros behind a vector
                that is narrower than the widest.
            right: second texts, ``(rows, dim)``, or None where rows have one text.
            right_teacher: the teachers' vectors of these, in the same form.
        """
        if right is None:
            return self._error(left, left_teacher)
        assert right_teacher is not None
        return (self._error(left, left_teacher) + self._error(right, right_teacher)) / 2

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return ALONE

    def _error(self, vectors: Tensor, teachers: Tensor) -> Tensor:
        dims = self._teacher_dims
        require_shape("MseEmbeddings", "teachers' vectors", teachers, len(vectors), len(dims), max(dims))
        with torch.autocast(vectors.device.type, enabled=False):
            projected = self.projection(
                vectors.to(self.projection.weight.dtype)
            )  # (rows, all teachers' dims)
            parts = [teachers[:, place, :dim] for place, dim in enumerate(dims)]  # (rows, dim) each
            wanted = torch.cat(parts, dim=1).to(projected.dtype)  # (rows, all teachers' dims)
            return (projected - wanted).square().mean()
