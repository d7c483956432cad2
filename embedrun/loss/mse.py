"""Fit the cosine of each pair to a score or to a teacher's cosine."""

from collections.abc import Collection
from typing import Literal

from torch import Tensor, nn

from embedrun.loss.cosine import cosine, normalize
from embedrun.loss.terms import ALONE, require_choice, require_shape

Source = Literal["precomputed", "teacher"]


class Mse(nn.Module):
    r"""Mean squared error between cosines :math:`c_i` and wanted similarities :math:`s_i`.

    .. math:: L = \frac1n \sum_i (c_i - s_i)^2

    `precomputed` reads :math:`s` from the `score` of the data set. `teacher` computes it from the vectors of
    frozen encoders for the same texts, as the mean of their cosines.

    Source: Zhou, Huang and Miao (RAOE), Table 4, where `precomputed` is MSE2 and the rest depends on what
    is read. The caption says that MSE "distills similarities from teacher-generated embeddings
    (on-the-fly)": that is `teacher`. The text calls MSE "direct embedding distillation": that is
    :class:`~embedrun.loss.mse_embeddings.MseEmbeddings`. No code of either is released.

    Args:
        source: `precomputed` or `teacher`; the latter needs `training.teachers`.

    Raises:
        ValueError: if ``source`` is not one of these.
    """

    def __init__(self, *, source: Source = "precomputed") -> None:
        super().__init__()
        require_choice("Mse", "source", source, Source)
        self.source: Source = source
        self.requires = ("score",) if source == "precomputed" else ("left_teacher", "right_teacher")

    def forward(
        self,
        left: Tensor,
        right: Tensor,
        score: Tensor | None = None,
        left_teacher: Tensor | None = None,
        right_teacher: Tensor | None = None,
    ) -> Tensor:
        """Return the scalar loss.

        Args:
            left: first text of each pair, ``(pairs, dim)``; need not be unit length.
            right: second text of each pair, ``(pairs, dim)``.
            score: wanted cosine, ``(pairs,)``, -1 to 1.
            left_teacher: the teachers' vectors of the first texts, ``(pairs, teachers, widest)``, zeros
                behind a vector that is narrower than the widest.
            right_teacher: of the second texts, in the same form.
        """
        if self.source == "precomputed":
            wanted = score
        elif left_teacher is None or right_teacher is None:
            wanted = None
        else:
            require_shape("Mse", "left_teacher", left_teacher, len(left), None, None)
            require_shape("Mse", "right_teacher", right_teacher, *left_teacher.shape)
            each = (normalize(left_teacher) * normalize(right_teacher)).sum(dim=-1)  # (pairs, teachers)
            wanted = each.mean(dim=1)  # (pairs,)
        if wanted is None:
            raise ValueError(f"Mse: source={self.source!r} needs {' and '.join(self.requires)}")
        require_shape("Mse", "score", wanted, len(left))
        similarity = cosine(left, right)  # (pairs,)
        return (similarity - wanted.to(similarity.dtype)).square().mean()

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return ALONE

    def idle(self, rows: int, score: Tensor | None = None) -> str | None:
        """Why the scores cannot be fitted, or None."""
        if self.source == "precomputed" and score is not None and score.abs().max() > 1:
            return (
                f"scores reach from {float(score.min()):g} to {float(score.max()):g}, and a cosine only "
                "from -1 to 1; give scores in that range"
            )
        return None
