"""Order the cosines of all pairs as their scores are ordered."""

from torch import Tensor

from embedrun.loss.cosine import cosine
from embedrun.loss.scored_pairs import OrdersByScore


class Cosent(OrdersByScore):
    r"""Penalise every two pairs whose cosine order contradicts their score order.

    With cosine :math:`c_i` and score :math:`y_i` of pair *i*; :class:`OrdersByScore` has those of triplets.

    .. math:: L = \log\bigl(1 + \sum_{y_i > y_j} e^{(c_j - c_i)/\tau}\bigr)

    Source: Li and Li 2024 (AnglE), Eq. 1, which takes it from Su 2022 (CoSENT),
    https://kexue.fm/archives/8847. Where CoSENT's code multiplies by 20, our τ is 1/20.
    Departure from AnglE's code before release 0.6.0: scores are not truncated to whole numbers,
    which made ties of 4.8 and 4.2 and dropped the comparison.

    Relation: :class:`~embedrun.loss.angle.Angle` is the same sum over another value for each pair.

    Args:
        temperature: τ above, unitless, > 0. Smaller punishes near-ties harder.

    Raises:
        ValueError: if ``temperature`` is not positive.
    """

    def __init__(self, *, temperature: float = 0.05) -> None:
        super().__init__(temperature=temperature)

    def value(self, left: Tensor, right: Tensor) -> Tensor:
        """The cosine of each pair, ``(pairs,)``."""
        return cosine(left, right)
