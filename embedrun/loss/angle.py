"""Order the angle differences of all pairs in complex space as their scores are ordered."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from embedrun.loss.cosine import cosine, normalize, require_pairs, turned_cosine
from embedrun.loss.scored_pairs import OrdersByScore

Delta = Literal["sum", "phase", "modulus"]
Direction = Literal["similar_large", "similar_small"]


class Angle(OrdersByScore):
    r"""Penalise every two pairs whose order in complex space contradicts their score order.

    With δ of :func:`complex_angle` and score :math:`y`, which triplets have, too (:class:`OrdersByScore`),
    `similar_large` and `similar_small` are

    .. math:: L = \log\bigl(1 + \sum_{y_i > y_j} e^{(\delta_j - \delta_i)/\tau}\bigr), \qquad
              L = \log\bigl(1 + \sum_{y_i > y_j} e^{(\delta_i - \delta_j)/\tau}\bigr)

    Source: Li and Li 2024 (AnglE), Eq. 3 to 7. Eq. 7 as printed is `similar_small`. AnglE's released
    code has always optimised `similar_large`, which is the default: its δ is 1, not 0, for two equal
    texts. With `delta="phase"`, an angle, only `similar_small` pulls similar texts together.

    Relation: :class:`~embedrun.loss.cosent.Cosent` is `similar_large` with the cosine as δ.

    Args:
        temperature: τ above, unitless, > 0. AnglE's paper has 1.0, its releases since 2024 have 1/20.
        delta: which reading of Eq. 6; see :func:`complex_angle`.
        direction: whether δ should be large or small for similar texts.

    Raises:
        ValueError: if ``temperature`` is not positive.
    """

    def __init__(
        self, *, temperature: float = 1.0, delta: Delta = "sum", direction: Direction = "similar_large"
    ) -> None:
        super().__init__(temperature=temperature)
        self.delta: Delta = delta
        self.direction: Direction = direction

    def value(self, left: Tensor, right: Tensor) -> Tensor:
        """What should be large for similar texts, ``(pairs,)``."""
        delta = complex_angle(left, right, self.delta)  # (pairs,)
        return delta if self.direction == "similar_large" else -delta


def complex_angle(left: Tensor, right: Tensor, delta: Delta) -> Tensor:
    r"""δ of each pair, ``(pairs,)``: a reading of "angle difference in complex space" (AnglE Eq. 6).

    The first half of a vector holds real parts and the second half imaginary parts, so that a pair is
    *z* = *a* + *b*i and *w* = *c* + *d*i in each complex dimension. Eq. 6 leaves open over what its
    norms and its absolute value run:

    `sum`, what the released code computes:

    .. math:: \delta = \Bigl|\sum(ac + bd) + \sum(bc - ad)\Bigr| \,/\, (\|z\| \|w\|)

    with the norms of the whole vectors. The first sum is the plain cosine; the second changes sign when the
    two texts are swapped. 1 for equal texts, 0 where either vector is zero (the released code divides by 0).

    `phase`: the mean over dimensions of the absolute difference of the phases of *z* and *w*, in radians,
    0 to π. A dimension in which either number is zero has no phase and counts as no difference.

    `modulus`: Eq. 6 taken in each dimension by itself, where the norms cancel the product: 1 whatever the
    texts are, without a gradient. Kept to show why this reading cannot be trained.

    Departure from the released code: a vector of odd width gets one zero at its end.

    Both sides are ``(pairs, dim)``, and need not be unit length. The result is float32 or wider, with a
    finite gradient everywhere.
    """
    require_pairs(left, right)
    if left.shape[1] % 2:
        left, right = pad(left, (0, 1)), pad(right, (0, 1))  # (pairs, dim + 1) each
    if delta == "modulus":
        # Constant, but a function of the texts: its gradient exists and is exactly zero.
        return 1 + 0 * cosine(left, right)
    if delta == "sum":
        # Summed before the absolute value is taken: (ac + bd) + (bc - ad) = a(c - d) + b(c + d).
        return turned_cosine(left, right).abs()
    unit_left, unit_right = normalize(left), normalize(right)  # each (pairs, dim)
    z, w = (
        torch.stack(unit.chunk(2, dim=1), dim=-1) for unit in (unit_left, unit_right)
    )  # (pairs, dim / 2, 2)
    return _phase_difference(z, w).mean(dim=-1)


def _phase_difference(z: Tensor, w: Tensor) -> Tensor:
    """Absolute phase difference, ``(pairs, dim / 2)``, 0 to π, of numbers ``(pairs, dim / 2, 2)``."""
    # Of unit numbers: their product has length 1, far from the origin where atan2 has no gradient.
    (a, b), (c, d) = normalize(z).unbind(dim=-1), normalize(w).unbind(dim=-1)  # each (pairs, dim / 2)
    real, imaginary = a * c + b * d, b * c - a * d
    # Except where either number is zero: there 1 in place of the real part makes the phase 0, with the
    # gradient of that point, because torch promises none at the origin.
    real = real.masked_fill((real == 0) & (imaginary == 0), 1)
    return torch.atan2(imaginary.abs(), real)
