"""Order the similarities of a text to all texts of the batch as teachers order them."""

from collections.abc import Collection, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from embedrun.loss.cosine import cosines, require_pairs
from embedrun.loss.terms import order_of_texts, require_positive, require_shape

Method = Literal["listnet", "listmle"]


class RankDistillation(nn.Module):
    r"""Listwise distillation of the teachers' similarities :math:`t_{ij}` into the student's :math:`s_{ij}`.

    With :math:`s_{ij} = \cos(x_i, y_j)/\tau` and, over teachers *k* with weights :math:`w_k` that sum to 1,
    :math:`t_{ij} = \sum_k w_k \cos(x^k_i, y^k_j)/\tau_T`, `listnet` is the cross-entropy of the two
    distributions over the other texts of the batch,

    .. math:: L = -\frac1n \sum_i \sum_{j \neq i} \mathrm{softmax}(t_i)_j \log \mathrm{softmax}(s_i)_j

    and `listmle` the negative log-likelihood of the teachers' order :math:`\pi_i`, best first, under the
    student, divided by its length:

    .. math:: L = -\frac{1}{n^2} \sum_i
              \log \prod_{k} \frac{e^{s_{i \pi_i(k)}}}{\sum_{l \geq k} e^{s_{i \pi_i(l)}}}

    Source: Liu et al. 2023 (RankCSE), doi:10.18653/v1/2023.acl-long.771, and the public code of it by others,
    from which the constants come: τ = τ_T = 0.05, two teachers with weights 0.33 and 0.67, `listmle` in its
    script (it defines a τ_T of 0.025 as well and never uses it). As there, `listnet` leaves out the text
    itself and `listmle` does not. Departures from that code: it adds 1e-7 inside the logarithm of `listmle`
    and orders equal teacher scores at random; here the logarithm is exact and equal scores keep the order of
    the batch.

    Args:
        method: `listnet` or `listmle`.
        temperature: τ above, unitless, > 0.
        teacher_temperature: :math:`\tau_T`, unitless, > 0; `listmle` depends on the order alone.
        weights: :math:`w` by teacher, each >= 0, summing to 1; null: all equal.
        teacher_dims: length of each teacher's vectors; given by the run, not by a configuration.

    Raises:
        ValueError: if an option is out of range, or there is not one weight for each teacher.
    """

    def __init__(
        self,
        *,
        method: Method = "listnet",
        temperature: float = 0.05,
        teacher_temperature: float = 0.05,
        weights: list[float] | None = None,
        teacher_dims: Sequence[int],
    ) -> None:
        super().__init__()
        require_positive("RankDistillation", "temperature", temperature)
        require_positive("RankDistillation", "teacher_temperature", teacher_temperature)
        teachers = len(teacher_dims)
        self.weights = [1 / max(teachers, 1)] * teachers if weights is None else list(weights)
        if len(self.weights) != teachers:
            raise ValueError(
                f"RankDistillation: weights has {len(self.weights)} numbers and training.teachers has "
                f"{teachers}; give one weight for each teacher"
            )
        # Not `min < 0 or difference > 1e-6`: NaN must be refused too.
        if teachers and not (min(self.weights) >= 0 and abs(sum(self.weights) - 1) <= 1e-6):
            raise ValueError(f"RankDistillation: weights must be >= 0 and sum to 1, got {self.weights}")
        self.method: Method = method
        self.temperature = temperature
        self.teacher_temperature = teacher_temperature

    def forward(self, left: Tensor, right: Tensor, left_teacher: Tensor, right_teacher: Tensor) -> Tensor:
        """Return the scalar loss.

        Args:
            left: one text of each row, ``(rows, dim)``; need not be unit length.
            right: the texts to order for it, ``(rows, dim)``; RankCSE has the same text with other dropout.
            left_teacher: the teachers' vectors of the first, ``(rows, teachers, widest)``, zeros behind a
                vector that is narrower than the widest.
            right_teacher: the teachers' vectors of the second, in the same form.
        """
        require_pairs(left, right)
        for name, vectors in (("left_teacher", left_teacher), ("right_teacher", right_teacher)):
            require_shape("RankDistillation", name, vectors, len(left), len(self.weights), None)
        student = cosines(left, right) / self.temperature  # (rows, rows)
        terms = [
            weight * cosines(left_teacher[:, place], right_teacher[:, place])
            for place, weight in enumerate(self.weights)
        ]  # (rows, rows) each
        teacher = (torch.stack(terms).sum(dim=0) / self.teacher_temperature).to(student.dtype)  # (rows, rows)
        return _listnet(student, teacher) if self.method == "listnet" else _listmle(student, teacher)

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return order_of_texts(rows)

    def idle(self, rows: int) -> str | None:
        """Why no batch of this many rows can be ordered, or None."""
        least = 3 if self.method == "listnet" else 2
        return (
            f"a batch of {rows} rows has nothing to order; raise training.batch_size"
            if rows < least
            else None
        )


def _listnet(student: Tensor, teacher: Tensor) -> Tensor:
    if len(student) < 2:  # no other text
        return student.sum() * 0
    itself = torch.eye(len(student), dtype=torch.bool, device=student.device)
    share = teacher.masked_fill(itself, -torch.inf).softmax(dim=1)  # (rows, rows)
    log_share = student.masked_fill(itself, -torch.inf).log_softmax(dim=1)  # (rows, rows)
    # 0 * -inf is NaN: the text itself must leave the product.
    return -(share * log_share.masked_fill(itself, 0)).sum(dim=1).mean()


def _listmle(student: Tensor, teacher: Tensor) -> Tensor:
    order = teacher.argsort(dim=1, descending=True, stable=True)  # (rows, rows)
    in_order = student.gather(1, order)  # (rows, rows); best of the teachers first
    remaining = in_order.flip(1).logcumsumexp(dim=1).flip(1)  # (rows, rows)
    return (remaining - in_order).mean()
