"""Fit the cosine of each pair to a score or to a teacher's cosine."""

from collections.abc import Collection
from typing import Literal

from torch import Tensor, nn

from embedrun.config.scale import range_problem
from embedrun.loss.cosine import cosine, normalize
from embedrun.loss.terms import ALONE, require_shape

Source = Literal["precomputed", "teacher"]


class Mse(nn.Module):
    r"""Mean squared error between cosines :math:`c_i` and wanted similarities :math:`s_i`.

    .. math:: L = \frac1n \sum_i (c_i - s_i)^2

    `precomputed` reads :math:`s` from the `score` of the data set. `teacher` computes it from the vectors of
    frozen encoders for the same texts, as the mean of their cosines. With `scores` :math:`[a, b]` a score
    :math:`g` of the data set is wanted as :math:`s = (g - a) / (b - a)`.

    Source: Reimers and Gurevych 2019 (SBERT), Section 3, regression objective: with `scores: [0, 5]` on
    STS-B, whose scores their code divides by 5. Zhou, Huang and Miao (RAOE), Table 4, where `precomputed` is
    MSE2 and the rest depends on what is read. The caption says that MSE "distills similarities from
    teacher-generated embeddings (on-the-fly)": that is `teacher`. The text calls MSE "direct embedding
    distillation": that is :class:`~embedrun.loss.mse_embeddings.MseEmbeddings`. RAOE releases no code of
    either.

    Args:
        source: `precomputed` or `teacher`; the latter needs `training.teachers`.
        scores: the lowest and the highest score, which become 0 and 1, linearly between; null: as they are.
            Only for `precomputed`.

    Raises:
        ValueError: if ``scores`` is no scale, or not of the ``source``.
    """

    def __init__(self, *, source: Source = "precomputed", scores: list[float] | None = None) -> None:
        super().__init__()
        if scores is not None and source != "precomputed":
            raise ValueError(
                "Mse: scores are of source=precomputed; the cosines of teachers have their scale"
            )
        if scores is not None and (fault := range_problem(scores)):
            raise ValueError(f"Mse: scores: {fault}")
        self.scores = scores
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
            score: wanted cosine, ``(pairs,)``, -1 to 1; with `scores`, on that scale.
            left_teacher: the teachers' vectors of the first texts, ``(pairs, teachers, widest)``, zeros
                behind a vector that is narrower than the widest.
            right_teacher: of the second texts, in the same form.
        """
        if self.source == "precomputed":
            assert score is not None
            wanted = self._scaled(score)  # (pairs,)
        else:
            assert left_teacher is not None
            assert right_teacher is not None
            require_shape("Mse", "left_teacher", left_teacher, len(left), None, None)
            require_shape("Mse", "right_teacher", right_teacher, *left_teacher.shape)
            cosines = (normalize(left_teacher) * normalize(right_teacher)).sum(dim=-1)  # (pairs, teachers)
            wanted = cosines.mean(dim=1)  # (pairs,)
        require_shape("Mse", "score", wanted, len(left))
        similarity = cosine(left, right)  # (pairs,)
        return (similarity - wanted.to(similarity.dtype)).square().mean()

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        return ALONE

    def idle(self, rows: int, score: Tensor | None = None) -> str | None:
        """Why the scores cannot be fitted, or None."""
        if self.source != "precomputed" or score is None:
            return None
        reach = f"scores reach from {float(score.min()):g} to {float(score.max()):g}"
        wanted = self._scaled(score)  # (pairs,)
        if self.scores is None and wanted.abs().max() > 1:
            return (
                f"{reach}, and a cosine only from -1 to 1; give scores in that range, or their scale: "
                "scores: [lowest, highest]"
            )
        if self.scores is not None and (wanted.min() < 0 or wanted.max() > 1):
            return f"{reach}, and scores: {self.scores} names another scale"
        return None

    def _scaled(self, score: Tensor) -> Tensor:
        """Scores, ``(pairs,)``, as wanted cosines."""
        if self.scores is None:
            return score
        low, high = self.scores
        return (score - low) / (high - low)  # (pairs,)
